"""`ClientSession` of the official SDK: a client over the two streams of a transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel

from ..bindings.client import BaseClient
from ..bindings.server import BaseServer
from ..errors import ConnectionClosedError, LocalError
from ..protocol.revision import Handshake
from ..session.options import Progress
from .mcp_errors import received_errors
from .stream_ends import ClientStream, memory_client

Callback = Callable[..., Awaitable[Any]]
Seconds = float | timedelta | None


class SessionBase:
    """A client over the two streams of a transport: `initialize`, then send requests."""

    client_class: ClassVar[type[BaseClient]]
    types: ClassVar[ModuleType]
    handshakes: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        read_stream: object,
        write_stream: object,
        read_timeout_seconds: Seconds = None,
        sampling_callback: Callback | None = None,
        elicitation_callback: Callback | None = None,
        list_roots_callback: Callback | None = None,
        logging_callback: Callback | None = None,
        *,
        message_handler: Callback | None = None,
        client_info: Any = None,
        sampling_capabilities: BaseModel | None = None,
    ) -> None:
        """Create a session.

        Args:
            read_stream: A stream of `stdio_client`, `streamable_http_client` or `sse_client`.
            write_stream: The other stream.
            read_timeout_seconds: Seconds to wait for a result; by default 60.
            sampling_callback: Called with the context and the params when the server samples a message.
            elicitation_callback: Called with the context and the params when the server elicits input.
            list_roots_callback: Called with the context when the server lists the roots.
            logging_callback: Called with the params of each log message.
            message_handler: Called with each notification of the server.
            client_info: The `Implementation` that describes the client.
            sampling_capabilities: What the client declares about sampling.

        Raises LocalError for streams of another library.
        """
        if not isinstance(read_stream, ClientStream):
            raise LocalError(
                f"ClientSession: read_stream is a {type(read_stream).__name__}; pass the streams of `stdio_client(…)`"
                " or `streamable_http_client(…)`"
            )
        members = _handlers(
            sampling_callback, elicitation_callback, list_roots_callback, logging_callback, message_handler
        )
        settings: dict[str, Any] = {"revisions": self.handshakes}
        if client_info is not None:
            settings |= {"name": client_info.name, "version": client_info.version}
        if sampling_capabilities is not None:
            declared = sampling_capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
            settings["capabilities"] = {"sampling": declared}
        client_class = type("SessionClient", (self.client_class,), members)
        self._client = read_stream.start(client_class, settings)
        self._timeout = read_timeout_seconds
        self._initialized: BaseModel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._initialized is not None:
            await self._client.__aexit__(None, None, None)

    async def initialize(self) -> Any:
        """Connect, and return the `InitializeResult`. Raises McpError."""
        if self._initialized is None:
            with received_errors():
                await self._client.__aenter__()
            self._initialized = self._adapter().server
        return self._initialized

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def list_tools(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return one page of the tools. Raises McpError, as all requests."""
        return await self._request("list_tools", cursor=_cursor(cursor, params))

    async def list_resources(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return one page of the resources."""
        return await self._request("list_resources", cursor=_cursor(cursor, params))

    async def list_resource_templates(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return one page of the resource templates."""
        return await self._request("list_resource_templates", cursor=_cursor(cursor, params))

    async def list_prompts(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return one page of the prompts."""
        return await self._request("list_prompts", cursor=_cursor(cursor, params))

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: Seconds = None,
        progress_callback: Callback | None = None,
        *,
        meta: dict[str, Any] | None = None,
    ) -> Any:
        """Call a tool, and return the result."""
        keywords: dict[str, Any] = {"meta": meta} if meta else {}
        if progress_callback is not None:
            keywords["on_progress"] = partial(self._report, progress_callback)
        return await self._request("call_tool", read_timeout_seconds, name=name, arguments=arguments, **keywords)

    async def read_resource(self, uri: Any, *, meta: dict[str, Any] | None = None) -> Any:
        """Read a resource, and return the result."""
        return await self._request("read_resource", uri=str(uri), **({"meta": meta} if meta else {}))

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, meta: dict[str, Any] | None = None
    ) -> Any:
        """Get a prompt with its arguments filled in."""
        return await self._request("get_prompt", name=name, arguments=arguments, **({"meta": meta} if meta else {}))

    async def complete(
        self, ref: Any, argument: Mapping[str, str], context_arguments: dict[str, str] | None = None
    ) -> Any:
        """Return completions of an argument."""
        t = self.types
        context = None if context_arguments is None else t.CompletionContext(arguments=context_arguments)
        return await self._request("complete", ref=ref, argument=t.CompletionArgument(**argument), context=context)

    async def send_ping(self) -> Any:
        """Send a ping, and return the result."""
        return await self._lifecycle_request("ping_request", {})

    async def set_logging_level(self, level: str) -> Any:
        """Set the minimum level of log messages."""
        return await self._lifecycle_request("set_level", {"level": level})

    async def subscribe_resource(self, uri: Any) -> Any:
        """Subscribe to changes of a resource."""
        return await self._lifecycle_request("subscribe", {"uri": str(uri)})

    async def unsubscribe_resource(self, uri: Any) -> Any:
        """Unsubscribe from changes of a resource."""
        return await self._lifecycle_request("unsubscribe", {"uri": str(uri)})

    # ---- notifications ----------------------------------------------------------------------------------------------

    async def send_notification(self, notification: Any) -> None:
        """Send a notification of the protocol, such as a `CancelledNotification`."""
        adapter: Any = self._adapter()
        message = getattr(notification, "root", notification)
        row = adapter.revision.table("client_to_server").get(message.method)
        if row is None:
            raise LocalError(f"ClientSession: there is no notification {message.method!r} in {adapter.revision.id}")
        params = message.params
        fields = params.model_dump(mode="json", by_alias=True) if isinstance(params, BaseModel) else params or {}
        await adapter._send_notification(row, fields, None)

    async def send_roots_list_changed(self) -> None:
        """Notify the server that the roots have changed."""
        await self.send_notification(self.types.RootsListChangedNotification())

    async def send_progress_notification(
        self, progress_token: str | int, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Notify the server of the progress of a request of the server."""
        fields = {"progress_token": progress_token, "progress": progress, "total": total, "message": message}
        t = self.types
        await self.send_notification(t.ProgressNotification(params=t.ProgressNotificationParams(**fields)))

    # ---- what the server has declared -------------------------------------------------------------------------------

    def get_server_capabilities(self) -> Any:
        """Return the capabilities of the server; None before `initialize`."""
        return getattr(self._initialized, "capabilities", None)

    @property
    def initialize_result(self) -> Any:
        """The `InitializeResult`; None before `initialize`."""
        return self._initialized

    @property
    def server_info(self) -> Any:
        """The `Implementation` that describes the server; None before `initialize`."""
        return getattr(self._initialized, "server_info", None)

    @property
    def server_capabilities(self) -> Any:
        """The capabilities of the server; None before `initialize`."""
        return self.get_server_capabilities()

    @property
    def instructions(self) -> str | None:
        """Instructions of the server for the model."""
        return getattr(self._initialized, "instructions", None)

    @property
    def protocol_version(self) -> str | None:
        """The id of the negotiated protocol version; None before `initialize`."""
        return getattr(self._initialized, "protocol_version", None)

    # ---- the client -------------------------------------------------------------------------------------------------

    def _adapter(self) -> Any:
        """Return the client of the negotiated protocol version."""
        session: Any = self._client._session  # pyright: ignore[reportPrivateUsage]
        if session is None:
            raise ConnectionClosedError(
                "ClientSession: there is no connection; call `await session.initialize()` first"
            )
        return session._adapter

    async def _request(self, method: str, timeout: Seconds = None, /, **arguments: Any) -> Any:
        self._adapter()
        seconds = _seconds(timeout if timeout is not None else self._timeout)
        if seconds is not None:
            arguments["timeout"] = seconds
        with received_errors():
            return await getattr(self._client, method)(**arguments)

    async def _lifecycle_request(self, name: str, params: dict[str, Any]) -> Any:
        adapter = self._adapter()
        assert isinstance(adapter.revision.lifecycle, Handshake), "a session has a handshake"
        with received_errors():
            return await adapter._send_request(getattr(adapter.revision.lifecycle, name), params, None)

    def _report(self, callback: Callback, progress: Progress) -> None:
        import asyncio

        task = asyncio.ensure_future(callback(progress.progress, progress.total, progress.message))
        self._client._background.append(task)  # pyright: ignore[reportPrivateUsage]


SessionT = TypeVar("SessionT", bound=SessionBase)


@asynccontextmanager
async def connected_session(
    session_class: type[SessionT], server: BaseServer, settings: dict[str, Any]
) -> AsyncGenerator[SessionT]:
    """Yield an initialized session with a server of this process."""
    async with memory_client([server]) as (read, write), session_class(read, write, **settings) as session:
        await session.initialize()
        yield session


def _handlers(
    sampling: Callback | None,
    elicitation: Callback | None,
    roots: Callback | None,
    logging: Callback | None,
    message_handler: Callback | None,
) -> dict[str, Any]:
    """Return the methods of a client that call these callbacks."""
    members: dict[str, Any] = {}
    if sampling is not None:
        members["on_create_message"] = _answering(sampling)
    if elicitation is not None:
        members["on_elicit"] = _answering(elicitation)
    if roots is not None:

        async def list_roots(self: BaseClient, ctx: Any, params: Any) -> Any:
            return await roots(ctx)

        members["on_list_roots"] = list_roots
    if logging is not None or message_handler is not None:

        async def log(self: BaseClient, ctx: Any, params: Any) -> None:
            if logging is not None:
                await logging(params)
            if message_handler is not None:
                await message_handler(params)

        members["on_logging_message"] = log
    if message_handler is not None:
        for name in ("resource_updated", "resource_list_changed", "tool_list_changed", "prompt_list_changed"):
            members[f"on_{name}"] = _notifying(message_handler)
    return members


def _answering(callback: Callback) -> Any:
    async def answer(self: BaseClient, ctx: Any, params: Any) -> Any:
        from ..errors import JSONRPCError
        from .mcp_errors import ErrorFields

        result = await callback(ctx, params)
        if isinstance(result, BaseModel) and {"code", "message"} <= result.model_dump().keys():
            error = ErrorFields(result.code, result.message, getattr(result, "data", None))  # type: ignore[attr-defined]
            raise JSONRPCError(*error)
        return result

    return answer


def _notifying(callback: Callback) -> Any:
    async def notify(self: BaseClient, ctx: Any, params: Any) -> None:
        await callback(params)

    return notify


def _cursor(cursor: str | None, params: Any) -> str | None:
    return cursor if params is None else params.cursor


def _seconds(timeout: Seconds) -> float | None:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
