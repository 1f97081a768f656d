"""Records that this process has read, and that Redis reports all changes of: client-side caching."""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ..aio import clock
from ..aio.bounded_cache import BoundedCache

# Redis reports changes of the keys whose reading follows `CLIENT CACHING YES`, but not those by this connection.
TRACK: Final = (("HELLO", "3"), ("CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"))
CACHE: Final = ("CLIENT", "CACHING", "YES")
_RECORDS: Final = 1024
_SILENT_SECONDS: Final = 1.0  # Seconds without any answer of Redis after which reports may be missing.


class TrackedRecords:
    """The values of the records that one connection has read last, while Redis reports their changes over it.

    See https://redis.io/docs/latest/develop/reference/client-side-caching/. A change by another process is known as
    soon as its report has arrived. If the connection is cut silently, values are used for another second at most.
    """

    def __init__(self) -> None:
        """Track nothing before `begin`."""
        self._values = BoundedCache[str, bytes](_RECORDS)
        # By the future answer to the command that reads it: a record, and the answer to the command before, `CACHE`.
        self.reads: dict[asyncio.Future[Any], tuple[str, asyncio.Future[Any]]] = {}
        self._has_unread: Callable[[], object] | None = None
        self._received = 0.0

    @property
    def is_on(self) -> bool:
        """True if Redis reports changes."""
        return self._has_unread is not None

    def begin(self, socket: Any) -> None:
        """Track records from now on: Redis has agreed to. `socket` is that of the connection."""
        self._has_unread = _reader_state(socket.fileno())

    def end(self) -> None:
        """Forget everything: the connection has ended."""
        self._has_unread = None
        self._values.clear()
        self.reads.clear()

    def received(self) -> None:
        """Remember that Redis has sent something."""
        self._received = clock.monotonic()

    def get(self, key: str) -> bytes | None:
        """Return the value of a record; None if it is not known, or if a report of its change may be on its way."""
        value = self._values.get(key)
        if value is None or self._has_unread is None:
            return None
        if clock.monotonic() > self._received + _SILENT_SECONDS or self._has_unread():
            return None
        return value

    def expect(self, key: str, caching: asyncio.Future[Any], answer: asyncio.Future[Any]) -> None:
        """Wait for the answers to `CACHE`, and to the command that reads a record."""
        self.reads[answer] = (key, caching)

    def answer(self, answer: asyncio.Future[Any], value: object) -> None:
        """Keep the value of a record, unless this connection has changed it since the command."""
        key, caching = self.reads.pop(answer, ("", answer))
        if caching is answer or not isinstance(value, bytes) or not caching.done() or caching.exception() is not None:
            return
        self._values.put(key, value)

    def forget(self, key: str) -> None:
        """Forget a record, before this connection changes it, which ends its tracking."""
        self._values.remove(key)
        for answer in [answer for answer, (name, _) in self.reads.items() if name == key]:
            del self.reads[answer]

    def report(self, message: Sequence[Any]) -> None:
        """Forget the records that a push message of Redis names, or all if it names none."""
        if message[:1] != [b"invalidate"]:
            return
        if message[1] is None:
            self._values.clear()
            self.reads.clear()
        for name in message[1] or ():
            self._values.remove(name.decode())


def _reader_state(descriptor: int) -> Callable[[], object]:
    """Return a function whose result is true if a socket has bytes that were not read yet."""
    if sys.platform == "win32":
        return lambda: select.select([descriptor], [], [], 0)[0]
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return partial(poll.poll, 0)
