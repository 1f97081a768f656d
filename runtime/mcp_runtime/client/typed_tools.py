"""The base classes of the wrappers that `mcp-codegen tools` generates: typed calls of one server's features.

The client may be of any protocol version. Untyped tools, prompts and resources return the result of the client's
method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from ..errors import InvalidResponseError, LocalError, ToolResultError
from ..protocol.models import format_validation_error, is_object, validator
from ..session.options import RequestOptions

ResultT = TypeVar("ResultT", bound=BaseModel)
ResultT_co = TypeVar("ResultT_co", bound=BaseModel, covariant=True)


class Unset(Enum):
    """The type of `UNSET`, the default of an argument that is not sent, because `None` is a value that can be sent."""

    ABSENT = "absent"


UNSET: Final = Unset.ABSENT


class CallsTools(Protocol[ResultT_co]):
    """A client of any protocol version, with the method that tools need."""

    def call_tool(
        self, *, name: str, arguments: dict[str, Any] | None = ..., options: RequestOptions | None = ...
    ) -> Awaitable[ResultT_co]: ...


class CallsToolsSync(Protocol[ResultT_co]):
    """A synchronous client of any protocol version, with the method that tools need."""

    def call_tool(
        self, *, name: str, arguments: dict[str, Any] | None = ..., options: RequestOptions | None = ...
    ) -> ResultT_co: ...


class GetsPrompts(Protocol[ResultT_co]):
    """A client of any protocol version, with the method that prompts need."""

    def get_prompt(
        self, *, name: str, arguments: dict[str, str] | None = ..., options: RequestOptions | None = ...
    ) -> Awaitable[ResultT_co]: ...


class GetsPromptsSync(Protocol[ResultT_co]):
    """A synchronous client of any protocol version, with the method that prompts need."""

    def get_prompt(
        self, *, name: str, arguments: dict[str, str] | None = ..., options: RequestOptions | None = ...
    ) -> ResultT_co: ...


class ReadsResources(Protocol[ResultT_co]):
    """A client of any protocol version, with the method that resources need."""

    def read_resource(self, *, uri: str, options: RequestOptions | None = ...) -> Awaitable[ResultT_co]: ...


class ReadsResourcesSync(Protocol[ResultT_co]):
    """A synchronous client of any protocol version, with the method that resources need."""

    def read_resource(self, *, uri: str, options: RequestOptions | None = ...) -> ResultT_co: ...


# The wrapper and the result of the last call in this task or thread.
_LAST: Final[ContextVar[tuple[object, Any]]] = ContextVar("last_result", default=(None, None))


class _StructuredResults(Generic[ResultT]):
    @property
    def last_result(self) -> ResultT:
        """Return the whole result of the last call in this task or thread: its content and `_meta` too.

        Raises LocalError before the first call.
        """
        owner, result = _LAST.get()
        if owner is not self:
            raise LocalError(
                f"last_result: no call of this {type(self).__name__} was the last one here; call a tool first"
            )
        return cast("ResultT", result)

    def _checked(self, name: str, result: ResultT) -> ResultT:
        if getattr(result, "is_error", None):
            texts = [str(getattr(block, "text", "")) for block in getattr(result, "content", [])]
            text = " ".join(filter(None, texts)) or "failed without a message"
            raise ToolResultError(f"tool {name!r}: {text}", result)
        _LAST.set((self, result))
        return result

    def _structured_content(self, shape: Any, name: str, result: BaseModel) -> Any:
        """Return the structured content of a tool's result as this type. Raises InvalidResponseError if it does not
        match."""
        content = getattr(result, "structured_content", None)
        if content is None:  # Protocol versions without this property have it among the unknown ones.
            content = (result.model_extra or {}).get("structuredContent")
        try:
            return validator(shape)(content)
        except ValidationError as error:
            raise InvalidResponseError(
                f"tool {name!r}: structured content: {format_validation_error(error)}"
            ) from error


class TypedTools(_StructuredResults[ResultT]):
    """The tools of one server. A call raises ToolResultError if the result has `is_error`."""

    def __init__(self, client: CallsTools[ResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    async def _call(
        self, name: str, arguments: Mapping[str, object], optional: Mapping[str, object], options: RequestOptions | None
    ) -> ResultT:
        values = _json_arguments(arguments, optional)
        return self._checked(name, await self._client.call_tool(name=name, arguments=values, options=options))


class SyncTypedTools(_StructuredResults[ResultT]):
    """The tools of one server, synchronously. A call raises ToolResultError if the result has `is_error`."""

    def __init__(self, client: CallsToolsSync[ResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    def _call(
        self, name: str, arguments: Mapping[str, object], optional: Mapping[str, object], options: RequestOptions | None
    ) -> ResultT:
        values = _json_arguments(arguments, optional)
        return self._checked(name, self._client.call_tool(name=name, arguments=values, options=options))


class TypedPrompts(Generic[ResultT]):
    """The prompts of one server."""

    def __init__(self, client: GetsPrompts[ResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    async def _get(self, name: str, arguments: Mapping[str, str | None], options: RequestOptions | None) -> ResultT:
        return await self._client.get_prompt(name=name, arguments=_without_none(arguments), options=options)


class SyncTypedPrompts(Generic[ResultT]):
    """The prompts of one server, synchronously."""

    def __init__(self, client: GetsPromptsSync[ResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    def _get(self, name: str, arguments: Mapping[str, str | None], options: RequestOptions | None) -> ResultT:
        return self._client.get_prompt(name=name, arguments=_without_none(arguments), options=options)


class TypedResources(Generic[ResultT]):
    """The resource templates of one server."""

    def __init__(self, client: ReadsResources[ResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    async def _read(
        self, template: str, values: Mapping[str, str | list[str] | None], options: RequestOptions | None
    ) -> ResultT:
        return await self._client.read_resource(uri=_expand(template, values), options=options)


class SyncTypedResources(Generic[ResultT]):
    """The resource templates of one server, synchronously."""

    def __init__(self, client: ReadsResourcesSync[ResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    def _read(
        self, template: str, values: Mapping[str, str | list[str] | None], options: RequestOptions | None
    ) -> ResultT:
        return self._client.read_resource(uri=_expand(template, values), options=options)


def _json_arguments(arguments: Mapping[str, object], optional: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments as JSON by wire name, without those that are UNSET, and without optional ones that are
    None."""
    values = {wire: value for wire, value in arguments.items() if value is not UNSET}
    result = to_jsonable_python(values | {wire: value for wire, value in optional.items() if value is not None})
    assert is_object(result)
    return result


def _without_none(arguments: Mapping[str, str | None]) -> dict[str, str]:
    return {wire: value for wire, value in arguments.items() if value is not None}


def _expand(template: str, values: Mapping[str, str | list[str] | None]) -> str:
    try:
        from uritemplate import expand  # Only resource templates need it.
    except ImportError as error:
        raise LocalError("resource templates need uritemplate: pip install 'mcp-generated[app]'") from error
    return expand(template, dict(values))
