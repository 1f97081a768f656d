"""Request bodies: read with a size limit and a deadline. One timer serves all requests that are being read."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, Final, cast

from ..protocol.framing import SizeLimit
from .asgi import WHOLE_BODIES, ClientDisconnectError, Receive, Scope
from .buffered import BufferedBytes
from .client_keys import address_of, client_key
from .headers import HTTPError

_MAX_BUFFERED: Final = 256 * 1024 * 1024  # Bytes.
_TICKS: Final = 10  # The number of timer ticks in the time limit of one request.


_TOO_MANY: Final = HTTPError(
    503, "too many large requests are incomplete: send it again later", close=True, retry_after=1
)


class BodyReader:
    """A reader of request bodies with a size limit and a time limit."""

    def __init__(self, limit: SizeLimit, seconds: float, max_buffered: int = _MAX_BUFFERED) -> None:
        """Create a reader.

        Args:
            limit: The limit of one body; longer bodies are rejected with 413.
            seconds: The time limit for one body, in seconds after the head; later bodies are rejected with 408.
            max_buffered: The limit of all bodies that are not complete. Above it, the largest of the client that holds
                most of them is rejected with 503.
        """
        self.max_bytes = limit.bytes
        self._buffered = BufferedBytes(max_buffered)
        self._digits = len(str(limit.bytes))  # A Content-Length with fewer digits is below the limit.
        self._seconds = seconds
        self._too_long = HTTPError(413, limit.reason)
        self._too_long_unread = replace(self._too_long, close=True)
        self._ticks = 0  # Counting ticks is cheaper than reading the clock for each request.
        self._started: dict[asyncio.Task[Any], int] = {}
        self._ended: dict[asyncio.Task[Any], HTTPError] = {}  # The reads that are cancelled, and their responses.
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def read(self, receive: Receive, length: bytes = b"", scope: Scope | None = None) -> bytes | HTTPError:
        """Return the body of a request, or the error to reject it with: 413 as soon as it is known to be too long,
        408 if it is late, 503 if too many are incomplete, 400 if `length`, its Content-Length, is not a number. The
        ASGI scope has the address of the client. Raises ClientDisconnectError."""
        if length and not (len(length) < self._digits and length.isdigit()):
            if not length.isdigit():
                return HTTPError(400, "Content-Length must be a number")
            digits = length.lstrip(b"0")
            if len(digits) > self._digits or int(digits or b"0") > self.max_bytes:
                return self._too_long_unread
        request: object = getattr(receive, "__self__", None)
        take = WHOLE_BODIES.get(type(request))
        if take is not None and (whole := take(request)) is not None:
            return self._too_long if len(whole) > self.max_bytes else whole
        task = asyncio.current_task(self._loop)
        if task is None or self._timer is None:  # The first request, or the first after an idle time.
            task = self._start_timer()
        self._started[task] = self._ticks
        try:
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body") or len(body) > self.max_bytes or message["type"] != "http.request":
                return await self._read_remaining(receive, message, task, scope)
            return body
        except asyncio.CancelledError:
            if (error := self._ended.pop(task, None)) is None:
                raise
            task.uncancel()
            return error
        finally:
            del self._started[task]

    async def _read_remaining(
        self, receive: Receive, message: MutableMapping[str, Any], task: asyncio.Task[Any], scope: Scope | None
    ) -> bytes | HTTPError:
        """Return the body that starts with this ASGI message."""
        parts: list[bytes] = []
        size, client = 0, client_key(None, address_of(scope))
        try:
            while message["type"] != "http.disconnect":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > self.max_bytes:
                    return self._too_long_unread if message.get("more_body") else self._too_long
                if not message.get("more_body"):
                    return b"".join(parts)
                self._buffered.set(task, client, size)
                if (excess := self._buffered.excess()) is task:
                    return _TOO_MANY
                if excess is not None:
                    self._buffered.set(excess, client, 0)
                    self._end(cast("asyncio.Task[Any]", excess), _TOO_MANY)
                message = await receive()
            raise ClientDisconnectError
        finally:
            self._buffered.set(task, client, 0)

    def _start_timer(self) -> asyncio.Task[Any]:
        """Start the timer in the running loop, and return the current task."""
        # Cached for later requests: get_running_loop makes a system call.
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds / _TICKS, self._cancel_late)
        task = asyncio.current_task(self._loop)
        assert task is not None, "a request is served by a task"
        return task

    def close(self) -> None:
        """Reject the requests whose bodies have not arrived: the server ends."""
        for task in self._started:
            self._end(task, HTTPError(503, "the server is shutting down", retry_after=1))

    def _end(self, task: asyncio.Task[Any], error: HTTPError) -> None:
        if task not in self._ended:
            self._ended[task] = error
            task.cancel()

    def _cancel_late(self) -> None:
        """Cancel the reads that are late; restart the timer while bodies are being read."""
        loop = asyncio.get_running_loop()
        self._ticks += 1
        self._timer = None
        late = HTTPError(408, f"the request took longer than {self._seconds:g} seconds")
        for task, since in self._started.items():
            if self._ticks - since > _TICKS:
                self._end(task, late)
        if self._started:
            self._timer = loop.call_later(self._seconds / _TICKS, self._cancel_late)
