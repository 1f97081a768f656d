"""Messages that the protocol does not have: their names, their params and their results as values of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError, to_jsonable_python

from mcp_runtime._lazy import LazyModule
from mcp_runtime.endpoint.base import protocol_names
from mcp_runtime.errors import InvalidResponseError, LocalError
from mcp_runtime.protocol.models import format_validation_error, is_object
from mcp_runtime.protocol.revision import OPPOSITE, Direction
from mcp_runtime.usage.rules import shown

if TYPE_CHECKING:
    import pydantic
else:
    pydantic = LazyModule("pydantic")  # A server without own messages starts without it.


def check_name(place: str, method: object, package: str, direction: Direction, line: Callable[[str], str]) -> None:
    """Raise LocalError unless a method is a name with the prefix of a vendor, which the protocol does not have.

    Args:
        place: Where the method was written, as the error names it: `notify()` for an argument of that function.
        method: The method.
        package: The generated package of the protocol.
        direction: The direction of its messages.
        line: Returns what to write instead, of the name of the handler of a method of the protocol.
    """
    if not isinstance(method, str) or "/" not in method.strip("/") or method != method.strip():
        example = 'a method begins with the name of its vendor, such as "acme/search"'
        raise LocalError(f"{place}: {example}; {shown(method)} does not")
    name = protocol_names(package, direction).get(method)
    if name is not None:
        raise LocalError(f"{place}: {method!r} is a method of the protocol: {line(name)}")
    if method in protocol_names(package, OPPOSITE[direction]):
        raise LocalError(f"{place}: {method!r} is a method of the protocol that goes the other way")


def as_json(place: str, value: object, fallback: Callable[[Any], Any] | None = None) -> Any:
    """Return a value as JSON. Raises LocalError if it has no form there; `place` is what has the value."""
    try:
        return to_jsonable_python(value, by_alias=True, fallback=fallback)
    except ValueError as error:
        raise LocalError(f"{place} cannot be written as JSON: {error}") from None


def json_of(function: str, params: object) -> dict[str, Any]:
    """Return the params of an own message as JSON. Raises LocalError for something that is not an object."""
    value: Any = {} if params is None else as_json(f"{function}(): params", params)
    if not is_object(value):
        raise LocalError(f"{function}(): params must be a dict or a model; {shown(params)} is not")
    return value


def type_adapter(place: str, kind: Any) -> pydantic.TypeAdapter[Any]:
    """Return what reads values of a type. Raises LocalError for something that is none; `place` is what has it."""
    try:
        return pydantic.TypeAdapter(kind)
    except pydantic.PydanticUserError as error:
        reason, *_ = error.message.split(". ")
        raise LocalError(f"{place} must be a type that pydantic reads: {reason}") from None


def read_result(method: str, fields: dict[str, Any], result: Any) -> Any:
    """Return the result of an own request as a type; as a dict without one. Raises InvalidResponseError."""
    if result is None:
        return fields
    try:
        return type_adapter("request(): result", result).validate_python(fields)
    except ValidationError as error:
        raise InvalidResponseError(f"{method!r}: the result: {format_validation_error(error)}") from None
