"""Message framing of the stdio transport: each message is one line.

https://modelcontextprotocol.io/specification/draft/basic/transports
"""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024  # The default limit of one message, in bytes.

# Replaces a line that was longer than the limit; the decoder has skipped its bytes.
OVERSIZED_MESSAGE: Final = b"\0 a line longer than the limit"


class LineDecoder:
    """A decoder of newline-delimited messages. LF or CRLF ends a line; empty lines are skipped."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        """Create a decoder for lines of at most `limit` bytes."""
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete. The time is linear in the number of bytes."""
        if not self._parts and not self._skipping and data.find(b"\n") == len(data) - 1 <= self._limit:
            return [line] if (line := data[:-1].removesuffix(b"\r")) else []  # The common case: exactly one line.
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            self._buffer(end)
            if self._skipping:
                lines.append(OVERSIZED_MESSAGE)
            elif line := (b"".join(self._parts) if len(self._parts) > 1 else end).removesuffix(b"\r"):
                lines.append(line)
            self._parts.clear()
            self._size = 0
            self._skipping = False
        if rest:
            self._buffer(rest)
        return lines

    def _buffer(self, part: bytes) -> None:
        """Buffer a part of a line; once the line exceeds the limit, discard it."""
        self._size += len(part)
        if self._skipping or self._size > self._limit:
            self._parts.clear()
            self._skipping = True
        else:
            self._parts.append(part)
