"""Requests that are being read go in; one that takes too long is given up. One timer serves all of them."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ...http.headers import Turned
from .wire import Left, Receive

_LOOKS: Final = 10  # How often it is looked, in the time a request gets, whether one is late.


class Arrivals:
    """Bodies of at most `largest` bytes, which are there `seconds` after their heads."""

    def __init__(self, largest: int, seconds: float) -> None:
        self.largest = largest
        self._seconds = seconds
        self._too_long = f"a message is at most {largest} bytes long"
        self._looks = 0  # So far: to count them is cheaper than to ask for the time.
        self._since: dict[asyncio.Task[Any], int] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def body(self, receive: Receive, length: bytes = b"") -> bytes | Turned:
        """The body of a request, refused as soon as it is known to be too long, be it from the `length` it is said to
        have, or too late. Raises Left."""
        if length and (len(length) > 15 or not length.isdigit()):
            return Turned(400, "the Content-Length is no number")
        if length and int(length) > self.largest:
            return Turned(413, self._too_long)
        task = asyncio.current_task(self._loop)
        if task is None or self._timer is None:  # The loop is not known yet, or nothing is being read.
            task = self._begin()
        assert task is not None, "a request is served by a task"
        self._since[task] = self._looks
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Left
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > self.largest:
                    return Turned(413, self._too_long)
                more: bool = message.get("more_body", False)
                if not parts and not more:
                    return part
                parts.append(part)
                if not more:
                    return b"".join(parts)
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            self._late.discard(task)
            task.uncancel()
            return Turned(408, f"the request took longer than {self._seconds:g} seconds")
        finally:
            del self._since[task]

    def _begin(self) -> asyncio.Task[Any] | None:
        """Look from now on, in the loop that is running."""
        # Asked only now: to find out which loop runs takes a system call.
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds / _LOOKS, self._look)
        return asyncio.current_task(self._loop)

    def _look(self) -> None:
        """Give up what is late; look again as long as something is being read."""
        self._looks += 1
        self._timer = None
        for task, since in self._since.items():
            if self._looks - since > _LOOKS and task not in self._late:
                self._late.add(task)
                task.cancel()
        if self._since:
            self._begin()
