"""Bytes as they arrive go in, whole lines come out; for stdio, where a message is a line."""

from __future__ import annotations

from collections.abc import Iterator


class Lines:
    """Collects bytes into lines; LF ends a line, a CR before it is not part of it, and blank lines are nothing."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are complete with these bytes."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join([*self._parts, end]).removesuffix(b"\r")
            self._parts.clear()
            if line:
                yield line
        if rest:
            self._parts.append(rest)


def framed(message: bytes) -> bytes:
    """A message as a line."""
    return message + b"\n"
