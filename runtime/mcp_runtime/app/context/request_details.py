"""Details of the request of a context, which a function and a low-level handler have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from ...session.interfaces import channel_of_connection

if TYPE_CHECKING:
    from ...http.received_request import ReceivedRequest
    from .app_context import AppContext
    from .session_view import RequestContext, ServerSession

S = TypeVar("S")


class StateAttribute:
    """The attribute with the value that the lifespan yields, for type checkers.

    Its type is the first type parameter, as in 2.x and of `Context[State]`; it is the second one if the first is
    `ServerSession`, as in 1.x.
    """

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: AppContext[ServerSession, S, Any], owner: Any = None) -> S: ...
        @overload
        def __get__(self, instance: RequestContext[ServerSession, S, Any], owner: Any = None) -> S: ...
        @overload
        def __get__(self, instance: AppContext[S, Any, Any], owner: Any = None) -> S: ...
        @overload
        def __get__(self, instance: RequestContext[S, Any, Any], owner: Any = None) -> S: ...
        def __get__(self, instance: Any, owner: Any = None) -> Any: ...

        def __set__(self, instance: Any, value: Any) -> None: ...


def negotiated_version(ctx: Any) -> str:
    """Return the protocol version that the client of a context has negotiated."""
    return channel_of_connection(ctx._channel).connection.revision.id


def received_request(ctx: Any) -> ReceivedRequest | None:
    """Return the HTTP request of a context; None over stdio and in memory."""
    scope = channel_of_connection(ctx._channel).scope
    if scope is None:
        return None
    from ...http.received_request import ReceivedRequest

    return ReceivedRequest(scope)
