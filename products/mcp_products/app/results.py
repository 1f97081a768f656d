"""Structured results of tools: output schemas from return types, and structured content from return values."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from types import GenericAlias, ModuleType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Union, cast, get_args, get_origin

import typing_extensions
from pydantic_core import SchemaError, ValidationError, to_json

from mcp_products.fast.app_answers import scalar_type
from mcp_products.json_schema.validator import CompiledSchema, compile_schema
from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import InvalidMessageError, InvalidSchemaError, LocalError, ToolError
from mcp_runtime.protocol.models import format_validation_error, is_model, is_model_type, is_object
from mcp_runtime.server.context import ServerContext
from mcp_runtime.stores import StoreUnavailableError
from mcp_runtime.usage.texts import escaped, unwritable

from .content import Audio, File, Image, require_finite
from .signatures.descriptions import described, is_description
from .signatures.forms import fallback, holds_any, is_known, serializer_of, serializer_of_class, with_own_names
from .signatures.generated_types import own_type, wire_model

if TYPE_CHECKING:
    import pydantic
    from pydantic import TypeAdapter, errors

    from .signatures import argument_models, type_hints
else:  # Imported when they are used.
    argument_models = LazyModule("mcp_products.app.signatures.argument_models")
    type_hints = LazyModule("mcp_products.app.signatures.type_hints")
    pydantic = LazyModule("pydantic")
    errors = LazyModule("pydantic.errors")

WRAPPED_KEY: Final = "result"
_WRAPPED: Final = "x-fastmcp-wrap-result"  # FastMCP marks a value that is not an object so, for its clients.

_CONTENT: Final = (Image, Audio, File)
_BASES: Final = (str, bool, int, float, bytes)  # A subclass that pydantic does not know is written as one of these.
_BINARY: Final = (bytearray, memoryview)
_SCALARS: Final = (str, int)
_SEQUENCES: Final = (list, tuple, Sequence)
ShownExceptions = tuple[type[Exception], ...]
_log: Final = logging.getLogger("mcp_runtime.app.results")
Call = Callable[[ServerContext, dict[str, Any]], Awaitable[Any]]


class Output(NamedTuple):
    """An output schema, and the function that converts a return value to structured content.

    The function raises InvalidMessageError for a value that does not match the schema. `scalar` is the type of values
    that need no conversion, `str` or `int`, and None for other outputs.
    """

    schema: dict[str, Any]
    structure: Callable[[Any], Any]
    scalar: type | None = None


def output_from_annotation(
    returns: Any, description: str, t: ModuleType, structured_output: bool | None
) -> Output | None:
    """Return the output of a return type; None for content blocks, and types without a JSON Schema.

    `structured_output` is that of `ToolSettings`. Raises LocalError if it is True and there is no output.
    """
    if structured_output is False:
        return None
    if (scalar := scalar_type(returns)) is not None:
        return _scalar_output(returns, scalar, description)
    declared = _declared_type(returns, t)
    if declared is None or (structured_output is None and _is_content(declared)):
        reason = "its return type has no structured content"
    else:
        try:
            output = _output(declared, description)
            reason = "its return type is missing, or declares no fields"
        except _no_schema_errors() as error:
            output, reason = None, f"its return type has no JSON Schema: {str(error).partition(chr(10))[0]}"
        if output is not None:
            return output
    if structured_output:
        raise LocalError(f"{description} cannot have `structured_output=True`: {reason}")
    return None


def _no_schema_errors() -> tuple[type[Exception], ...]:
    """Return what is raised for types without a schema, by pydantic or here."""
    return (LocalError, errors.PydanticUserError, SchemaError, NameError, TypeError, ValueError)


def _scalar_output(declared: Any, name: str, description: str) -> Output:
    """Return the output of `str`, `int`, `float` or `bool`. Its validator is built when it is needed."""

    @cache
    def validated() -> Output:
        return cast(Output, _output(declared, description))

    def structure(value: Any) -> Any:
        return validated().structure(value)

    return Output(_wrap({"type": name}), structure, declared if declared in _SCALARS else None)


def _output(declared: Any, description: str) -> Output | None:
    """Return the output of a type; None for a class without type hints. Raises an error of `_no_schema_errors`."""
    bare = _bare(declared)
    if bare is Any or bare is object or bare in (list, tuple, dict, set, frozenset):
        return None
    declared = described(declared)
    if bare in _BINARY:
        declared, bare = _as_bytes(declared), bytes
    wraps = not _is_object(bare)
    if wraps and not _is_written(bare):
        scalar = next((kind for kind in _BASES if issubclass(bare, kind)), None)
        declared = type_hints.attribute_model(bare) if scalar is None else scalar
        if declared is None:
            return None
        wraps = scalar is not None
    adapter = _adapter(declared)
    schema = adapter.json_schema(mode="serialization", by_alias=True, schema_generator=argument_models.StrictJsonSchema)
    serializer, has_any = serializer_of(adapter.core_schema), holds_any(adapter.core_schema)

    def plain(validated: Any) -> Any:
        # A model is dumped by its own class: it may be a subclass with more fields.
        own = serializer_of_class(cast(Any, type(validated))) if is_model(validated) else serializer
        if has_any:  # What stands there is written by its own class.
            validated = with_own_names(validated)
        if own is not None:
            return own.to_python(validated, mode="json", by_alias=True, fallback=fallback)
        if is_model(validated):
            return validated.model_dump(mode="json", by_alias=True, fallback=fallback)
        return adapter.dump_python(validated, mode="json", by_alias=True, fallback=fallback)

    def structure(value: Any) -> Any:
        validated: Any = value
        try:
            validated = adapter.validate_python(value, by_alias=True, by_name=True)
            structured = plain(validated)
            require_finite(structured, validated)
        except ValidationError as error:
            reason = format_validation_error(error)
        except ValueError as error:
            reason = unwritable(validated, is_known) or str(error)
        except InvalidMessageError as error:
            reason = str(error)
        else:
            return {WRAPPED_KEY: structured} if wraps else structured
        raise InvalidMessageError(f"{description} returned a value that does not match its return type: {reason}")

    return Output(_wrap(schema) if wraps else _object(schema), structure)


def _as_bytes(declared: Any) -> Any:
    """Return the type of bytes, with the metadata of a type of binary data; such data is read as its bytes."""

    def read(value: Any) -> Any:
        return bytes(cast(Any, value)) if isinstance(value, _BINARY) else value

    metadata = get_args(declared)[1:] if get_origin(declared) is Annotated else ()
    return Annotated[(bytes, *metadata, pydantic.BeforeValidator(read))]


def _is_written(bare: Any) -> bool:
    """Return True for a class that pydantic can write, or a named tuple, the types of which may be replaced."""
    if not isinstance(bare, type) or isinstance(bare, GenericAlias):
        return True  # No class: pydantic says later what it thinks of it.
    return type_hints.is_readable(bare) or hasattr(bare, "_fields")


def _adapter(declared: Any) -> TypeAdapter[Any]:
    try:
        return pydantic.TypeAdapter[Any](declared)
    except type_hints.UNREADABLE:
        return pydantic.TypeAdapter[Any](type_hints.readable_hint(declared, type_hints.RESULT))


def compile_declared(keyword: str, schema: Mapping[str, Any], description: str) -> CompiledSchema:
    """Return the validator of a schema that a decorator has got. Raises InvalidSchemaError."""
    try:
        return compile_schema(schema)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"{description}: {keyword}: {error}") from None


def output_from_schema(schema: Mapping[str, Any], description: str) -> Output:
    """Return the output of an explicit output schema. Raises InvalidSchemaError."""
    check, adapter = compile_declared("output_schema", schema, description), pydantic.TypeAdapter[Any](Any)

    def structure(value: Any) -> Any:
        plain: Any = None
        try:
            plain = adapter.dump_python(with_own_names(value), mode="json", by_alias=True, fallback=fallback)
            require_finite(plain, value)
            error = check.first_error(plain)
        except ValueError as exc:
            error = unwritable(value, is_known) or str(exc)
        except InvalidMessageError as exc:
            error = str(exc)
        if error is not None:
            raise InvalidMessageError(f"{description} returned a value that does not match its output schema: {error}")
        return plain

    return Output(dict(schema), structure)


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _declared_type(returns: Any, t: ModuleType) -> Any:
    """Return the type of the structured content that a return type declares, None without one.

    It is the second type of `Annotated[CallToolResult, …]`. Alternatives that are results as a whole have none.
    """
    results = (t.CallToolResult, getattr(t, "InputRequiredResult", t.CallToolResult))

    def is_result(hint: Any) -> bool:
        bare = _bare(hint)
        return isinstance(bare, type) and issubclass(own_type(bare, t) or bare, results)

    if get_origin(returns) is Annotated and is_result(returns):
        types = [item for item in get_args(returns)[1:] if not is_description(item)]
        if not types:
            return None
        first, *metadata = types
        return Annotated[(first, *metadata)] if metadata else first
    if is_result(returns):
        return None
    if get_origin(_bare(returns)) in (Union, UnionType):
        inner = get_args(_bare(returns))
        data = tuple(hint for hint in inner if not is_result(hint))
        if len(data) < len(inner):
            return Union[data] if data else None  # noqa: UP007 — `|` has no form for a tuple of types.
    return returns


def _is_content(hint: Any) -> bool:
    """Return True if a type is that of content blocks, or a union, list or tuple with such a type."""
    bare = _bare(hint)
    if isinstance(bare, type) and not isinstance(bare, GenericAlias):
        return issubclass(bare, (*_CONTENT, wire_model()))
    return get_origin(bare) in (Union, UnionType, *_SEQUENCES) and any(map(_is_content, get_args(bare)))


def _is_object(bare: Any) -> bool:
    """Return True if values of a type are objects in JSON, which need no wrapper.

    `typing.Dict` is not among them: the official SDK wraps it.
    """
    if isinstance(bare, GenericAlias):
        return get_origin(bare) is dict and get_args(bare)[0] is str
    if not isinstance(bare, type):
        return False

    return typing_extensions.is_typeddict(bare) or is_model_type(bare) or type_hints.is_dataclass_type(bare)


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", None)
    wrapper = {"type": "object", "properties": {WRAPPED_KEY: schema}, "required": [WRAPPED_KEY], _WRAPPED: True}
    return wrapper if definitions is None else {**wrapper, "$defs": definitions}


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with its keywords at the top level; pydantic makes a recursive model a `$ref`."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not is_object(definitions := schema.get("$defs")):
        return schema
    own = {key: value for key, value in schema.items() if key not in ("$ref", "$defs")}
    whole = {**definitions[reference.rpartition("/")[2]], **own, "$defs": definitions}
    if f'"{reference}"'.encode() not in to_json(whole):  # It does not contain itself.
        whole["$defs"] = {name: item for name, item in definitions.items() if not reference.endswith(f"/{name}")}
    return whole if whole["$defs"] else {key: value for key, value in whole.items() if key != "$defs"}


# What the result of a failed tool call shows to the model.


def failure_message(error: Exception, shown_exceptions: ShownExceptions, description: str) -> str:
    """Return the text of an exception if its class is shown, else only that the tool failed; then log the exception."""
    if isinstance(error, shown_exceptions):
        return escaped(str(error))
    _log.error("%s failed", description, exc_info=error)
    unavailable = ": the store of this server cannot be reached; call it again later"
    return f"{description} failed{unavailable if isinstance(error, StoreUnavailableError) else ''}"


class ToolFailures:
    """The exceptions of tools that pass through middleware, with what their apps show of them."""

    def __init__(self) -> None:
        self._raised: list[tuple[Exception, ShownExceptions, str]] = []

    def add(self, error: Exception, shown_exceptions: ShownExceptions, description: str) -> None:
        """Add the exception of a tool; an earlier one of the same call is replaced."""
        self._raised = [(error, shown_exceptions, description)]

    def message(self, error: Exception, shown_exceptions: ShownExceptions, description: str) -> str:
        """Return the text for the exception that leaves the middleware.

        An exception of the tool is shown by the rules of its app, another one by those of the arguments.
        """
        for raised, shown, tool in self._raised:
            if raised is error:
                shown_exceptions, description = shown, tool
        self._raised.clear()  # The exception has a reference to the frame of the caller.
        return failure_message(error, shown_exceptions, description)


# The time-outs of tools.


def with_timeout(call: Call, timeout: Any, description: str) -> Call:
    """Return a call of a function that is cancelled after `timeout` seconds, and raises ToolError then.

    A plain `def` function runs on in its thread; its value is dropped. Raises LocalError for a time-out that is no
    positive number.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise LocalError(f"{description}: timeout={timeout!r} is not a number of seconds above 0, such as timeout=30")

    async def call_in_time(ctx: ServerContext, arguments: dict[str, Any]) -> Any:
        scope = asyncio.timeout(timeout)
        try:
            async with scope:
                return await call(ctx, arguments)
        except TimeoutError:
            if not scope.expired():  # The function has raised it itself.
                raise
            raise ToolError(f"{description} timed out after {timeout:g} s") from None

    return call_in_time
