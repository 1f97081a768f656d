"""Requests that are being read go in; one that takes too long is given up. One timer serves all of them."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, Final

from .asgi import ClientDisconnectError, Receive
from .headers import HTTPError

_CHECKS: Final = 10  # How often it is looked, in the time a request gets, whether one is late.


class BodyReader:
    """Bodies of at most `largest` bytes, which are there `seconds` after their heads."""

    def __init__(self, max_bytes: int, seconds: float) -> None:
        self.max_bytes = max_bytes
        self._digits = len(str(max_bytes))  # A number with fewer of them is less.
        self._seconds = seconds
        self._too_long = HTTPError(413, f"a message is at most {max_bytes} bytes long")
        self._checks = 0  # So far: to count them is cheaper than to ask for the time.
        self._started: dict[asyncio.Task[Any], int] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def read(self, receive: Receive, length: bytes = b"") -> bytes | HTTPError:
        """The body of a request, refused as soon as it is known to be too long, be it from the `length` it is said to
        have, or too late. Raises Left."""
        if length and not (len(length) < self._digits and length.isdigit()):
            if len(length) > 15 or not length.isdigit():
                return HTTPError(400, "the Content-Length is no number")
            if int(length) > self.max_bytes:
                return self._too_long
        task = asyncio.current_task(self._loop)
        if task is None or self._timer is None:  # The loop is not known yet, or nothing is being read.
            task = self._begin()
        self._started[task] = self._checks
        try:
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body") or len(body) > self.max_bytes or message["type"] != "http.request":
                return await self._rest(receive, message)
            return body
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            self._late.discard(task)
            task.uncancel()
            return HTTPError(408, f"the request took longer than {self._seconds:g} seconds")
        finally:
            del self._started[task]

    async def _rest(self, receive: Receive, message: MutableMapping[str, Any]) -> bytes | HTTPError:
        """The body that begins with a message."""
        parts: list[bytes] = []
        size = 0
        while message["type"] != "http.disconnect":
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.max_bytes:
                return self._too_long
            if not message.get("more_body"):
                return b"".join(parts)
            message = await receive()
        raise ClientDisconnectError

    def _begin(self) -> asyncio.Task[Any]:
        """Look from now on, in the loop and for the task that run."""
        # Asked only now: to find out which loop runs takes a system call.
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds / _CHECKS, self._check)
        task = asyncio.current_task(self._loop)
        assert task is not None, "a request is served by a task"
        return task

    def _check(self) -> None:
        """Give up what is late; look again as long as something is being read."""
        loop = asyncio.get_running_loop()
        self._checks += 1
        self._timer = None
        for task, since in self._started.items():
            if self._checks - since > _CHECKS and task not in self._late:
                self._late.add(task)
                task.cancel()
        if self._started:
            self._timer = loop.call_later(self._seconds / _CHECKS, self._check)
