"""The request of a function or a handler, with the names that the official SDK has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic

from mcp_runtime.protocol.records import records

from .request_views import RequestMeta, ServerSession
from .state import negotiated_version, received_request
from .state_attribute import FirstT, LifespanStateOwner, RequestT, StateAttribute, StateT


class RequestContext(LifespanStateOwner[FirstT, StateT, RequestT], Generic[FirstT, StateT, RequestT]):
    """The request of a function or a handler, as the official SDK shows it; `ctx` has the same and more.

    The type parameters are those of `Context`.
    """

    session_class: ClassVar[type[ServerSession]] = ServerSession

    def __init__(self, ctx: Any) -> None:
        """Create the view of a context."""
        self._ctx = ctx

    @property
    def request_id(self) -> str | int | None:
        """The id of the request; None for a notification."""
        id: str | int | None = self._ctx.request_id
        return id

    @property
    def meta(self) -> RequestMeta | None:
        """The `_meta` of the request; None if it is empty."""
        return RequestMeta(self._ctx.meta) if self._ctx.meta else None

    @property
    def session(self) -> ServerSession:
        """The client's session."""
        return self.session_class(self._ctx)

    if TYPE_CHECKING:
        lifespan_context = StateAttribute()
    else:

        @property
        def lifespan_context(self) -> Any:
            """The value that the lifespan yielded."""
            return self._ctx.state

    @property
    def request(self) -> Any:
        """The HTTP request; None over stdio and in memory."""
        return received_request(self._ctx)

    @property
    def protocol_version(self) -> str:
        """The protocol version that the client has negotiated."""
        return negotiated_version(self._ctx)

    @property
    def method(self) -> str:
        """The method of the request."""
        return str(self._ctx.received.row.method)

    @property
    def params(self) -> dict[str, Any]:
        """The params of the request, as JSON."""
        params = records().as_model(self._ctx.received.params)
        return {} if params is None else dict(params.model_dump(mode="json", by_alias=True))

    async def close_sse_stream(self) -> None:
        """Close the SSE stream of this request without ending the request."""
        self._ctx.close_sse_stream()

    async def close_standalone_sse_stream(self) -> None:
        """Close the SSE stream that the client has opened with a GET; the client opens it again."""
        self._ctx.close_standalone_sse_stream()
