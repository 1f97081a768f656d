"""`Client` of FastMCP: values of Python as results, handlers with its parameters, and its transports."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from os import fspath
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypedDict, Unpack
from urllib.parse import urlsplit

from pydantic_core import to_json
from typing_extensions import TypeVar

from mcp_products.app.app import BaseApp
from mcp_products.app.components.catalog import NAMESPACE
from mcp_runtime.errors import ToolError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.result_types import FollowedPages

from ..forms.form import FORM, Seconds, seconds
from ..transports import StdioServerParameters, sse_client, stdio_client, streamablehttp_client
from .client import Client as OfficialClient
from .client import of_session, page_of, streams_to
from .client_session import refuse_others

TransportT = TypeVar("TransportT", default=Any)
_WRAPPED: Final = "result"

SamplingHandler = Callable[..., Any]
ElicitationHandler = Callable[..., Any]
LogHandler = Callable[[Any], Awaitable[None]]
MessageHandlerT = Callable[[Any], Awaitable[None]]
ProgressHandler = Callable[[float, float | None, str | None], Awaitable[None]]
RootsList = list[Any]
RootsHandler = Callable[..., Awaitable[list[Any]]]


# ---- transports -----------------------------------------------------------------------------------------------------


class ClientTransport:
    """How a server is reached; a subclass returns the context manager of its streams."""

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """Return the context manager that yields the streams."""
        raise NotImplementedError

    async def close(self) -> None:
        """Do nothing: a connection ends with its client."""


@dataclass
class StdioTransport(ClientTransport):
    """A server that is started as a child process."""

    command: str
    args: list[str]
    env: dict[str, str] | None = None
    cwd: str | None = None
    keep_alive: bool | None = None
    log_file: Any = None

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """Return the context manager that yields the streams."""
        parameters = StdioServerParameters(command=self.command, args=[*self.args], env=self.env, cwd=self.cwd)
        return stdio_client(parameters, self.log_file)


@dataclass
class RemoteTransport(ClientTransport):
    """A server at a URL. `auth` is a token or an authentication of the HTTP library."""

    url: Any
    headers: dict[str, str] | None = None
    auth: Any = None
    sse_read_timeout: Seconds = None
    httpx_client_factory: Any = None
    verify: Any = None
    connect: ClassVar[Callable[..., Any]]

    def __post_init__(self) -> None:
        self.url = str(self.url)
        self.headers = self.headers or {}

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """Return the context manager that yields the streams."""
        headers, auth = dict(self.headers or {}), self.auth
        if isinstance(auth, str):
            headers["Authorization"] = f"Bearer {auth}"
            auth = None
        keywords = {"headers": headers, "auth": auth, "httpx_client_factory": self.httpx_client_factory}
        if (limit := seconds(self.sse_read_timeout)) is not None:
            keywords["sse_read_timeout"] = limit
        streams: AbstractAsyncContextManager[Any] = self.connect(self.url, **keywords)
        return streams


class StreamableHttpTransport(RemoteTransport):
    """A server with Streamable HTTP."""

    connect = staticmethod(streamablehttp_client)


class SSETransport(RemoteTransport):
    """A server with HTTP+SSE."""

    connect = staticmethod(sse_client)


@dataclass
class FastMCPTransport(ClientTransport):
    """A server of this process, or what else `Client` of 2.x and `App.proxy` connect to."""

    server: Any

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """Return the context manager that yields the streams."""
        return streams_to(self.server)


def infer_transport_type_from_url(url: Any) -> Literal["http", "sse"]:
    """Return "sse" for a URL whose path has a segment `sse`. Raises ValueError for another scheme than HTTP's."""
    parts = urlsplit(str(url))
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"Invalid URL: {url}")
    return "sse" if "sse" in parts.path.split("/") else "http"


def infer_transport(transport: Any) -> Any:
    """Return the transport for a server, a URL, the path of a script or a configuration."""
    if isinstance(transport, ClientTransport):
        return transport
    if hasattr(transport, "mcpServers"):
        return FastMCPTransport(transport.to_dict())
    text = transport if isinstance(transport, str) else str(transport)
    if not isinstance(transport, BaseApp | Mapping) and text.startswith(("http://", "https://")):
        return (SSETransport if infer_transport_type_from_url(text) == "sse" else StreamableHttpTransport)(text)
    return FastMCPTransport(fspath(transport) if isinstance(transport, Path) else transport)


# ---- the client -----------------------------------------------------------------------------------------------------


@dataclass
class CallToolResult:
    """The result of a tool; `data` is its value."""

    content: list[Any]
    structured_content: dict[str, Any] | None
    meta: dict[str, Any] | None = None
    data: Any = None
    is_error: bool = False


async def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a plain or an async function."""
    value = function(*arguments)
    return await value if inspect.isawaitable(value) else value


@dataclass
class _Handlers:
    """The callbacks of the official client, for the handlers of FastMCP."""

    sampling: SamplingHandler | None = None
    elicitation: ElicitationHandler | None = None
    roots: Any = None
    log: LogHandler | None = None
    message: Any = None
    callbacks: dict[str, Any] = field(default_factory=dict[str, Any])

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of the official client."""
        made = {
            "sampling_callback": self.sampling and self._sample,
            "elicitation_callback": self.elicitation and self._elicit,
            "list_roots_callback": self._list_roots if self.roots is not None else None,
            "logging_callback": self.log,
            "message_handler": getattr(self.message, "dispatch", self.message),
        }
        return {**made, **self.callbacks}

    async def _sample(self, context: Any, params: Any) -> Any:
        assert self.sampling is not None, "keywords() asked for it"
        result = await _called(self.sampling, params.messages, params, context)
        if isinstance(result, str):
            content = FORM.types.TextContent(type="text", text=result)
            return FORM.types.CreateMessageResult(role="assistant", model="fastmcp-client", content=content)
        return result

    async def _elicit(self, context: Any, params: Any) -> Any:
        assert self.elicitation is not None, "keywords() asked for it"
        schema: Any = getattr(params, "requested_schema", None) or {}
        kind = dict if schema.get("properties") else None
        result = await _called(self.elicitation, params.message, kind, params, context)
        if isinstance(result, FORM.types.ElicitResult):
            return result
        content = getattr(result, "content", result)
        return FORM.types.ElicitResult(action=getattr(result, "action", "accept"), content=content)

    async def _list_roots(self, context: Any) -> Any:
        found = await _called(self.roots, context) if callable(self.roots) else self.roots
        t = FORM.types
        return t.ListRootsResult(roots=[item if isinstance(item, t.Root) else t.Root(uri=str(item)) for item in found])


class CallKeywords(TypedDict, total=False):
    """The keywords of a call of a tool."""

    timeout: Seconds
    progress_handler: ProgressHandler | None
    raise_on_error: bool
    meta: Any
    version: str | None


class Accepted(TypedDict, total=False):
    """Keywords without an effect here."""

    auto_initialize: bool
    verify: Any
    result_claims: Any


class OfficialKeywords(Accepted, total=False):
    """Keywords that the client of 2.x has too."""

    sampling_capabilities: Any
    prior_discover: Any
    input_required_max_rounds: int
    cache: Any
    extensions: Sequence[Any] | None


class Client(Generic[TransportT]):
    """A client of a server. It can be entered again, and by several tasks: the last one to leave disconnects."""

    def __init__(
        self,
        transport: Any,
        name: str | None = None,
        *,
        roots: Any = None,
        sampling_handler: SamplingHandler | None = None,
        elicitation_handler: ElicitationHandler | None = None,
        log_handler: LogHandler | None = None,
        message_handler: Any = None,
        progress_handler: ProgressHandler | None = None,
        timeout: Seconds = None,
        init_timeout: Seconds = None,
        client_info: Any = None,
        auth: Any = None,
        mode: str = "auto",
        **further: Unpack[OfficialKeywords],
    ) -> None:
        """Create a client.

        Args:
            transport: A transport, a server, a URL, the path of a script, or a configuration.
            name: A name for logs.
            roots: The roots, as texts or `Root`, or a function that returns them.
            sampling_handler: Gets the messages, the params and the context; returns a text or a result.
            elicitation_handler: Gets the message, the type of the answer, the params and the context.
            log_handler: Gets each log message.
            message_handler: Gets each notification of the server.
            progress_handler: Gets the progress of each request.
            timeout: Seconds to wait for a result.
            init_timeout: Accepted: `timeout` is that of opening, too.
            client_info: The `Implementation` that describes the client.
            auth: A token, or an authentication of the HTTP library.
            mode: "auto", "legacy" for a handshake, or a stateless protocol version.
            further: Keywords of the client of 2.x; `auto_initialize`, `verify` and `result_claims` have no effect.

        Raises TypeError for another keyword.
        """
        refuse_others("Client()", further, OfficialKeywords)
        official = {name: value for name, value in further.items() if name not in Accepted.__annotations__}
        self.transport: Any = infer_transport(transport)
        if auth is not None and isinstance(self.transport, RemoteTransport):
            self.transport.auth = auth
        self.name = name or f"Client-{id(self):x}"
        self._handlers = _Handlers(sampling_handler, elicitation_handler, roots, log_handler, message_handler)
        self._progress_handler = progress_handler
        limit = seconds(timeout)
        self._settings: dict[str, Any] = {"read_timeout_seconds": limit, "client_info": client_info, **official}
        self.mode = mode
        self._client: Any = None
        self._entered = 0

    def new(self) -> Client[TransportT]:
        """Return a client like this one that is not connected."""
        copy = self.__class__.__new__(self.__class__)
        vars(copy).update(vars(self))
        copy._client = None
        copy._entered = 0
        return copy

    def set_sampling_callback(self, sampling_callback: Any, sampling_capabilities: Any = None) -> None:
        """Set the handler of messages to sample, for the next connection."""
        self._handlers.sampling = sampling_callback

    def set_elicitation_callback(self, elicitation_callback: Any) -> None:
        """Set the handler of input to elicit, for the next connection."""
        self._handlers.elicitation = elicitation_callback

    def set_roots(self, roots: Any) -> None:
        """Set the roots, for the next request."""
        self._handlers.roots = roots

    # ---- the connection ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._client is None:
            keywords: dict[str, Any] = {**self._handlers.keywords(), **self._settings, "mode": self.mode}
            self._client = await OfficialClient[Any](self.transport.streams(), **keywords).__aenter__()
        self._entered += 1
        return self

    async def __aexit__(self, *exception: Any) -> None:
        self._entered -= 1
        if self._entered == 0:
            await self.close()

    async def close(self) -> None:
        """Disconnect."""
        client = self._client
        self._client = None
        self._entered = 0
        if client is not None:
            await client.__aexit__(None, None, None)

    def is_connected(self) -> bool:
        """Return True inside of the context."""
        return self._client is not None

    @property
    def session(self) -> Any:
        """The session. Raises RuntimeError outside of the context."""
        return self.connected().session

    def connected(self) -> Any:
        """Return the client of 2.x that is connected. Raises RuntimeError outside of the context."""
        if self._client is None:
            raise RuntimeError("Client is not connected. Use the 'async with client:' context manager first.")
        return self._client

    initialize_result = of_session("initialize_result", "The result of the handshake; None without one.")
    protocol_version = OfficialClient.protocol_version
    server_info = OfficialClient.server_info
    server_capabilities = OfficialClient.server_capabilities
    instructions = OfficialClient.instructions

    async def ping(self) -> bool:
        """Ask whether the server responds, in a protocol version with a ping."""
        await self.session.send_ping()
        return True

    async def set_logging_level(self, level: str) -> None:
        """Set the minimum level of log messages."""
        await self.session.set_logging_level(level)

    # ---- lists ------------------------------------------------------------------------------------------------------

    async def _all(self, method: str, items: str, capability: str) -> list[Any]:
        """Return the items of all pages of a list; none if the server has no such list."""
        if getattr(self.session.server_capabilities, capability, None) is None:
            return []
        followed, found, cursor = FollowedPages(method), list[Any](), None
        while True:
            page = await getattr(self.connected(), method)(cursor=cursor)
            if followed.is_again(getattr(page, items), page.next_cursor):
                return found
            found += getattr(page, items)
            if (cursor := followed.add(len(getattr(page, items)), page.next_cursor)) is None:
                return found

    async def list_tools(self) -> list[Any]:
        """Return all tools. Raises McpError, as all requests, and RemoteError for pages without end."""
        return await self._all("list_tools", "tools", "tools")

    async def list_resources(self) -> list[Any]:
        """Return all resources."""
        return await self._all("list_resources", "resources", "resources")

    async def list_resource_templates(self) -> list[Any]:
        """Return all resource templates."""
        return await self._all("list_resource_templates", "resource_templates", "resources")

    async def list_prompts(self) -> list[Any]:
        """Return all prompts."""
        return await self._all("list_prompts", "prompts", "prompts")

    list_tools_mcp = page_of("list_tools")
    list_resources_mcp = page_of("list_resources")
    list_resource_templates_mcp = page_of("list_resource_templates")
    list_prompts_mcp = page_of("list_prompts")

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def call_tool_mcp(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        progress_handler: ProgressHandler | None = None,
        timeout: Seconds = None,
        meta: Any = None,
    ) -> Any:
        """Call a tool, and return the result of the protocol."""
        report = progress_handler or self._progress_handler
        return await self.connected().call_tool(name, arguments or {}, seconds(timeout), report, meta=meta)

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, **options: Unpack[CallKeywords]
    ) -> CallToolResult:
        """Call a tool, of this version if there are several, and return its value and its content.

        Raises ToolError if it has failed, unless `raise_on_error` is False.
        """
        refuse_others("call_tool()", options, CallKeywords)
        given: Any = {**options}
        version, raises = given.pop("version", None), given.pop("raise_on_error", True)
        if version is not None:
            given["meta"] = {**(given.get("meta") or {}), NAMESPACE: {"version": version}}
        result = await self.call_tool_mcp(name, arguments, **given)
        if result.is_error and raises:
            first = result.content[0] if result.content else None
            raise ToolError(getattr(first, "text", f"Tool '{name}' returned an error"))
        structured = result.structured_content
        wrapped = is_object(structured) and structured.keys() == {_WRAPPED}
        data: Any = None if result.is_error else structured[_WRAPPED] if wrapped else structured
        return CallToolResult(result.content, structured, result.meta, data, result.is_error)

    async def read_resource_mcp(self, uri: Any, meta: Any = None) -> Any:
        """Read a resource, and return the result of the protocol."""
        return await self.connected().read_resource(str(uri), meta=meta)

    async def read_resource(self, uri: Any, *, meta: Any = None) -> list[Any]:
        """Read a resource, and return its contents."""
        contents: list[Any] = (await self.read_resource_mcp(uri, meta)).contents
        return contents

    async def get_prompt_mcp(self, name: str, arguments: dict[str, Any] | None = None, meta: Any = None) -> Any:
        """Get a prompt; arguments that are not texts are written as JSON."""
        texts = {
            key: item if isinstance(item, str) else to_json(item).decode() for key, item in (arguments or {}).items()
        }
        return await self.connected().get_prompt(name, texts or None, meta=meta)

    get_prompt = get_prompt_mcp

    async def complete(
        self, ref: Any, argument: dict[str, str], context_arguments: dict[str, Any] | None = None
    ) -> Any:
        """Return completions of an argument."""
        return (await self.connected().complete(ref, argument, context_arguments)).completion


FastMCPClient = Client
