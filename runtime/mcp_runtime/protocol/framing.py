"""Bytes as they arrive go in, whole lines come out; for stdio, where a message is a line. No line outgrows its limit."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024  # Bytes in one message, unless something else is said.

# Stands for a line that was longer than the limit; the rest of it has been skipped.
OVERSIZED_MESSAGE: Final = b"\0 a line longer than the limit"


class LineDecoder:
    """Collects bytes into lines. LF ends a line, a CR before it is not part of it, and blank lines are nothing."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete with these bytes, in time linear in the bytes."""
        if not self._parts and not self._skipping and data.find(b"\n") == len(data) - 1 <= self._limit:
            return [line] if (line := data[:-1].removesuffix(b"\r")) else []  # As it is mostly: one whole line.
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            self._keep(end)
            if self._skipping:
                lines.append(OVERSIZED_MESSAGE)
            elif line := (b"".join(self._parts) if len(self._parts) > 1 else end).removesuffix(b"\r"):
                lines.append(line)
            self._parts.clear()
            self._size = 0
            self._skipping = False
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        """Hold a part of a line, or nothing of it once it is too long."""
        self._size += len(part)
        if self._skipping or self._size > self._limit:
            self._parts.clear()
            self._skipping = True
        else:
            self._parts.append(part)
