"""The context of a request as low-level handlers of the official SDK use it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextvars import ContextVar
from inspect import unwrap
from typing import Any, Final, Generic, cast

from pydantic import BaseModel
from typing_extensions import TypeVar

from ..errors import ProtocolViolationError
from ..protocol.models import is_object
from ..server.context import Level, ServerContext
from ..session.interfaces import ChannelProxy
from .mcp_errors import received_errors

_log: Final = logging.getLogger(__name__)

SessionT = TypeVar("SessionT", default=Any)
LifespanT = TypeVar("LifespanT", default=Any)
RequestT = TypeVar("RequestT", default=Any)


class OfficialRequestContext(Generic[SessionT, LifespanT, RequestT]):
    """The request that a low-level handler serves."""

    def __init__(self, ctx: Any) -> None:
        """Create the view of a context. The runtime does this."""
        self._ctx = ctx

    @property
    def session(self) -> Any:
        """The messages that the handler can send to the client."""
        return SessionView(self._ctx)

    @property
    def method(self) -> str:
        """The method of the message."""
        return str(self._ctx._message.row.method)

    @property
    def params(self) -> dict[str, Any]:
        """The params of the message, as JSON."""
        params: Any = self._ctx._message.params
        fields: dict[str, Any] = params.model_dump(mode="json", by_alias=True) if params is not None else {}
        return fields

    @property
    def request_id(self) -> Any:
        """The id of the request; None for a notification."""
        return self._ctx.request_id

    @property
    def meta(self) -> OfficialRequestMeta | None:
        """The `_meta` of the params; None if there is none."""
        return OfficialRequestMeta.model_validate(self._ctx.meta) if self._ctx.meta else None

    @property
    def lifespan_context(self) -> Any:
        """The value that the server's `lifespan` yielded."""
        return self._ctx.state

    @property
    def protocol_version(self) -> str:
        """The id of the negotiated protocol version."""
        channel = self._ctx._channel
        while isinstance(channel, ChannelProxy):
            channel = channel._channel  # pyright: ignore[reportPrivateUsage]
        return str(channel.connection.revision.id)

    @property
    def request(self) -> Any:
        """The HTTP request; None over other transports."""
        return getattr(self._ctx, "request", None)

    async def close_sse_stream(self) -> None:
        """Close the SSE stream of this request; the client reconnects for the response."""
        self._ctx.close_sse_stream()


class OfficialRequestMeta(BaseModel, extra="allow"):
    """The `_meta` of a request."""

    progressToken: str | int | None = None  # noqa: N815 - The property has this name.

    @property
    def progress_token(self) -> str | int | None:
        """The token for progress notifications."""
        return self.progressToken

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key."""
        return self.model_dump(exclude_none=True).get(key, default)


CURRENT: Final[ContextVar[ServerContext]] = ContextVar("the context of the request that a low-level handler serves")


class SessionView:
    """The messages that a handler can send to the client. They belong to the request of the handler."""

    def __init__(self, ctx: Any) -> None:
        """Create the view of a context. The runtime does this."""
        self._ctx = ctx

    async def send_log_message(
        self, level: Level, data: Any, logger: str | None = None, related_request_id: Any = None
    ) -> None:
        """Send a log message, if the client's minimum level allows it."""
        await ServerContext.log(self._ctx, level, data, logger)

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: Any = None,
    ) -> None:
        """Send the progress of the request, if the client has requested it."""
        await self._ctx.progress(progress, total, message)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send the progress of the request, if the client has requested it."""
        await self._ctx.progress(progress, total, message)

    async def send_resource_updated(self, uri: Any) -> None:
        """Notify the client that a resource has changed; log a warning if the server declares no resources."""
        try:
            await self._ctx.notify_resource_updated(str(uri))
        except ProtocolViolationError as error:
            _log.warning("send_resource_updated(%r) sends nothing: %s", str(uri), error)

    async def send_resource_list_changed(self) -> None:
        """Notify the client that the list of resources has changed."""
        await self._ctx.notify_resource_list_changed()

    async def send_tool_list_changed(self) -> None:
        """Notify the client that the list of tools has changed."""
        await self._ctx.notify_tool_list_changed()

    async def send_prompt_list_changed(self) -> None:
        """Notify the client that the list of prompts has changed."""
        await self._ctx.notify_prompt_list_changed()

    async def create_message(
        self, messages: Sequence[Any], *, max_tokens: int, related_request_id: Any = None, **options: Any
    ) -> Any:
        """Sample a message from the client's model, and return the result.

        `options` are those of `ctx.create_message`. Raises McpError if the client responds with an error.
        """
        with received_errors():
            return await self._call("create_message", list(messages), max_tokens, **options)

    async def list_roots(self) -> Any:
        """Return the roots of the client. Raises McpError if the client responds with an error."""
        with received_errors():
            return await self._call("list_roots")

    async def elicit(self, message: str, requestedSchema: dict[str, Any]) -> Any:  # noqa: N803 - Its name in the SDK.
        """Elicit input from the user by a form, and return the result."""
        return await self.elicit_form(message, requestedSchema)

    async def elicit_form(self, message: str, requestedSchema: dict[str, Any]) -> Any:  # noqa: N803 - As above.
        """Elicit input from the user by a form, and return the result."""
        fields = {"message": message, "requestedSchema": requestedSchema}
        with received_errors():
            return await self._ctx.elicit(fields)

    async def elicit_url(self, message: str, url: str, elicitation_id: str, related_request_id: Any = None) -> Any:
        """Elicit input from the user at a URL, and return the result."""
        fields = {"mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}
        with received_errors():
            return await self._ctx.elicit(fields)

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the context without the warning that the newest revision deprecates it."""
        context_class = cast(Any, type(self._ctx))
        return await unwrap(getattr(context_class, name))(self._ctx, *arguments, **options)

    def check_client_capability(self, capability: BaseModel) -> bool:
        """Return True if the client has declared all that these capabilities contain."""
        required = capability.model_dump(mode="json", by_alias=True, exclude_none=True)
        return _contains(self._ctx.capabilities, required)


def _contains(declared: Any, required: Any) -> bool:
    if not is_object(required):
        return bool(declared == required)
    return is_object(declared) and all(
        name in declared and _contains(declared[name], value) for name, value in required.items()
    )
