"""The headers of proxies, as uvicorn's middleware reads them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ....http.asgi import Receive, Scope, Send

_Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class ProxyHeaders:
    """Lets uvicorn's middleware change the scope of a request, and then calls the application instead of it.

    A stream that lasts for days so has no coroutine of the middleware.
    """

    def __init__(self, middleware: Any) -> None:
        """Use the middleware of an application."""
        self._application: _Application = middleware.app
        self._middleware: Any = middleware
        middleware.app = _do_nothing

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve an ASGI connection."""
        if scope["type"] != "lifespan":
            run_to_end(self._middleware(scope, receive, send))
        return self._application(scope, receive, send)


def run_to_end(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing. Raises RuntimeError if it waits, so that no header is left unread."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("the middleware for the headers of proxies waits; use a release of uvicorn in which it does not")


async def _do_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Be the application of the middleware."""
