"""Server-Sent Events: encode and decode events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_EVENT_BYTES: Final = 8 * 1024 * 1024  # The default limit of one event, in bytes.
KEEP_ALIVE_COMMENT: Final = b": \n\n"  # A comment that proxies count as traffic, so that they do not close the stream.

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. `id` is the last event id of the stream, empty if there is none; `retry` is in milliseconds."""

    data: bytes
    id: str = ""
    kind: str = "message"
    retry: int | None = None


class OversizedEventError(ValueError):
    """Raised if an event is longer than the limit."""


def encode(data: bytes, id: str = "", kind: str = "", retry: int | None = None) -> bytes:
    """Encode one event. `id` and `kind` must not contain line ends; each line of the data becomes one data field."""
    head = b"event: %b\n" % kind.encode() if kind else b""
    if id:
        head += b"id: %b\n" % id.encode()
    if retry is not None:
        head += b"retry: %d\n" % retry
    if b"\n" in data or b"\r" in data:
        return head + b"".join(b"data: %b\n" % line for line in _LINE_END.split(data)) + b"\n"
    return b"%bdata: %b\n\n" % (head, data)


class SSEDecoder:
    """A decoder of an event stream. `last_id` is the id to resume a broken stream with (Last-Event-ID)."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        """Create a decoder for events of at most `limit` bytes."""
        self.last_id = ""
        self.retry: int | None = None
        self._limit = limit
        self._line_parts: list[bytes] = []  # The parts of the incomplete line.
        self._buffered = 0
        self._at_start = True
        self._after_cr = False
        self._data: list[bytes] = []
        self._data_size = 0
        self._id: str | None = None
        self._kind = ""

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that this chunk completes, including events that have an id and no data.

        Raises OversizedEventError if an event exceeds the limit.
        """
        if self._after_cr and chunk:
            # The last line ended with CR; if this chunk starts with LF, both are one line end (CRLF).
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        start = 0
        for line_end in _LINE_END.finditer(chunk):
            self._line_parts.append(chunk[start : line_end.start()])
            start = line_end.end()
            line = b"".join(self._line_parts)
            self._line_parts.clear()
            self._buffered = 0
            self._after_cr = line_end.group() == b"\r" and start == len(chunk)
            if (event := self._process_line(line)) is not None:
                yield event
        rest = chunk[start:]
        if rest:
            self._line_parts.append(rest)
            self._buffered += len(rest)
            self._check_size(self._buffered)

    def _process_line(self, line: bytes) -> ServerSentEvent | None:
        if self._at_start:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._data_size += len(value) + 1
                self._check_size(self._data_size)
            case b"event":
                self._kind = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry = int(value)
            case _:
                pass  # Comments and unknown fields are ignored.
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        if self._id is not None:
            self.last_id = self._id
        data = b"\n".join(self._data)
        has_content = bool(self._data) or self._id is not None
        event = ServerSentEvent(data, self.last_id, self._kind or "message", self.retry)
        self._data.clear()
        self._data_size = 0
        self._id = None
        self._kind = ""
        return event if has_content else None

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise OversizedEventError(f"an event is longer than {self._limit} bytes")
