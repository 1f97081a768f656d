"""Details of the request of a context, which a function and a low-level handler have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_runtime.session.interfaces import channel_of_connection

if TYPE_CHECKING:
    from .state import ReceivedRequest


def negotiated_version(ctx: Any) -> str:
    """Return the protocol version that the client of a context has negotiated."""
    return channel_of_connection(ctx.channel).connection.revision.id


def received_request(ctx: Any) -> ReceivedRequest | None:
    """Return the HTTP request of a context; None over stdio and in memory."""
    scope = channel_of_connection(ctx.channel).scope
    if scope is None:
        return None
    from .state import ReceivedRequest

    return ReceivedRequest(scope)
