"""The minimum level of log messages that a target was told: each time that it changes, once for all that want it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ...aio.shared_work import SharedWorks
from ...errors import JSONRPCError, MCPError
from ...protocol.jsonrpc import INTERNAL_ERROR

_log: Final = logging.getLogger(__name__)

_SECONDS: Final = 30.0  # Seconds that a target may take to set its level.


class TargetLevel:
    """The level of one connection to a target. It is known when the target has answered.

    The request of a client that is cancelled meanwhile costs the others nothing: the level is sent in work that all
    share which want the same one.
    """

    def __init__(self, proxy: str, send: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Create a level that is not known.

        Args:
            proxy: The name of the proxy, for messages.
            send: Sends a level to the target, and waits for its answer. Raises JSONRPCError, or MCPError.
        """
        self._proxy = proxy
        self._send = send
        self._known: str | None = None
        self._failed: str | None = None  # The level that was sent last, if that has failed.
        self._setting: SharedWorks[str, None] = SharedWorks("setting the level of log messages")
        self._turn = asyncio.Lock()

    async def set(self, level: str) -> None:
        """Set the level, unless the target has it. Raises JSONRPCError if that fails."""
        if level != self._known or len(self._setting):
            try:
                await self._setting.run(level, lambda: self._set(level))
            except JSONRPCError:
                raise
            except MCPError as error:
                raise self._error(str(error)) from error

    async def use(self, level: str | None) -> None:
        """Set the level for a request, which goes on if that fails; then it is not tried again for the next one."""
        if level is None or (level in (self._known, self._failed) and not len(self._setting)):
            return
        try:
            await self.set(level)
        except JSONRPCError as error:
            _log.warning("the level of log messages was not set to %r: %s", level, error)

    async def close(self) -> None:
        """End the requests that set it."""
        await self._setting.close()

    async def _set(self, level: str) -> None:
        async with self._turn:  # The target has them in the order in which they were asked for.
            if level == self._known:
                return
            self._known = None
            self._failed = level
            try:
                async with asyncio.timeout(_SECONDS):
                    await self._send(level)
            except TimeoutError:
                raise self._error(f"no answer within {_SECONDS:g} s") from None
            self._known = level
            self._failed = None

    def _error(self, reason: str) -> JSONRPCError:
        return JSONRPCError(INTERNAL_ERROR, f"the target of the proxy {self._proxy!r}: {reason}")
