"""The context of the request that is handled now, for functions that do not get it as an argument.

An app sets it for requests from the moment that this module is imported; programs that never import it pay nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from mcp_products.common.awaiting import refusal, watch
from mcp_runtime.aio.threads import loop_of_worker
from mcp_runtime.errors import LocalError

if TYPE_CHECKING:
    from mcp_runtime.session.interfaces import AuthenticatedUser

    from .state import ReceivedRequest

_log: Final = logging.getLogger("mcp_runtime.app.context.current")
_current: Final[ContextVar[Any]] = ContextVar("mcp_context", default=None)

# Headers that belong to one connection or one body, or that prove who the client is: nobody forwards them by accident.
_NOT_FORWARDED: Final = frozenset(
    "accept authorization connection content-encoding content-length content-type cookie expect host keep-alive"
    " mcp-method mcp-name mcp-protocol-version mcp-session-id origin proxy-authenticate proxy-authorization"
    " proxy-connection te trailer transfer-encoding upgrade".split()
)


async def handle_current(answer: Any, registry: Any, name: str, ctx: Any, params: Any, states: Any) -> Any:
    """Return the result that a function answers a request with; `get_context` returns its context meanwhile."""
    token = _current.set(ctx)
    try:
        return await answer(registry, name, ctx, params, states)
    finally:
        _current.reset(token)
        if (message := refusal(ctx, f"get_context() in {name}")) is not None:
            _log.error("%s", message)


def get_context() -> Any:
    """Return the context of the request that is handled now, the `Context` of its function.

    Raises LocalError outside of a request, and in the request in which this function is first imported.
    """
    ctx = _current.get()
    if ctx is None:
        raise LocalError(
            "get_context(): no request is handled here; call it in a function that a tool, resource or prompt calls, "
            "and import it at the top of the module"
        )
    return ctx if loop_of_worker() is None else watch(ctx)


def get_server() -> Any:
    """Return the app that handles the request. Raises LocalError outside of a request."""
    return get_context().app


def get_http_request() -> ReceivedRequest:
    """Return the HTTP request: `headers`, `client`, `method`, `path`. Raises LocalError outside of HTTP."""
    ctx = _current.get()
    request: ReceivedRequest | None = None if ctx is None else ctx.request
    if request is None:
        raise LocalError("get_http_request(): there is no HTTP request; get_http_headers() returns {} then")
    return request


def get_http_headers(include_all: bool = False, include: Collection[str] | None = None) -> Mapping[str, str]:
    """Return the headers of the HTTP request, with lower-case names; empty outside of HTTP.

    Headers of the connection, of the body and of the authentication are left out, so that the others can be sent to
    another server.

    Args:
        include_all: Whether to return all headers.
        include: The names of headers to return besides those that are returned anyway.
    """
    if isinstance(include, str):
        raise LocalError(f"get_http_headers(): include must be a list of names: write [{include!r}]")
    ctx = _current.get()
    headers: Mapping[str, str] = (None if ctx is None else ctx.headers) or {}
    hidden = frozenset[str]() if include_all else _NOT_FORWARDED - {name.lower() for name in include or ()}
    return {name.lower(): value for name, value in headers.items() if name.lower() not in hidden}


def get_access_token() -> AuthenticatedUser | None:
    """Return the user of the access token; None without authentication and outside of a request."""
    ctx = _current.get()
    user: AuthenticatedUser | None = None if ctx is None else ctx.user
    return user
