"""The session and the request of a function or a handler, with the names that the official SDK has."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Unpack, cast

from mcp_runtime.endpoint.context import Watched
from mcp_runtime.endpoint.requests import send_request
from mcp_runtime.errors import ProtocolViolationError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import Handshake, Notification
from mcp_runtime.server.context import Level
from mcp_runtime.session.interfaces import channel_of_connection
from mcp_runtime.session.requests import DEFAULT_OPTIONS

from .elicitation import NO_TIMEOUT
from .input_context import client_rows
from .sampling import SampleSettings, to_messages, wire_settings
from .state import negotiated_version

_log: Final = logging.getLogger("mcp_runtime.app.context.request_views")

_CAPITAL: Final = re.compile(r"_([a-z])")


class RequestMeta(dict[str, Any]):
    """The `_meta` of a request, as a dict, with its keys as attributes: `meta.progressToken`, `meta.progress_token`."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name in ("progressToken", "progress_token"):
            return self.get("progressToken")
        raise AttributeError(f"the _meta of the request has no {name!r}")

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key; `progress_token` is another name of `progressToken`."""
        return super().get("progressToken" if key == "progress_token" else key, default)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return the value as a dict; the options of pydantic are accepted."""
        return dict(self)


class DeclaredObject(dict[str, Any]):
    """A JSON object that the client has declared, with its keys as attributes; one that is not there is None.

    It is true also if it is empty: a client declares `{"sampling": {}}`.
    """

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self.get(name, self.get(_CAPITAL.sub(lambda match: match[1].upper(), name)))
        return DeclaredObject(value) if is_object(value) else value


class ServerSession(Watched):
    """The session of the client that sent the request, with the methods of the official SDK."""

    checks_tokens: ClassVar[bool] = True
    """Whether the progress token of another request is refused."""

    def __init__(self, ctx: Any) -> None:
        """Create the view of a context."""
        self._ctx = ctx

    # ---- the client --------------------------------------------------------------------------------------------------

    @property
    def protocol_version(self) -> str:
        """The protocol version that the client has negotiated."""
        return negotiated_version(self._ctx)

    @property
    def client_capabilities(self) -> DeclaredObject:
        """The capabilities that the client has declared, as JSON with attributes: `client_capabilities.sampling`."""
        return DeclaredObject(self._ctx.capabilities)

    @property
    def client_info(self) -> DeclaredObject:
        """The `clientInfo` of the client, as JSON with attributes: `client_info.name`."""
        return DeclaredObject(self._ctx.client_info)

    @property
    def client_params(self) -> DeclaredObject:
        """What the client has declared: `clientInfo`, `capabilities` and `protocolVersion`."""
        return DeclaredObject(
            clientInfo=dict(self._ctx.client_info),
            capabilities=dict(self._ctx.capabilities),
            protocolVersion=self.protocol_version,
        )

    @property
    def can_send_request(self) -> bool:
        """Whether the client can answer requests: True, because input requests do so without a session."""
        return True

    def check_client_capability(self, capability: Any) -> bool:
        """Return True if the client has declared the capabilities of an object, such as `{"sampling": {}}`."""
        required = (
            capability.model_dump(by_alias=True, exclude_none=True) if hasattr(capability, "model_dump") else capability
        )
        return _includes(self._ctx.capabilities, required)

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def create_message(
        self,
        messages: Sequence[Any],
        *,
        max_tokens: int,
        related_request_id: Any = None,
        **settings: Unpack[SampleSettings],
    ) -> Any:
        """Sample a message from the client's model, and return its CreateMessageResult.

        The keywords are those of `ctx.sample`; `related_request_id` is always that of the request. Raises
        ClientCapabilityError if the client has no model, and TypeError for an unknown keyword.
        """
        params = wire_settings("create_message", settings)
        messages = to_messages(messages)
        return await self._request("on_create_message", {"messages": messages, "maxTokens": max_tokens, **params})

    async def list_roots(self) -> Any:
        """Return the ListRootsResult of the client. Raises ClientCapabilityError if it has none."""
        return await self._request("on_list_roots", {})

    async def elicit_form(
        self,
        message: str,
        requested_schema: Mapping[str, Any] | None = None,
        related_request_id: Any = None,
        **other: Mapping[str, Any],
    ) -> Any:
        """Send a form to the user, and return the ElicitResult.

        `requested_schema` is the JSON Schema of the form; `requestedSchema` is another name of it.
        """
        schema = other.pop("requestedSchema", requested_schema)
        if schema is None or other:
            raise TypeError("elicit_form() needs `requested_schema`, the JSON Schema of the form")
        return await self._request("on_elicit", {"mode": "form", "message": message, "requestedSchema": dict(schema)})

    elicit = elicit_form

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str | None = None, related_request_id: Any = None
    ) -> Any:
        """Request that the user visits a URL, and return the ElicitResult."""
        fields = {"mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}
        return await self._request("on_elicit", fields)

    async def send_ping(self) -> Any:
        """Send a ping; do nothing in a protocol version without pings."""
        channel = channel_of_connection(self._ctx.channel)
        lifecycle = channel.connection.revision.lifecycle
        if isinstance(lifecycle, Handshake):
            row: Any = channel.connection.revision.table("server_to_client")[lifecycle.ping_request.method]
            return await channel.send_request(row, {}, DEFAULT_OPTIONS)
        return None

    async def _request(self, name: str, params: dict[str, Any]) -> Any:
        ctx = self._ctx
        fields = {key: value for key, value in params.items() if value is not None}
        return await send_request(ctx, client_rows(ctx.revision)[name], fields, NO_TIMEOUT)

    # ---- notifications -----------------------------------------------------------------------------------------------

    async def send_log_message(
        self, level: Level, data: Any, logger: str | None = None, related_request_id: Any = None
    ) -> None:
        """Send a log message; the arguments are those of `ctx.log`."""
        # It has a warning for who calls it by this name; a session has no such one.
        log: Any = cast(Any, type(self._ctx)).log
        await getattr(log, "__wrapped__", log)(self._ctx, level, data, logger)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification; the arguments are those of `ctx.report_progress`."""
        await self._ctx.progress(progress, total, message)

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: str | None = None,
    ) -> None:
        """Send a progress notification of this request; another name of `ctx.report_progress`.

        Raises ValueError for the progress token of another request.
        """
        if self.checks_tokens and progress_token != self._ctx.meta.get("progressToken", progress_token):
            raise ValueError(f"the progress token {progress_token!r} is not that of this request")
        await self._ctx.progress(progress, total, message)

    async def send_resource_updated(self, uri: Any) -> None:
        """Notify the clients that have subscribed to a resource that it has changed."""
        try:
            await self._ctx.notify_resource_updated(str(uri))
        except ProtocolViolationError as error:  # The server of a low-level handler may declare no resources.
            _log.warning("send_resource_updated(%r) sends nothing: %s", str(uri), error)

    async def send_resource_list_changed(self) -> None:
        """Notify the clients that the list of resources has changed."""
        await self._ctx.notify_resource_list_changed()

    async def send_tool_list_changed(self) -> None:
        """Notify the clients that the list of tools has changed."""
        await self._ctx.notify_tool_list_changed()

    async def send_prompt_list_changed(self) -> None:
        """Notify the clients that the list of prompts has changed."""
        await self._ctx.notify_prompt_list_changed()

    async def send_elicit_complete(self, elicitation_id: str, related_request_id: Any = None) -> None:
        """Notify the client that the user has done what a URL is for, in the protocol versions that have this
        notification."""
        channel = channel_of_connection(self._ctx.channel)
        rows = (row for row in channel.connection.revision.rows if row.name == "on_elicitation_complete")
        row = next(rows, None)
        if isinstance(row, Notification):
            await channel.send_notification(row, {"elicitationId": elicitation_id})


def _includes(declared: Any, required: Any) -> bool:
    """Return True if a capabilities object has all keys of another one."""
    if not is_object(required) or not is_object(declared):
        return bool(declared) or declared == {}
    return all(name in declared and _includes(declared[name], value) for name, value in required.items())
