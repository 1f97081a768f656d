"""Structured results of tools: output schemas from return types, and structured content from return values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, cast, get_args, get_origin, is_typeddict

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError

from ..errors import InvalidMessageError, LocalError
from ..json_schema.validator import compile_schema
from ..protocol.models import WireModel, format_validation_error, is_object
from .content import AssistantMessage, Audio, Image, UserMessage
from .signature import JsonSchema

WRAPPED_KEY: Final = "result"

_CONTENT: Final = (Image, Audio, UserMessage, AssistantMessage, WireModel)
_PLAIN: Final = (str, NoneType)


class Output(NamedTuple):
    """An output schema, and the function that converts a return value to structured content.

    The function raises InvalidMessageError for a value that does not match the schema.
    """

    schema: dict[str, Any]
    structure: Callable[[Any], Any]


def output_from_annotation(returns: Any, description: str) -> Output | None:
    """Return the output of a return type; None for text, content blocks, and types without a JSON Schema.

    Raises LocalError for a type that pydantic rejects.
    """
    if returns is Any or returns is object or _is_content(returns):
        return None
    try:
        adapter = TypeAdapter[Any](returns)
        schema = adapter.json_schema(mode="serialization", by_alias=True, schema_generator=JsonSchema)
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError):
        return None
    except PydanticUserError as error:
        raise LocalError(f"{description}: its return type has no JSON Schema: {error.message}") from None
    wraps = not _is_object(returns)

    def structure(value: Any) -> Any:
        try:
            structured = adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True)
        except ValidationError as error:
            raise InvalidMessageError(
                f"{description} returned a value that does not match its return type: {format_validation_error(error)}"
            ) from None
        return {WRAPPED_KEY: structured} if wraps else structured

    return Output(_wrap(schema) if wraps else _object(schema), structure)


def output_from_schema(schema: Mapping[str, Any], description: str) -> Output:
    """Return the output of an explicit output schema. Raises InvalidSchemaError."""
    check = compile_schema(schema)

    def structure(value: Any) -> Any:
        plain = TypeAdapter(Any).dump_python(value, mode="json", by_alias=True)
        error = check.first_error(plain)
        if error is not None:
            raise InvalidMessageError(f"{description} returned a value that does not match its output schema: {error}")
        return plain

    return Output(dict(schema), structure)


def _is_content(hint: Any) -> bool:
    """Return True if values of the type become content without structure: text, or one or more content blocks."""
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
    """Return True if the type contains a content type."""
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
    wrapper = {"type": "object", "properties": {WRAPPED_KEY: schema}, "required": [WRAPPED_KEY]}
    return wrapper if definitions is None else {**wrapper, "$defs": definitions}


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with its keywords at the top level; pydantic makes a recursive model a `$ref`."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not is_object(definitions := schema.get("$defs")):
        return schema
    return {**definitions[reference.rpartition("/")[2]], "$defs": definitions}
