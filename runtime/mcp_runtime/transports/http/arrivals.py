"""Requests that are being read go in; one that takes too long is given up. One timer serves all of them."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, Final

from ...http.headers import Turned
from .wire import Left, Receive

_LOOKS: Final = 10  # How often it is looked, in the time a request gets, whether one is late.


class Arrivals:
    """Bodies of at most `largest` bytes, which are there `seconds` after their heads."""

    def __init__(self, largest: int, seconds: float) -> None:
        self.largest = largest
        self._digits = len(str(largest))  # A number with fewer of them is less.
        self._seconds = seconds
        self._too_long = Turned(413, f"a message is at most {largest} bytes long")
        self._looks = 0  # So far: to count them is cheaper than to ask for the time.
        self._since: dict[asyncio.Task[Any], int] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def body(self, receive: Receive, length: bytes = b"") -> bytes | Turned:
        """The body of a request, refused as soon as it is known to be too long, be it from the `length` it is said to
        have, or too late. Raises Left."""
        if length and not (len(length) < self._digits and length.isdigit()):
            if len(length) > 15 or not length.isdigit():
                return Turned(400, "the Content-Length is no number")
            if int(length) > self.largest:
                return self._too_long
        task = asyncio.current_task(self._loop)
        if task is None or self._timer is None:  # The loop is not known yet, or nothing is being read.
            task = self._begin()
        self._since[task] = self._looks
        try:
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body") or len(body) > self.largest or message["type"] != "http.request":
                return await self._rest(receive, message)
            return body
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            self._late.discard(task)
            task.uncancel()
            return Turned(408, f"the request took longer than {self._seconds:g} seconds")
        finally:
            del self._since[task]

    async def _rest(self, receive: Receive, message: MutableMapping[str, Any]) -> bytes | Turned:
        """The body that begins with a message."""
        parts: list[bytes] = []
        size = 0
        while message["type"] != "http.disconnect":
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.largest:
                return self._too_long
            if not message.get("more_body"):
                return b"".join(parts)
            message = await receive()
        raise Left

    def _begin(self) -> asyncio.Task[Any]:
        """Look from now on, in the loop and for the task that run."""
        # Asked only now: to find out which loop runs takes a system call.
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds / _LOOKS, self._look)
        task = asyncio.current_task(self._loop)
        assert task is not None, "a request is served by a task"
        return task

    def _look(self) -> None:
        """Give up what is late; look again as long as something is being read."""
        loop = asyncio.get_running_loop()
        self._looks += 1
        self._timer = None
        for task, since in self._since.items():
            if self._looks - since > _LOOKS and task not in self._late:
                self._late.add(task)
                task.cancel()
        if self._since:
            self._timer = loop.call_later(self._seconds / _LOOKS, self._look)
