"""Call a server's tools with approval, checks of structured results, and an audit log."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from mcp_products.json_schema.validator import compile_schema
from mcp_runtime.aio.threads import worker_threads
from mcp_runtime.endpoint.checks import Handler, with_checks
from mcp_runtime.errors import (
    ConnectionClosedError,
    InvalidResponseError,
    LocalError,
    MCPError,
    ProtocolViolationError,
    ToolResultError,
)
from mcp_runtime.protocol.lifecycle import Capabilities, parse_capability_path
from mcp_runtime.protocol.models import format_validation_error, is_object, validator
from mcp_runtime.protocol.revision import InputRequest, Notification, Request, Revision
from mcp_runtime.session.requests import RequestOptions

from .outputs import output_schema
from .roots import readable_roots

Approve = Callable[[str, Mapping[str, Any]], Awaitable[bool]]

audit: Final = logging.getLogger("mcp_runtime.audit")
_MAX_CACHED: Final = 256  # Completions.
_log: Final = logging.getLogger("mcp_runtime.host.tools")
_LIST_HANDLER: Final = "on_list_roots"
_CHANGE_HANDLER: Final = "on_roots_list_changed"
ResultT = TypeVar("ResultT", bound=BaseModel)
ResultT_co = TypeVar("ResultT_co", covariant=True)
AnyResultT = TypeVar("AnyResultT")
# The wrapper and the result of the last call in this task or thread.
_LAST: Final[ContextVar[tuple[object, Any]]] = ContextVar("last_result", default=(None, None))


class ApprovedTools:
    """The tools of a server, called with approval and checked results.

    The tools are listed once, until `forget` is called. Each call writes a line with the tool and the outcome, without
    the arguments, to the logger `mcp_runtime.audit`. See
    https://modelcontextprotocol.io/specification/draft/server/tools#security-considerations
    """

    def __init__(self, client: Any, approve: Approve | None = None) -> None:
        """Create the approved tools of a client's server.

        Args:
            client: A connected client.
            approve: An async function that is called before each call, whatever the annotations of the tool are. It
                gets the name of the tool and the arguments, to show them to a person, and returns True to allow the
                call. By default all calls are allowed.
        """
        self._client = client
        self._approve = approve
        self._schemas: dict[str, Mapping[str, Any] | None] | None = None

    def forget(self) -> None:
        """Forget the list of tools; call it when the server notifies that its tools have changed."""
        self._schemas = None

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: RequestOptions | None = None
    ) -> Any:
        """Return the result of a tool call.

        Args:
            name: The name of the tool.
            arguments: The arguments of the tool; by default none.
            options: How the request is made: timeout, progress, metadata.

        Raises ProtocolViolationError if the call is not approved, and InvalidResponseError if the structured content
        does not match the tool's output schema.
        """
        outcome = "failed"
        try:
            if self._approve is not None and not await self._approve(name, arguments or {}):
                outcome = "denied"
                raise ProtocolViolationError(f"the call of the tool {name!r} was not approved")
            result = await self._client.call_tool(name=name, arguments=arguments, options=options)
            await self._check(name, result)
            outcome = "error" if getattr(result, "is_error", None) else "done"
            return result
        finally:
            audit.info("tool %r: %s", name, outcome)

    async def _check(self, name: str, result: Any) -> None:
        if self._schemas is None:
            tools = [tool async for tool in self._client.iter_tools()]
            self._schemas = {tool.name: output_schema(tool) for tool in tools}
        schema = self._schemas.get(name)
        if schema is None or getattr(result, "is_error", None):
            return
        fields = result.model_dump(warnings=False)  # It may have content of an unknown type.
        if "structuredContent" not in fields:
            raise InvalidResponseError(
                f"the tool {name!r} has an output schema, but its result has no structured content"
            )
        if mismatch := compile_schema(schema).first_error(fields["structuredContent"]):
            raise InvalidResponseError(
                f"the structured content of the tool {name!r} does not match its output schema: {mismatch}"
            )


# Completions for a text field of a client's user interface: debounced requests with a cache.


class CompletionSession:
    """Completions for one text field of a user interface.

    See https://modelcontextprotocol.io/specification/draft/server/utilities/completion
    """

    def __init__(self, client: Any, debounce: float = 0.15) -> None:
        """Create a session for one text field.

        Args:
            client: A connected client of a protocol version that has completions.
            debounce: The seconds to wait for further input before a request is sent.
        """
        self._client = client
        self._debounce = debounce
        self._latest = 0
        self._cache: dict[tuple[str, ...], Any] = {}

    async def complete(self, ref: Any, argument: Any, context: Any = None) -> Any:
        """Return the completion of the server, or None if `complete` was called again meanwhile.

        The same arguments are requested once. Raises MCPError if the request fails.

        Args:
            ref: The reference to the prompt or the resource template.
            argument: The argument, with the text that the user has typed.
            context: The values of other arguments, in protocol versions that have them.
        """
        key = tuple(model.model_dump_json() for model in (ref, argument, context) if model is not None)
        self._latest += 1
        number = self._latest
        if key in self._cache:
            return self._cache[key]
        await asyncio.sleep(self._debounce)
        if number != self._latest:
            return None
        optional: Mapping[str, Any] = {} if context is None else {"context": context}
        completion = (await self._client.complete(ref=ref, argument=argument, **optional)).completion
        if len(self._cache) >= _MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = completion
        return completion


# File system roots of a client: list the readable paths, and notify the server when they change.


class FileRoots:
    """The roots of a client: folders and files of this machine.

    The server gets those that exist and are readable when it requests the roots. While the client is connected, the
    paths are polled, and the server is notified when the list has changed. See
    https://modelcontextprotocol.io/specification/draft/client/roots

    Attributes:
        paths: The absolute paths; may be changed at any time.
        poll_interval: The seconds between two polls.
    """

    def __init__(self, *paths: str | os.PathLike[str], poll_interval: float = 2.0) -> None:
        """Create the roots for these paths.

        Args:
            paths: Folders and files; relative paths start at the current working directory.
            poll_interval: The seconds between two polls of the file system.

        Raises LocalError unless `poll_interval` is more than 0.
        """
        if not poll_interval > 0:
            raise LocalError(f"the poll_interval of roots is more than 0 seconds, not {poll_interval}")
        self.paths = [os.path.abspath(path) for path in paths]
        self.poll_interval = poll_interval

    async def current_uris(self) -> list[str]:
        """Return the URIs of the paths that exist and are readable now.

        A file system may be slow: a worker thread reads it.
        """
        uris: list[str] = await worker_threads().run(readable_roots, list(self.paths))
        return uris

    def add_handler(self, handlers: dict[str, Handler], revision: Revision) -> None:
        """Add the handler that lists these roots. Raises LocalError if the client has one already."""
        for row in revision.rows:
            if row.name == _LIST_HANDLER and isinstance(row, (Request, InputRequest)):
                if row.method in handlers:
                    raise LocalError(
                        f"the client lists its roots in {_LIST_HANDLER}: remove it, or the argument `roots`"
                    )
                handlers[row.method] = with_checks(row.name, self._list_handler(row.result))

    def capabilities(self, revision: Revision) -> Capabilities:
        """Return the capabilities that a client of this protocol version declares to notify about changes."""
        row = self.list_changed_row(revision)
        declared: Any = True
        for step in reversed(() if row is None else parse_capability_path(row.capability)[1]):
            declared = {step: declared}
        return {} if row is None else declared

    def list_changed_row(self, revision: Revision) -> Notification | None:
        """Return the notification of a protocol version that roots have changed; None if it has none."""
        rows = (row for row in revision.rows if isinstance(row, Notification) and row.name == _CHANGE_HANDLER)
        return next(rows, None)

    async def watch(self, uris: list[str], closed: asyncio.Future[None], notify: Callable[[], Awaitable[None]]) -> None:
        """Poll the file system until the connection is closed, and notify the server of each change.

        Args:
            uris: The URIs before the first poll.
            closed: Is done when the connection is closed.
            notify: Send the notification.
        """
        # Polling, because file system events cannot wait for a folder that does not exist yet, and are missing on
        # network file systems.
        while not closed.done():
            previous, uris = uris, await self.current_uris()
            if uris != previous:
                try:
                    await notify()
                except ConnectionClosedError:
                    return
                except MCPError as error:
                    _log.warning("the server was not notified that the roots have changed: %s", error)
            await asyncio.wait([closed], timeout=self.poll_interval)

    def _list_handler(self, result_type: Any) -> Handler:
        async def list_roots(ctx: Any, params: Any) -> Any:
            roots: list[dict[str, str]] = []
            for uri in await self.current_uris():
                name = unquote(uri.rpartition("/")[2])
                roots.append({"uri": uri, "name": name} if name else {"uri": uri})
            return validator(result_type)({"roots": roots})

        return list_roots


# The base classes of the wrappers that `mcp-codegen tools` generates: typed calls of one server's features.
#
# The client may be of any protocol version. Untyped tools, prompts and resources return the result of the client's
# method.


class Unset(Enum):
    """The type of `UNSET`, the default of an argument that is not sent, because `None` is a value that can be sent."""

    ABSENT = "absent"


UNSET: Final = Unset.ABSENT


class CallsTools(Protocol[ResultT_co]):
    """A client of any protocol version; an asynchronous one returns what can be awaited."""

    def call_tool(
        self, *, name: str, arguments: dict[str, Any] | None = ..., options: RequestOptions | None = ...
    ) -> ResultT_co: ...


class GetsPrompts(Protocol[ResultT_co]):
    """A client of any protocol version; an asynchronous one returns what can be awaited."""

    def get_prompt(
        self, *, name: str, arguments: dict[str, str] | None = ..., options: RequestOptions | None = ...
    ) -> ResultT_co: ...


class ReadsResources(Protocol[ResultT_co]):
    """A client of any protocol version; an asynchronous one returns what can be awaited."""

    def read_resource(self, *, uri: str, options: RequestOptions | None = ...) -> ResultT_co: ...


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

    def __init__(self, client: CallsTools[Awaitable[ResultT]]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    async def _call(
        self, name: str, arguments: Mapping[str, object], optional: Mapping[str, object], options: RequestOptions | None
    ) -> ResultT:
        values = _json_arguments(arguments, optional)
        return self._checked(name, await self._client.call_tool(name=name, arguments=values, options=options))


class SyncTypedTools(_StructuredResults[ResultT]):
    """The tools of one server, synchronously. A call raises ToolResultError if the result has `is_error`."""

    def __init__(self, client: CallsTools[ResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    def _call(
        self, name: str, arguments: Mapping[str, object], optional: Mapping[str, object], options: RequestOptions | None
    ) -> ResultT:
        values = _json_arguments(arguments, optional)
        return self._checked(name, self._client.call_tool(name=name, arguments=values, options=options))


class SyncTypedPrompts(Generic[AnyResultT]):
    """The prompts of one server: a call returns what the method of the client returns."""

    def __init__(self, client: GetsPrompts[AnyResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    def _get(self, name: str, arguments: Mapping[str, str | None], options: RequestOptions | None) -> AnyResultT:
        return self._client.get_prompt(name=name, arguments=_without_none(arguments), options=options)


class SyncTypedResources(Generic[AnyResultT]):
    """The resource templates of one server: a call returns what the method of the client returns."""

    def __init__(self, client: ReadsResources[AnyResultT]) -> None:
        """Create the wrapper of a connected client."""
        self._client = client

    def _read(
        self, template: str, values: Mapping[str, str | list[str] | None], options: RequestOptions | None
    ) -> AnyResultT:
        return self._client.read_resource(uri=_expand(template, values), options=options)


TypedPrompts: TypeAlias = SyncTypedPrompts[Awaitable[ResultT]]
TypedResources: TypeAlias = SyncTypedResources[Awaitable[ResultT]]


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
    except ModuleNotFoundError as error:
        raise LocalError("resource templates need uritemplate: pip install 'mcp-generated[app]'") from error
    return expand(template, dict(values))
