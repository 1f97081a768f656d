"""An event loop of Windows that listens on when a client resets its connection before it is accepted.

asyncio's own closes the listening socket then, so that any client could end a server:
https://github.com/python/cpython/issues/93821
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from typing import Any, Final

assert sys.platform == "win32"

_ACCEPTING: Final = "IocpProactor.accept.<locals>.accept_coro"  # It is told of the same errors as `accept`.
_RETRY_SECONDS: Final = 1.0  # As the selector loop: until then there may be handles again.


class AcceptingLoop(asyncio.ProactorEventLoop):
    """The Proactor loop, whose servers end when they are closed."""

    def __init__(self) -> None:
        super().__init__(_Proactor())

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log nothing of a connection that ended early: clients could fill logs."""
        task = context.get("future")
        if not isinstance(task, asyncio.Task) or getattr(task.get_coro(), "__qualname__", "") != _ACCEPTING:
            super().call_exception_handler(context)


class _Proactor(asyncio.IocpProactor):
    def accept(self, listener: socket.socket) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._next(listener))

    async def _next(self, listener: socket.socket) -> Any:
        """Return the next connection that lives. Closing the server cancels this."""
        while True:
            try:
                accepted = super().accept(listener)
            except OSError:
                if listener.fileno() == -1:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            with suppress(OSError):
                return await accepted
