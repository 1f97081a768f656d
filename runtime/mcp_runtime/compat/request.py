"""The request and the session of functions and handlers, with the errors of the official SDK."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, ClassVar, Final, Generic

from ..app.context.request_context import RequestContext
from ..app.context.session_view import ServerSession
from ..app.context.state_attribute import FirstT, RequestT, StateT
from ..server.context import ServerContext
from .mcp_errors import received_errors

CURRENT: Final[ContextVar[ServerContext]] = ContextVar("the context of the request that a low-level handler serves")


class OfficialSession(ServerSession):
    """The session of a client. Its requests raise McpError."""

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: str | None = None,
    ) -> None:
        """Send the progress of the request, if the client has requested it; the token is always the client's."""
        await self._ctx.progress(progress, total, message)

    async def _request(self, name: str, params: dict[str, Any]) -> Any:
        with received_errors():
            return await super()._request(name, params)


class OfficialRequestContext(RequestContext[FirstT, StateT, RequestT], Generic[FirstT, StateT, RequestT]):
    """The request that a low-level handler or a middleware serves."""

    session_class: ClassVar[type[ServerSession]] = OfficialSession


class OfficialContextMixin:
    """The part of the context of an official app's functions whose errors are those of the official SDK."""

    @property
    def session(self) -> ServerSession:
        """The client's session. Its requests raise McpError."""
        return OfficialSession(self)

    @property
    def request_context(self) -> Any:
        """The request, as the official SDK shows it."""
        return OfficialRequestContext(self)
