"""Messages with a header, as the Language Server Protocol and the Debug Adapter Protocol frame them.

https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#headerPart
"""

from __future__ import annotations

import re
from typing import Final

from mcp_runtime.protocol.framing import DEFAULT_LIMIT, OversizedMessage, SizeLimit

_END: Final = b"\r\n\r\n"
_MAX_HEADER: Final = 4096  # Bytes.
_LENGTH: Final = re.compile(rb"(?:^|\r\n)content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*(?:\r\n|\Z)", re.IGNORECASE)


def with_header(message: bytes) -> bytes:
    """Return a message below its header. The transport ends it with a line feed, which counts as whitespace of it."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(message) + 1, message)


class ContentLengthDecoder:
    """A decoder of messages with `Content-Length`. `broken` is True after a header that has none; the last message is
    then empty, and nothing is read any more."""

    def __init__(self, limit: SizeLimit = DEFAULT_LIMIT) -> None:
        """Create a decoder for messages within a limit; of longer ones the rest is skipped."""
        self._limit = limit
        self._data = bytearray()
        self._length: int | None = None
        self._skipped = 0  # Bytes of a message beyond the limit that are still to come.
        self.broken = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that these bytes complete; a message beyond the limit is an OversizedMessage."""
        if self.broken:
            return []
        self._data += data
        messages: list[bytes] = []
        while self._data and not self.broken:
            if self._skipped:
                skipped = min(self._skipped, len(self._data))
                del self._data[:skipped]
                self._skipped -= skipped
            elif self._length is None:
                if not self._read_header():
                    break
            elif self._length > self._limit.bytes:
                beginning = self._data[: min(self._length, _MAX_HEADER)]
                messages.append(OversizedMessage(bytes(beginning), self._limit))
                del self._data[: len(beginning)]
                self._skipped = self._length - len(beginning)
                self._length = None
            elif len(self._data) >= self._length:
                messages.append(bytes(self._data[: self._length]))
                del self._data[: self._length]
                self._length = None
            else:
                break
        if self.broken:
            messages.append(b"")
        return messages

    def _read_header(self) -> bool:
        """Read the length of the next message. Return False if its header is incomplete, or has none."""
        end = self._data.find(_END, 0, _MAX_HEADER)
        match = _LENGTH.search(self._data, 0, end + 2) if end >= 0 else None
        if match is None:
            self.broken = end >= 0 or len(self._data) >= _MAX_HEADER
            return False
        self._length = int(match[1])
        del self._data[: end + len(_END)]
        return True
