"""The context of an app's functions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self

from mcp_products.host.own_messages import check_name, json_of
from mcp_runtime._lazy import LazyModule
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import Notification, own_row
from mcp_runtime.session.interfaces import channel_of_connection
from mcp_runtime.session.requests import Params, RequestOptions
from mcp_runtime.usage.keywords import NoKeywords

from ..components.visibility import VisibilityControl
from .input_context import InputContext
from .state_attribute import FirstT as FirstT
from .state_attribute import LifespanStateOwner, StateAttribute
from .state_attribute import RequestT as RequestT
from .state_attribute import StateT as StateT

if TYPE_CHECKING:
    from . import own_requests, request_context, request_views, state
    from .own_requests import ResourceContentList
    from .request_context import RequestContext
    from .request_views import DeclaredObject, ServerSession
    from .state import ReceivedRequest
else:  # Imported when they are used.
    own_requests = LazyModule("mcp_products.app.context.own_requests")
    request_context = LazyModule("mcp_products.app.context.request_context")
    request_views = LazyModule("mcp_products.app.context.request_views")
    state = LazyModule("mcp_products.app.context.state")

_OWN: Final = "#request_state"  # The value of the function, among those that the encrypted state carries.
_ENCRYPTED: Final = "#encrypted"  # What the result of this round has instead of it.


# Names of other SDKs, which `mcp_products.compat.context` keeps: here they warn for one minor version.


def _warn(old: str, new: str) -> None:
    remedy = f"write ctx.{new}, or take FastMCP or MCPServer and its Context from mcp_generated.compat"
    warnings.warn(f"ctx.{old} leaves with the next minor version: {remedy}", DeprecationWarning, stacklevel=3)


def _line_of(name: str) -> str:
    return f"write ctx.notify_{name.removeprefix('on_')}(…), ctx.log(…) or ctx.progress(…)"


# The context of an app's functions: the tools, resources and prompts of the app itself.


class OwnContext(InputContext):
    """The context of a handler that reads resources of its own app, and lists what the app has."""

    request_values: dict[str, Any] | None = None
    """The values of `set_state` that last for this request."""

    @property
    def fastmcp(self) -> Any:
        """The app: write `app`. The name of FastMCP leaves with the next minor version; `compat` keeps it."""
        _warn("fastmcp", "app")
        return self.app

    @property
    def mcp_server(self) -> Any:
        """The app: write `app`. The name of the official SDK leaves with the next minor version; `compat` keeps it."""
        _warn("mcp_server", "app")
        return self.app

    @property
    def app(self) -> Any:
        """The app that serves the request; the outermost one if it is mounted."""
        return self._served.app

    @property
    def _served(self) -> Any:
        """The server object of the app."""
        state: Any = self.connection_state
        return state.origin

    async def notify(self, method: str, params: Any = None) -> None:
        """Send the client a notification that the protocol does not have, such as "acme/changed".

        Args:
            method: The method, with the name of its vendor.
            params: The params: a dict or a model.

        Raises LocalError for a method of the protocol, which has a method of its own here.
        """
        check_name("notify()", method, self.revision.package, "server_to_client", _line_of)
        row = own_row(self.revision, method, Notification)
        await self._send_notification(row, json_of("notify", params), None)

    def nested(self) -> Self:
        """Return a context for a request of this function to its own app."""
        nested = type(self)(self.connection_state, self.channel, self.received)
        nested.multi_round_trip = self.multi_round_trip
        nested.request_values = self.request_values
        return nested

    async def read_resource(self, uri: Any) -> ResourceContentList:
        """Read a resource of this app; the items have `content` (text or bytes) and `mime_type`.

        Raises JSONRPCError if there is none at the URI.
        """
        return await own_requests.read_resource(self, str(uri))

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Any:
        """Return the GetPromptResult of a prompt of this app. Raises JSONRPCError if there is none with the name."""
        return await own_requests.own_request(self, "get_prompt", {"name": name, "arguments": dict(arguments or {})})

    async def list_tools(self) -> list[Any]:
        """Return the definitions of the tools that this client may call."""
        return await own_requests.own_items(self, "list_tools", "tools")

    async def list_resources(self) -> list[Any]:
        """Return the definitions of the resources that this client may read."""
        return await own_requests.own_items(self, "list_resources", "resources")

    async def list_resource_templates(self) -> list[Any]:
        """Return the definitions of the resource templates that this client may use."""
        return await own_requests.own_items(self, "list_resource_templates", "resource_templates")

    async def list_prompts(self) -> list[Any]:
        """Return the definitions of the prompts that this client may get."""
        return await own_requests.own_items(self, "list_prompts", "prompts")


# Rounds that a function makes itself: it returns an InputRequiredResult, whose `request_state` clients cannot read.
#
# https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr


def with_encrypted_state(ctx: Any, result: Any) -> Any:
    """Return a result of a function, with an encrypted `request_state` if it is an InputRequiredResult.

    The state is bound to the user, the method and the params, as that of `ctx.elicit`, and carries its values too.
    """
    request = ctx.multi_round_trip
    if request is None or not hasattr(result, "request_state"):
        return result
    state: str | None = result.request_state
    values: dict[str, Any] = request.values
    if state is not None and values.pop(_ENCRYPTED, None) == state:  # A tool around this one returns its result.
        values[_ENCRYPTED] = state
        return result
    values.pop(_OWN, None)
    if state is None and not values:
        return result
    if state is not None:
        values[_OWN] = state
    values[_ENCRYPTED] = token = request.encrypted_state()
    return result.model_copy(update={"request_state": token})


def own_state(ctx: Any) -> str | None:
    """Return the `request_state` that the function has returned in the round before; None in the first round.

    Raises JSONRPCError if what the client sends is not from this server, or belongs to another request or user.
    """
    state: str | None = getattr(ctx.received.params, "request_state", None)
    if ctx.multi_round_trip is None or state is None:
        return state
    return own if isinstance(own := ctx.multi_round_trip.values.get(_OWN), str) else None


class AppContext(
    VisibilityControl, OwnContext, LifespanStateOwner[FirstT, StateT, RequestT], Generic[FirstT, StateT, RequestT]
):
    """The context of an app's function.

    `Context[State]` types `state`, the value that the lifespan yields. So do the orders of the official SDK:
    `Context[State, Request]` of 2.x, and `Context[ServerSession, State, Request]` of 1.x, whose third may be omitted.
    """

    if TYPE_CHECKING:
        state = StateAttribute()
        lifespan_context = StateAttribute()
        """The value that the lifespan yielded; another name of `state`."""
    else:

        @property
        def lifespan_context(self) -> Any:
            """The value that the lifespan yielded: write `state`. `compat` keeps this name."""
            _warn("lifespan_context", "state")
            return self.state

    count_of_reads = 0
    """How often `get_state` was called in this run of the function."""

    # ---- the request and its session ---------------------------------------------------------------------------------

    @property
    def request(self) -> ReceivedRequest | None:
        """The HTTP request: its headers, the client's address, method and path; None over stdio and in memory.

        Headers are input of the client: they prove no identity.
        """
        return state.received_request(self)

    @property
    def transport(self) -> Literal["stdio", "sse", "streamable-http"] | None:
        """The transport of the request; None in memory."""
        channel: Any = channel_of_connection(self.channel)
        match getattr(getattr(channel, "transport", None), "kind", None):
            case "stdio":
                return "stdio"
            case "sse":
                return "sse"
            case _:
                pass
        return None if channel.scope is None else "streamable-http"

    def client_supports_extension(self, extension_id: str) -> bool:
        """Return True if the client has declared an extension of the protocol.

        Args:
            extension_id: The id of the extension, such as "io.modelcontextprotocol/ui".
        """
        extensions = self.capabilities.get("extensions")
        return is_object(extensions) and extension_id in extensions

    @property
    def headers(self) -> Mapping[str, str] | None:
        """The headers of the HTTP request; None over stdio and in memory."""
        request = self.request
        return None if request is None else request.headers

    @property
    def client_id(self) -> str | None:
        """The OAuth client of the access token; without one what the client calls itself in `_meta`, else None."""
        if self.user is not None:
            return self.user.client_id
        name = self.meta.get("client_id")
        return name if isinstance(name, str) else None

    @property
    def session_id(self) -> str | None:
        """The id of the session: over HTTP that of the header, over stdio an id of the connection.

        None over HTTP in a protocol version without sessions.
        """
        session_id: str | None = self.connection_state.session_id
        return session_id

    @property
    def protocol_version(self) -> str:
        """The protocol version that the client has negotiated. `revision` is that of the app's functions."""
        return state.negotiated_version(self)

    @property
    def client_capabilities(self) -> DeclaredObject:
        """The capabilities that the client has declared, as JSON with attributes: `client_capabilities.sampling`."""
        return self.session.client_capabilities

    @property
    def input_responses(self) -> Any:
        """The client's responses to the input requests of an `InputRequiredResult` that the function has returned.

        None in the first round. Functions that call `elicit` and `sample` do not need them.
        """
        own_state(self)  # Responses with the state of another request are refused.
        return getattr(self.received.params, "input_responses", None)

    @property
    def request_state(self) -> str | None:
        """The `request_state` of an `InputRequiredResult` that the function has returned in the round before.

        None in the first round. The client gets it encrypted, and cannot change it. Raises JSONRPCError if what the
        client sends belongs to another request or user, or has expired.
        """
        return own_state(self)

    @property
    def request_context(self) -> RequestContext[FirstT, StateT, RequestT]:
        """The request, as the official SDK shows it: `meta`, `session`, `lifespan_context`, `request` and more."""
        return request_context.RequestContext(self)

    @property
    def session(self) -> ServerSession:
        """The client's session, with the methods that the official SDK has: `create_message`, `send_log_message` …"""
        return request_views.ServerSession(self)

    # ---- state of the session ----------------------------------------------------------------------------------------

    async def get_state(self, key: str, default: Any = None) -> Any:
        """Return a value of the session that `set_state` has stored; `default` if there is none.

        Args:
            key: The name of the value.
            default: What to return if there is no value.
        """
        return await state.get_state(self, key, default)

    async def set_state(self, key: str, value: Any, *, serializable: bool = True) -> None:
        """Store a value for later requests of the session.

        A session is that of a handshake, or the connection over stdio. Over HTTP without sessions it is the
        authenticated user; without a user the value lasts for this request, and a warning is logged. The values of a
        session are stored for a day, and do not outlast the process, unless the app has another store.

        Args:
            key: The name of the value.
            value: A JSON value.
            serializable: False stores any object, which lasts for this request.

        Raises TypeError if the value is not JSON.
        """
        await state.set_state(self, key, value, serializable)

    async def delete_state(self, key: str) -> None:
        """Delete a value of the session; do nothing if there is none.

        Args:
            key: The name of the value.
        """
        await state.delete_state(self, key)

    # ---- changes -----------------------------------------------------------------------------------------------------

    async def notify_tools_changed(self) -> None:
        """Notify all clients that the list of tools has changed: write `notify_tool_list_changed`."""
        _warn("notify_tools_changed", "notify_tool_list_changed")
        await self._announce(self.client_row("on_tool_list_changed"), {}, None)

    async def notify_resources_changed(self) -> None:
        """Notify all clients that the list of resources has changed: write `notify_resource_list_changed`."""
        _warn("notify_resources_changed", "notify_resource_list_changed")
        await self._announce(self.client_row("on_resource_list_changed"), {}, None)

    async def notify_prompts_changed(self) -> None:
        """Notify all clients that the list of prompts has changed: write `notify_prompt_list_changed`."""
        _warn("notify_prompts_changed", "notify_prompt_list_changed")
        await self._announce(self.client_row("on_prompt_list_changed"), {}, None)

    async def _announce(
        self, row: Notification, params: Params, options: RequestOptions | None, keywords: NoKeywords | None = None
    ) -> None:
        """Send a change notification to all clients of the app that have subscribed to it."""
        await self._served._announce(row, params, options, keywords)
