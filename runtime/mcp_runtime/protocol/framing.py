"""Message framing of the stdio transport: each message is one line.

https://modelcontextprotocol.io/specification/draft/basic/transports
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

BOM: Final = b"\xef\xbb\xbf"  # Some programs on Windows begin what they send with it; RFC 8259 lets readers ignore it.
# Bytes above which a message is large: a smaller one takes about ten milliseconds at most.
LARGE: Final = 32 * 1024
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024  # The default limit of one message, in bytes.

_END_BYTES: Final = 2048  # Bytes of a line beyond the limit that are left of its beginning, and of its end.


class SizeLimit(NamedTuple):
    """How many bytes a message may have, and what to write to raise this limit."""

    bytes: int = MAX_MESSAGE_BYTES
    setting: str = ""

    @property
    def reason(self) -> str:
        """Why a longer message is refused."""
        remedy = f"; {self.setting} raises it" if self.setting else ""
        return f"the message is longer than the limit of {self.bytes} bytes{remedy}"


DEFAULT_LIMIT: Final = SizeLimit()


class OversizedMessage(bytes):
    """The beginning and the end of a message that was longer than the limit, which may have its id."""

    reason: str

    def __new__(cls, data: bytes, limit: SizeLimit = DEFAULT_LIMIT) -> Self:
        """Return the message that exceeds a limit."""
        message = super().__new__(cls, data)
        message.reason = limit.reason
        return message


class LineDecoder:
    """A decoder of newline-delimited messages. LF or CRLF ends a line; empty lines are skipped."""

    def __init__(self, limit: SizeLimit = DEFAULT_LIMIT) -> None:
        """Create a decoder for lines within a limit."""
        self._rule = limit
        self._limit = limit.bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._beginning: bytes | None = None  # That of a line beyond the limit.

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete. The time is linear in the number of bytes."""
        if not self._parts and self._beginning is None and data.find(b"\n") == len(data) - 1 <= self._limit:
            return [line] if (line := data[:-1].removesuffix(b"\r")) else []  # The common case: exactly one line.
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        is_short = len(data) <= self._limit
        for end in ends:
            if is_short and not self._parts and self._beginning is None:  # A whole line within the limit.
                if end := end.removesuffix(b"\r"):
                    lines.append(end)
                continue
            self._buffer(end)
            if self._beginning is not None:
                end = b"".join(self._parts)[-_END_BYTES:]
                lines.append(OversizedMessage(self._beginning + b"\0" + end, self._rule))
            elif line := (b"".join(self._parts) if len(self._parts) > 1 else end).removesuffix(b"\r"):
                lines.append(line)
            self._parts.clear()
            self._size = 0
            self._beginning = None
        if rest:
            self._buffer(rest)
        return lines

    def _buffer(self, part: bytes) -> None:
        """Buffer a part of a line; once the line exceeds the limit, discard all but its beginning and its end."""
        self._size += len(part)
        self._parts.append(part)
        if self._size <= self._limit:
            return
        if self._beginning is None:
            self._beginning = b"".join(self._parts)[:_END_BYTES]
        self._parts[:] = [b"".join(self._parts)[-_END_BYTES:]]
