"""`ClientSession` of the official SDK: a client over two streams of `SessionMessage`."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import GenericAlias
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack

import anyio
from pydantic import BaseModel, ValidationError

from mcp_products.json_schema.validator import compile_schema
from mcp_runtime.errors import InvalidMessageError, InvalidSchemaError
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.revision import LOG_LEVEL, META, NAMED_VERSION

from ..forms.errors import McpError
from ..forms.form import FORM, Seconds, field_of, read_as, seconds, written
from ..streams.message import MessageMetadata
from .peer import OnProgress, Peer

_log: Final = logging.getLogger("client")
_DISCOVER_SECONDS: Final = 10.0
_NOT_SUPPORTED: Final = -32022
_INVALID_REQUEST: Final = -32600

Callback = Callable[..., Awaitable[Any]]


class Subscriptable:
    """A class that programs name with type parameters: `RequestContext[ClientSession, None]`."""

    def __class_getitem__(cls, parameters: Any) -> GenericAlias:
        """Return the class with type parameters."""
        return GenericAlias(cls, parameters)


@dataclass
class RequestContext(Subscriptable):
    """The request of a server that a callback answers."""

    session: Any
    request_id: str | int
    meta: Any = None
    lifespan_context: Any = None
    request: Any = None


@dataclass
class RequestResponder(Subscriptable):
    """A request of a server, as the `message_handler` of the last 1.x sees it; it is answered by a callback."""

    request_id: str | int
    request_meta: Any
    request: Any


class Rounds(TypedDict, total=False):
    """Keywords of a request that the server may answer with a demand for input."""

    input_responses: Mapping[str, Any] | None
    request_state: str | None
    allow_input_required: bool
    allow_claimed: bool


class NoCounterpart(TypedDict, total=False):
    """Keywords of the official session that must be None here."""

    dispatcher: None
    result_claims: None
    notification_bindings: None


class CallbackKeywords(TypedDict, total=False):
    """Keywords that a session and a client of 2.x have."""

    read_timeout_seconds: Seconds
    sampling_callback: Callback | None
    elicitation_callback: Callback | None
    list_roots_callback: Callback | None
    logging_callback: Callback | None
    message_handler: Callback | None
    client_info: Any
    log_level: str | None
    sampling_capabilities: BaseModel | None


class SessionKeywords(NoCounterpart, CallbackKeywords, total=False):
    """The keywords of a session beside its streams."""

    extensions: Mapping[str, Mapping[str, Any]] | None


class ToolCallKeywords(Rounds, total=False):
    """The keywords of a call of a tool beside its name and its arguments."""

    read_timeout_seconds: Seconds
    progress_callback: OnProgress | None
    meta: Any


def refuse_others(caller: str, given: Mapping[str, Any], keywords: Any) -> None:
    """Raise TypeError for a keyword that is none of a TypedDict's."""
    if others := given.keys() - keywords.__annotations__.keys():
        raise TypeError(f"{caller}: there is no keyword argument {min(others)!r}")


class SessionRequests:
    """Requests and notifications of a session, and of a client that has one."""

    @property
    def _session(self) -> ClientSession:
        """The session. Raises RuntimeError without one."""
        raise NotImplementedError

    async def complete(
        self, ref: Any, argument: Mapping[str, str], context_arguments: dict[str, str] | None = None
    ) -> Any:
        """Return completions of an argument."""
        context = None if context_arguments is None else {"arguments": context_arguments}
        params = {"ref": written(ref), "argument": {**argument}, "context": context}
        return await self._session.send_params("Complete", params, FORM.types.CompleteResult)

    async def send_ping(self, *, meta: Any = None) -> Any:
        """Send a ping, and return the result."""
        params = None if meta is None else {"_meta": meta}
        return await self._session.send_params("Ping", params, FORM.types.EmptyResult)

    async def set_logging_level(self, level: str, *, meta: Any = None) -> Any:
        """Set the minimum level of log messages."""
        return await self._session.send_params("SetLevel", {"level": level, "_meta": meta}, FORM.types.EmptyResult)

    async def subscribe_resource(self, uri: Any, *, meta: Any = None) -> Any:
        """Subscribe to changes of a resource."""
        return await self._session.send_params("Subscribe", {"uri": str(uri), "_meta": meta}, FORM.types.EmptyResult)

    async def unsubscribe_resource(self, uri: Any, *, meta: Any = None) -> Any:
        """Unsubscribe from changes of a resource."""
        return await self._session.send_params("Unsubscribe", {"uri": str(uri), "_meta": meta}, FORM.types.EmptyResult)

    async def send_roots_list_changed(self) -> None:
        """Notify the server that the roots have changed."""
        await self._session.send_notification(FORM.types.RootsListChangedNotification())

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        *,
        meta: Any = None,
    ) -> None:
        """Notify the server of the progress of a request of the server."""
        fields = {"progressToken": progress_token, "progress": progress, "total": total, "message": message}
        await self._session.send_notification(FORM.types.ProgressNotification(params=fields))


class ClientSession(SessionRequests):
    """A client over the two streams of a transport: `initialize`, then send requests."""

    def __init__(
        self,
        read_stream: Any = None,
        write_stream: Any = None,
        read_timeout_seconds: Seconds = None,
        sampling_callback: Callback | None = None,
        elicitation_callback: Callback | None = None,
        list_roots_callback: Callback | None = None,
        logging_callback: Callback | None = None,
        *,
        message_handler: Callback | None = None,
        client_info: Any = None,
        log_level: str | None = None,
        sampling_capabilities: BaseModel | None = None,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        **further: Unpack[NoCounterpart],
    ) -> None:
        """Create a session.

        Args:
            read_stream: A stream of `SessionMessage`, such as the first one of `stdio_client`.
            read_timeout_seconds: Seconds to wait for a result; without a limit by default.
            sampling_callback: Called with the context and the params of a message to sample.
            elicitation_callback: Called with the context and the params of input to elicit.
            list_roots_callback: Called with the context when the server lists the roots.
            logging_callback: Called with the params of each log message.
            message_handler: Called with each notification, and with each error of the transport.
            client_info: The `Implementation` that describes the client.
            log_level: The log level that each request of a stateless protocol version asks for.
            sampling_capabilities: What the client declares about sampling.
            further: Must be None: these have no counterpart.

        Raises ValueError without streams, and TypeError for other values.
        """
        for name, value in further.items():
            if value is not None or name not in ("dispatcher", "result_claims", "notification_bindings"):
                raise TypeError(f"ClientSession() has no keyword {name!r} here; pass the two streams of a transport")
        if read_stream is None or write_stream is None:
            raise ValueError("ClientSession() needs read_stream and write_stream, the streams of a transport")
        if not hasattr(read_stream, "receive") or not hasattr(write_stream, "send"):
            remedy = "pass those of `stdio_client(…)` or `streamable_http_client(…)`"
            raise TypeError(f"ClientSession() needs streams: {remedy}")
        self._peer = Peer(read_stream, write_stream)
        self._timeout = read_timeout_seconds
        self._sampling = sampling_callback
        self._elicitation = elicitation_callback
        self._roots = list_roots_callback
        self._logging_callback = logging_callback
        self._message_handler = message_handler
        self._client_info = client_info or FORM.types.Implementation(name="mcp", version="0.1.0")
        self._log_level = log_level
        self._sampling_capabilities = sampling_capabilities
        self._extensions = extensions
        self._negotiated: Any = None
        self._version: str | None = None
        self._stamp: dict[str, Any] = {}
        self._output_schemas: dict[str, Any] = {}
        self._group: Any = None

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(
            self._peer.run, self._group, self._received_request, self._received_notification, self._received_exception
        )
        return self

    async def __aexit__(self, *exception: Any) -> bool | None:
        self._group.cancel_scope.cancel()
        result: bool | None = await self._group.__aexit__(*exception)
        return result

    @property
    def _session(self) -> ClientSession:
        return self

    # ---- the connection ---------------------------------------------------------------------------------------------

    def _capabilities(self) -> Any:
        fields: dict[str, Any] = {}
        if self._sampling is not None:
            fields["sampling"] = self._sampling_capabilities or {}
        if self._elicitation is not None:
            fields["elicitation"] = {"form": {}, "url": {}}
        if self._roots is not None:
            fields["roots"] = {"listChanged": True}
        if self._extensions:
            fields["extensions"] = {id: {**settings} for id, settings in self._extensions.items()}
        return FORM.types.ClientCapabilities.model_validate(fields)

    async def initialize(self) -> Any:
        """Open the session with a handshake, and return the `InitializeResult`.

        Raises McpError, and RuntimeError for a protocol version that is not known here.
        """
        t = FORM.types
        if isinstance(self._negotiated, t.InitializeResult):
            return self._negotiated
        declared = {"capabilities": written(self._capabilities()), "clientInfo": written(self._client_info)}
        params = {"protocolVersion": FORM.handshakes[-1], **declared}
        result = await self.send_params("Initialize", params, t.InitializeResult)
        self.adopt(result)
        await self.send_notification(t.InitializedNotification())
        return result

    def adopt(self, result: Any) -> None:
        """Go on with a result of `initialize` or `discover` that the program has.

        Raises RuntimeError for a protocol version that is not known here.
        """
        if hasattr(result, "supported_versions"):
            shared = [id for id in FORM.stateless if id in result.supported_versions]
            if not shared:
                raise RuntimeError(f"no protocol version is shared; the server supports {result.supported_versions}")
            self._version = shared[-1]
            self._stamp = self._stamp_of(self._version)
        else:
            version = field_of(result, "protocol_version")
            if version not in FORM.handshakes:
                raise RuntimeError(f"Unsupported protocol version from the server: {version}")
            self._version = version
            self._stamp = {}
        self._negotiated = result

    def _stamp_of(self, version: str) -> dict[str, Any]:
        stamp = {
            NAMED_VERSION: version,
            f"{META}clientInfo": written(self._client_info),
            f"{META}clientCapabilities": written(self._capabilities()),
        }
        return stamp if self._log_level is None else {LOG_LEVEL: self._log_level, **stamp}

    async def send_discover(self, version: str) -> dict[str, Any]:
        """Ask the server what it is in a stateless protocol version, and return the result as JSON. Raises McpError."""
        params = {"_meta": self._stamp_of(version)}
        return await self._peer.request(FORM.method("DiscoverRequest"), params, _DISCOVER_SECONDS)

    async def subscribe(self, wanted: dict[str, Any], made: Any) -> None:
        """Start to receive changes, and wait until the server has answered. Raises TimeoutError."""
        params = {"notifications": wanted, "_meta": self._stamp}
        method = FORM.method("SubscriptionsListenRequest")
        self._group.start_soon(made.read, partial(self._peer.request, method, params, deliver=made.deliver))
        with anyio.fail_after(seconds(self._timeout)):
            await made.answered.wait()

    async def discover(self) -> Any:
        """Ask the server what it is, and go on in the newest version that is shared. Raises McpError."""
        if self._negotiated is not None and self.discover_result is not None:
            return self._negotiated
        version = FORM.stateless[-1]
        try:
            raw = await self.send_discover(version)
        except McpError as error:
            if not (shared := shared_versions(error)):
                raise
            raw = await self.send_discover(shared[-1])
        self.adopt(FORM.types.DiscoverResult.model_validate(raw))
        return self._negotiated

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def send_request(
        self,
        request: Any,
        result_type: Any,
        request_read_timeout_seconds: Seconds = None,
        metadata: MessageMetadata = None,
        progress_callback: OnProgress | None = None,
    ) -> Any:
        """Send a request, and return its result as this type. Raises McpError, and ValidationError for another one."""
        data = written(request)
        params: Any = data.get("params")
        if self._stamp:
            given: dict[str, Any] = params or {}
            params = {**given, "_meta": {**self._stamp, **given.get("_meta", {})}}
        timeout = seconds(self._timeout if request_read_timeout_seconds is None else request_read_timeout_seconds)
        raw = await self._peer.request(data["method"], params, timeout, progress_callback, metadata)
        return read_as(result_type, raw)

    async def send_params(
        self, name: str, params: dict[str, Any] | None, result_type: Any, options: Mapping[str, Any] | None = None
    ) -> Any:
        """Send a request of the protocol whose params have these properties."""
        fields = {} if params is None else {"params": {key: item for key, item in params.items() if item is not None}}
        request = getattr(FORM.types, f"{name}Request").model_validate(fields)
        return await self.send_request(FORM.wrapped("ClientRequest", request), result_type, **(options or {}))

    async def _page(self, name: str, cursor: str | None, params: Any) -> Any:
        cursors = None if cursor is None else {"cursor": cursor}
        fields = cursors if params is None else written(params)
        return await self.send_params(f"List{name}", fields, getattr(FORM.types, f"List{name}Result"))

    async def list_tools(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return one page of the tools. Raises McpError, as all requests."""
        result = await self._page("Tools", cursor, params)
        for tool in result.tools:
            self._output_schemas[tool.name] = field_of(tool, "output_schema")
        return result

    async def list_resources(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return one page of the resources."""
        return await self._page("Resources", cursor, params)

    async def list_resource_templates(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return one page of the resource templates."""
        return await self._page("ResourceTemplates", cursor, params)

    async def list_prompts(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return one page of the prompts."""
        return await self._page("Prompts", cursor, params)

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | timedelta | None = None,
        progress_callback: OnProgress | None = None,
        *,
        meta: Any = None,
        **rounds: Unpack[Rounds],
    ) -> Any:
        """Call a tool, and return the result.

        Raises RuntimeError for structured content that contradicts the output schema of the tool.
        """
        params = {"name": name, "arguments": arguments, "_meta": meta}
        options = {"request_read_timeout_seconds": read_timeout_seconds, "progress_callback": progress_callback}
        result = await self._send_with_rounds("CallTool", params, rounds, options)
        if isinstance(result, FORM.types.CallToolResult) and not field_of(result, "is_error"):
            await self.validate_tool_result(name, result)
        return result

    async def _send_with_rounds(
        self, name: str, params: dict[str, Any], given: Rounds, options: dict[str, Any] | None = None
    ) -> Any:
        """Send a request that the server may answer with a demand for input.

        `given` are `input_responses`, `request_state` and `allow_input_required` of 2.x. Raises RuntimeError for a
        demand that the program does not allow.
        """
        t = FORM.types
        refuse_others("ClientSession", given, Rounds)
        params = {**params, "requestState": given.get("request_state")}
        if responses := given.get("input_responses"):
            params["inputResponses"] = {key: written(value) for key, value in responses.items()}
        final = t.ReadResourceResult if name == "ReadResource" else getattr(t, f"{name}Result")
        if FORM.is_v1:
            return await self.send_params(name, params, final, options)
        result = await self.send_params(name, params, final | t.InputRequiredResult | dict[str, Any], options)
        if isinstance(result, dict):
            result = final.model_validate(result)
        if isinstance(result, t.InputRequiredResult) and not given.get("allow_input_required"):
            raise RuntimeError(
                f"the server requires input for {name}; use `Client`, or allow_input_required=True and send it again"
            )
        return result

    async def validate_tool_result(self, name: str, result: Any) -> None:
        """Raise RuntimeError for structured content that contradicts the output schema of the tool."""
        if name not in self._output_schemas:
            try:
                await self.list_tools()
            except McpError as error:  # A server of handlers need not list its tools.
                _log.debug("the tools are not listed: %s", error)
        if name not in self._output_schemas:
            _log.warning("Tool %s not listed by server, cannot validate any structured content", name)
        if (schema := self._output_schemas.get(name)) is None:
            return
        content = field_of(result, "structured_content")
        if content is None:
            raise RuntimeError(f"Tool {name} has an output schema but did not return structured content")
        try:
            problem = compile_schema(schema).first_error(content)
        except InvalidSchemaError as error:
            raise RuntimeError(f"Invalid schema for tool {name}: {error}") from error
        except InvalidMessageError as error:
            problem = str(error)
        if problem is not None:
            raise RuntimeError(f"Invalid structured content returned by tool {name}: {problem}")

    async def read_resource(self, uri: Any, *, meta: Any = None, **rounds: Unpack[Rounds]) -> Any:
        """Read a resource, and return the result."""
        return await self._send_with_rounds("ReadResource", {"uri": str(uri), "_meta": meta}, rounds)

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, meta: Any = None, **rounds: Unpack[Rounds]
    ) -> Any:
        """Get a prompt with its arguments filled in."""
        params = {"name": name, "arguments": arguments, "_meta": meta}
        return await self._send_with_rounds("GetPrompt", params, rounds)

    # ---- notifications ----------------------------------------------------------------------------------------------

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a notification of the protocol, such as a `CancelledNotification`."""
        data = written(notification)
        await self._peer.notify(data["method"], data.get("params"))

    # ---- what the server sends --------------------------------------------------------------------------------------

    async def _received_request(self, id: str | int, method: str, params: Any) -> dict[str, Any] | None:
        request = FORM.read("ServerRequest", method, params)
        if request is None:
            return None
        meta = None if request.params is None else request.params.meta
        if self._message_handler is not None and FORM.is_v1:
            await self._message_handler(RequestResponder(id, meta, FORM.wrapped("ServerRequest", request)))
        if isinstance(request, FORM.types.PingRequest):
            return {}
        result = await self.dispatch_input_request(RequestContext(self, id, meta), request)
        if result is None:
            return None
        result = getattr(result, "root", result)
        if isinstance(result, FORM.types.ErrorData):
            raise McpError(result)
        return written(result)

    async def dispatch_input_request(self, ctx: Any, request: Any) -> Any:
        """Return the answer of the callback for a request of the server: its result, or an `ErrorData`."""
        refused = partial_error(f"{request.method} is not supported")
        match type(request).__name__:
            case "CreateMessageRequest":
                return refused if self._sampling is None else await self._sampling(ctx, request.params)
            case "ElicitRequest":
                return refused if self._elicitation is None else await self._elicitation(ctx, request.params)
            case "ListRootsRequest":
                return refused if self._roots is None else await self._roots(ctx)
            case _:
                return None

    async def _received_notification(self, method: str, params: Any) -> None:
        try:
            notification = FORM.read("ServerNotification", method, params)
        except ValidationError:
            return _log.warning("Failed to validate notification: %s", method, exc_info=True)
        if notification is None or isinstance(notification, FORM.types.CancelledNotification):
            return
        if isinstance(notification, FORM.types.LoggingMessageNotification) and self._logging_callback is not None:
            await self._logging_callback(notification.params)
        if self._message_handler is not None:
            await self._message_handler(FORM.wrapped("ServerNotification", notification))

    async def _received_exception(self, error: Exception) -> None:
        if self._message_handler is not None:
            await self._message_handler(error)

    # ---- what the server has declared -------------------------------------------------------------------------------

    @property
    def initialize_result(self) -> Any:
        """The result of the handshake; None without one."""
        return self._negotiated if isinstance(self._negotiated, FORM.types.InitializeResult) else None

    @property
    def discover_result(self) -> Any:
        """The result of discovery; None without it."""
        return self._negotiated if hasattr(self._negotiated, "supported_versions") else None

    @property
    def protocol_version(self) -> str | None:
        """The id of the negotiated protocol version; None before it is negotiated."""
        return self._version

    @property
    def server_info(self) -> Any:
        """The `Implementation` that describes the server; None if it does not say so."""
        if self.discover_result is None:
            return self._negotiated and field_of(self._negotiated, "server_info")
        raw = dict[str, Any](self._negotiated.meta or ()).get(f"{META}serverInfo")
        try:
            return None if raw is None else FORM.types.Implementation.model_validate(raw)
        except ValidationError:
            return None

    @property
    def server_capabilities(self) -> Any:
        """The capabilities of the server; None before they are known."""
        return getattr(self._negotiated, "capabilities", None)

    def get_server_capabilities(self) -> Any:
        """Return the capabilities of the server; None before they are known."""
        return self.server_capabilities

    @property
    def instructions(self) -> str | None:
        """Instructions of the server for the model."""
        return getattr(self._negotiated, "instructions", None)


def partial_error(message: str) -> Any:
    """Return the error for a request of the server without a callback."""
    return FORM.types.ErrorData(code=_INVALID_REQUEST, message=message)


def shared_versions(error: McpError) -> Sequence[str] | None:
    """Return the stateless versions that an error lists and that are known here; None for an error without a list."""
    listed: Any = error.data.get("supported") if is_object(error.data) else None
    if error.code != _NOT_SUPPORTED or not is_list(listed):
        return None
    return [id for id in FORM.stateless if id in listed]


async def negotiate_auto(session: ClientSession) -> None:
    """Open a session in a stateless protocol version if the server has one, and else with a handshake.

    Raises McpError if no version is shared.
    """
    try:
        await session.discover()
    except (RuntimeError, ValidationError):
        await session.initialize()
    except McpError as error:
        listed = shared_versions(error)
        if listed is not None and not any(id in error.error.data["supported"] for id in FORM.handshakes):
            raise
        await session.initialize()


SessionT = TypeVar("SessionT", bound=ClientSession)


@asynccontextmanager
async def connected_session(streams: Any, settings: SessionKeywords) -> AsyncGenerator[ClientSession]:
    """Yield an initialized session over the streams that a context manager yields."""
    async with streams as (read, write), ClientSession(read, write, **settings) as session:
        await session.initialize()
        yield session
