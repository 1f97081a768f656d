"""A client goes in, what `mcp-codegen tools` writes stands on top: typed calls of what one server offers.

The client may be of any revision: an untyped tool, a prompt and a resource give what that client's own method gives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from ..errors import InvalidResponseError, LocalError, ToolResultError
from ..protocol.models import format_validation_error, is_object, validator
from ..session.options import RequestOptions

ResultT = TypeVar("ResultT", bound=BaseModel)
ResultT_co = TypeVar("ResultT_co", bound=BaseModel, covariant=True)


class Unset(Enum):
    """The value of an argument that is not sent, where `None` is a value that can be."""

    ABSENT = "absent"


UNSET: Final = Unset.ABSENT


class CallsTools(Protocol[ResultT_co]):
    """A client of any revision, as far as tools go."""

    def call_tool(
        self, *, name: str, arguments: dict[str, Any] | None = ..., options: RequestOptions | None = ...
    ) -> Awaitable[ResultT_co]: ...


class CallsToolsSync(Protocol[ResultT_co]):
    """A synchronous client of any revision, as far as tools go."""

    def call_tool(
        self, *, name: str, arguments: dict[str, Any] | None = ..., options: RequestOptions | None = ...
    ) -> ResultT_co: ...


class GetsPrompts(Protocol[ResultT_co]):
    """A client of any revision, as far as prompts go."""

    def get_prompt(
        self, *, name: str, arguments: dict[str, str] | None = ..., options: RequestOptions | None = ...
    ) -> Awaitable[ResultT_co]: ...


class GetsPromptsSync(Protocol[ResultT_co]):
    """A synchronous client of any revision, as far as prompts go."""

    def get_prompt(
        self, *, name: str, arguments: dict[str, str] | None = ..., options: RequestOptions | None = ...
    ) -> ResultT_co: ...


class ReadsResources(Protocol[ResultT_co]):
    """A client of any revision, as far as resources go."""

    def read_resource(self, *, uri: str, options: RequestOptions | None = ...) -> Awaitable[ResultT_co]: ...


class ReadsResourcesSync(Protocol[ResultT_co]):
    """A synchronous client of any revision, as far as resources go."""

    def read_resource(self, *, uri: str, options: RequestOptions | None = ...) -> ResultT_co: ...


class _Structured:
    def _structured_content(self, shape: Any, name: str, result: BaseModel) -> Any:
        """The structured content of a tool's result, as this type. Raises InvalidResponseError where it is not."""
        content = getattr(result, "structured_content", None)
        if content is None:  # A revision that does not know the property keeps it among the unknown ones.
            content = (result.model_extra or {}).get("structuredContent")
        try:
            return validator(shape)(content)
        except ValidationError as fault:
            raise InvalidResponseError(
                f"tool {name!r}: structured content: {format_validation_error(fault)}"
            ) from fault


class TypedTools(_Structured, Generic[ResultT]):
    """Tools of one server. A call raises ToolResultError where the tool says that it failed."""

    def __init__(self, client: CallsTools[ResultT]) -> None:
        self._client = client

    async def _call(
        self, name: str, arguments: Mapping[str, object], given: Mapping[str, object], options: RequestOptions | None
    ) -> ResultT:
        sent = _sent_arguments(arguments, given)
        return _checked_result(name, await self._client.call_tool(name=name, arguments=sent, options=options))


class SyncTypedTools(_Structured, Generic[ResultT]):
    """Tools of one server. A call raises ToolResultError where the tool says that it failed."""

    def __init__(self, client: CallsToolsSync[ResultT]) -> None:
        self._client = client

    def _call(
        self, name: str, arguments: Mapping[str, object], given: Mapping[str, object], options: RequestOptions | None
    ) -> ResultT:
        return _checked_result(
            name, self._client.call_tool(name=name, arguments=_sent_arguments(arguments, given), options=options)
        )


class TypedPrompts(Generic[ResultT]):
    """Prompts of one server."""

    def __init__(self, client: GetsPrompts[ResultT]) -> None:
        self._client = client

    async def _get(self, name: str, arguments: Mapping[str, str | None], options: RequestOptions | None) -> ResultT:
        return await self._client.get_prompt(name=name, arguments=_given_arguments(arguments), options=options)


class SyncTypedPrompts(Generic[ResultT]):
    """Prompts of one server."""

    def __init__(self, client: GetsPromptsSync[ResultT]) -> None:
        self._client = client

    def _get(self, name: str, arguments: Mapping[str, str | None], options: RequestOptions | None) -> ResultT:
        return self._client.get_prompt(name=name, arguments=_given_arguments(arguments), options=options)


class TypedResources(Generic[ResultT]):
    """Resource templates of one server."""

    def __init__(self, client: ReadsResources[ResultT]) -> None:
        self._client = client

    async def _read(
        self, template: str, values: Mapping[str, str | list[str] | None], options: RequestOptions | None
    ) -> ResultT:
        return await self._client.read_resource(uri=_expand(template, values), options=options)


class SyncTypedResources(Generic[ResultT]):
    """Resource templates of one server."""

    def __init__(self, client: ReadsResourcesSync[ResultT]) -> None:
        self._client = client

    def _read(
        self, template: str, values: Mapping[str, str | list[str] | None], options: RequestOptions | None
    ) -> ResultT:
        return self._client.read_resource(uri=_expand(template, values), options=options)


def _checked_result(name: str, result: ResultT) -> ResultT:
    if getattr(result, "is_error", None):
        texts = [str(getattr(each, "text", "")) for each in getattr(result, "content", [])]
        raise ToolResultError(f"tool {name!r}: {' '.join(filter(None, texts)) or 'failed without a word'}", result)
    return result


def _sent_arguments(arguments: Mapping[str, object], given: Mapping[str, object]) -> dict[str, Any]:
    """The arguments as JSON, without those that are absent, and those of the second kind that are None."""
    values = {wire: value for wire, value in arguments.items() if value is not UNSET}
    sent = to_jsonable_python(values | {wire: value for wire, value in given.items() if value is not None})
    assert is_object(sent)
    return sent


def _given_arguments(arguments: Mapping[str, str | None]) -> dict[str, str]:
    return {wire: value for wire, value in arguments.items() if value is not None}


def _expand(template: str, values: Mapping[str, str | list[str] | None]) -> str:
    try:
        from uritemplate import expand  # Only resource templates need it.
    except ImportError as fault:
        raise LocalError("resource templates need uritemplate: pip install 'mcp-codegen[app]'") from fault
    return expand(template, dict(values))
