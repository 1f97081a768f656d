"""The context of an app's functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal

from ...protocol.models import is_object
from ...protocol.revision import Notification
from ...session.interfaces import channel_of_connection
from ...session.options import Params, RequestOptions
from ...usage.keywords import NoKeywords
from ..components.own_rounds import own_state
from .own_context import OwnContext
from .request_details import negotiated_version, received_request
from .state_attribute import FirstT as FirstT
from .state_attribute import LifespanStateOwner, StateAttribute
from .state_attribute import RequestT as RequestT
from .state_attribute import StateT as StateT

if TYPE_CHECKING:
    from ...http.received_request import ReceivedRequest
    from .request_context import RequestContext
    from .session_view import DeclaredObject, ServerSession


class AppContext(OwnContext, LifespanStateOwner[FirstT, StateT, RequestT], Generic[FirstT, StateT, RequestT]):
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
            """The value that the lifespan yielded; another name of `state`."""
            return self.state

    count_of_reads = 0
    """How often `get_state` was called in this run of the function."""

    # ---- the request and its session ---------------------------------------------------------------------------------

    @property
    def request(self) -> ReceivedRequest | None:
        """The HTTP request: its headers, the client's address, method and path; None over stdio and in memory.

        Headers are input of the client: they prove no identity.
        """
        return received_request(self)

    @property
    def transport(self) -> Literal["stdio", "sse", "streamable-http"] | None:
        """The transport of the request; None in memory."""
        channel: Any = channel_of_connection(self._channel)
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
        session_id: str | None = self._connection_state.session_id
        return session_id

    @property
    def protocol_version(self) -> str:
        """The protocol version that the client has negotiated. `revision` is that of the app's functions."""
        return negotiated_version(self)

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
        return getattr(self._message.params, "input_responses", None)

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
        from .request_context import RequestContext

        return RequestContext(self)

    @property
    def session(self) -> ServerSession:
        """The client's session, with the methods that the official SDK has: `create_message`, `send_log_message` …"""
        from .session_view import ServerSession

        return ServerSession(self)

    # ---- state of the session ----------------------------------------------------------------------------------------

    async def get_state(self, key: str, default: Any = None) -> Any:
        """Return a value of the session that `set_state` has stored; `default` if there is none.

        Args:
            key: The name of the value.
            default: What to return if there is no value.
        """
        from .session_state import get_state

        return await get_state(self, key, default)

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
        from .session_state import set_state

        await set_state(self, key, value, serializable)

    async def delete_state(self, key: str) -> None:
        """Delete a value of the session; do nothing if there is none.

        Args:
            key: The name of the value.
        """
        from .session_state import delete_state

        await delete_state(self, key)

    # ---- changes -----------------------------------------------------------------------------------------------------

    async def notify_tools_changed(self) -> None:
        """Notify all clients that the list of tools has changed; another name of `notify_tool_list_changed`."""
        await self._announce(self.client_row("on_tool_list_changed"), {}, None)

    async def notify_resources_changed(self) -> None:
        """Notify all clients that the list of resources has changed; another name of `notify_resource_list_changed`."""
        await self._announce(self.client_row("on_resource_list_changed"), {}, None)

    async def notify_prompts_changed(self) -> None:
        """Notify all clients that the list of prompts has changed; another name of `notify_prompt_list_changed`."""
        await self._announce(self.client_row("on_prompt_list_changed"), {}, None)

    async def _announce(
        self, row: Notification, params: Params, options: RequestOptions | None, keywords: NoKeywords | None = None
    ) -> None:
        """Send a change notification to all clients of the app that have subscribed to it."""
        await self._served._announce(row, params, options, keywords)
