"""Messages go in and Server-Sent Events come out as bytes, and the other way round (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_EVENT_BYTES: Final = 8 * 1024 * 1024  # Bytes of one event that are kept at most.
KEEP_ALIVE_COMMENT: Final = b": \n\n"  # Says nothing; keeps a connection open that would be idle.

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. `id` is that of the last event that had one, empty for none; `retry` is in milliseconds."""

    data: bytes
    id: str = ""
    kind: str = "message"
    retry: int | None = None


class OversizedEventError(ValueError):
    """An event is longer than the limit."""


def encode(data: bytes, id: str = "", kind: str = "", retry: int | None = None) -> bytes:
    """One event as bytes. `id` and `kind` hold no line end; each line of the data gets a field of its own."""
    head = b"event: %b\n" % kind.encode() if kind else b""
    if id:
        head += b"id: %b\n" % id.encode()
    if retry is not None:
        head += b"retry: %d\n" % retry
    if b"\n" in data or b"\r" in data:
        return head + b"".join(b"data: %b\n" % line for line in _LINE_END.split(data)) + b"\n"
    return b"%bdata: %b\n\n" % (head, data)


class SSEDecoder:
    """Bytes as they arrive go in, whole events come out. `last_id` is where a broken stream can be resumed."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self.last_id = ""
        self.retry: int | None = None
        self._limit = limit
        self._parts: list[bytes] = []  # What has come of the line that is not complete yet.
        self._held = 0
        self._first = True
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._id: str | None = None
        self._kind = ""

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that are complete with this chunk; an event without data is given too, if it has an id. Raises OversizedEventError."""
        if self._after_cr and chunk:
            # The CR that ended the last line was the first half of a CRLF, if this is its second half.
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        start = 0
        for found in _LINE_END.finditer(chunk):
            self._parts.append(chunk[start : found.start()])
            start = found.end()
            line = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
            self._after_cr = found.group() == b"\r" and start == len(chunk)
            if (event := self._line(line)) is not None:
                yield event
        rest = chunk[start:]
        if rest:
            self._parts.append(rest)
            self._held += len(rest)
            self._check(self._held)

    def _line(self, line: bytes) -> ServerSentEvent | None:
        if self._first:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._first = False
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
                self._check(self._size)
            case b"event":
                self._kind = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry = int(value)
            case _:
                pass  # A comment, or a field that nothing is known of.
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        if self._id is not None:
            self.last_id = self._id
        data = b"\n".join(self._data)
        said = bool(self._data) or self._id is not None
        event = ServerSentEvent(data, self.last_id, self._kind or "message", self.retry)
        self._data.clear()
        self._size, self._id, self._kind = 0, None, ""
        return event if said else None

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise OversizedEventError(f"an event is longer than {self._limit} bytes")
