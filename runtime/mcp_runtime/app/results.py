"""A return type goes in; the output schema, and how what is returned becomes structured content, come out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    Union,
    cast,
    get_args,
    get_origin,
    is_typeddict,
)

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUserError,
)

from ..errors import InvalidMessageError, LocalError
from ..json_schema.validator import compile_schema
from ..protocol.models import WireModel, format_validation_error, is_object
from .content import AssistantMessage, Audio, Image, UserMessage
from .signature import JsonSchema

WRAPPED_KEY: Final = "result"

_CONTENT: Final = (Image, Audio, UserMessage, AssistantMessage, WireModel)
_PLAIN: Final = (str, NoneType)


class Output(NamedTuple):
    """The schema of structured content, and what turns a returned value into it (raising InvalidMessageError)."""

    schema: dict[str, Any]
    structure: Callable[[Any], Any]


def output_from_annotation(returns: Any, description: str) -> Output | None:
    """How a return type is structured; None where it is text, content blocks, or cannot be described."""
    if returns is Any or returns is object or _is_content(returns):
        return None
    try:
        adapter = TypeAdapter[Any](returns)
        schema = adapter.json_schema(mode="serialization", by_alias=True, schema_generator=JsonSchema)
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError):
        return None
    except PydanticUserError as fault:
        raise LocalError(f"{description}: its return type cannot be described: {fault.message}") from None
    wraps = not _is_object(returns)

    def structure(value: Any) -> Any:
        try:
            found = adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True)
        except ValidationError as fault:
            raise InvalidMessageError(
                f"{description} returned what its type does not allow: {format_validation_error(fault)}"
            ) from None
        return {WRAPPED_KEY: found} if wraps else found

    return Output(_wrap(schema) if wraps else _object(schema), structure)


def output_from_schema(schema: Mapping[str, Any], description: str) -> Output:
    """Structured content as a schema says that was given by hand. Raises InvalidSchemaError."""
    check = compile_schema(schema)

    def structure(value: Any) -> Any:
        plain = TypeAdapter(Any).dump_python(value, mode="json", by_alias=True)
        fault = check.first_error(plain)
        if fault is not None:
            raise InvalidMessageError(f"{description} returned what its output schema does not allow: {fault}")
        return plain

    return Output(dict(schema), structure)


def _is_content(hint: Any) -> bool:
    """Whether values of the type are shown as they are: text, or content blocks, alone or several."""
    if hint is None or hint in _PLAIN:
        return True
    if isinstance(hint, type) and issubclass(hint, _CONTENT):
        return True
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_content(inner[0])
    if origin in (Union, UnionType):
        return all(map(_is_content, inner)) or any(map(_is_displayable, inner))
    return any(map(_is_displayable, inner)) if hint in (list, tuple) or origin is not None else hint in (list, tuple)


def _is_displayable(hint: Any) -> bool:
    """Whether a block of its own is somewhere in the type."""
    if isinstance(hint, type) and issubclass(hint, _CONTENT):
        return True
    return any(map(_is_displayable, get_args(hint)))


def _is_object(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_object(get_args(hint)[0])
    kind: object = get_origin(hint) or hint
    if not isinstance(kind, type) or is_typeddict(kind):
        return is_typeddict(kind)
    return issubclass(kind, (BaseModel, dict)) or dataclasses.is_dataclass(cast(object, kind))


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", None)
    whole = {"type": "object", "properties": {WRAPPED_KEY: schema}, "required": [WRAPPED_KEY]}
    return whole if definitions is None else {**whole, "$defs": definitions}


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """With the type said at the top, also where the schema of a model that holds itself only refers to it."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not is_object(definitions := schema.get("$defs")):
        return schema
    return {**definitions[reference.rpartition("/")[2]], "$defs": definitions}
