"""The values of a JSON text, counted before it is parsed: each of them becomes an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_PARTS: Final = 750_000  # The default limit of one message: its text is parsed in one step.

_OF_NAME: Final = 3  # What the name of a member counts: another name takes as long as a few numbers.
_NO_MARKS: Final = bytes(byte for byte in range(256) if byte not in b",[{:")
_BLOCK: Final = 512 * 1024  # Bytes that are counted at once.


def has_more_parts(data: bytes, limit: int) -> bool:
    """Return True if a JSON text has more than `limit` values. A member of an object counts as four of them.

    Opening brackets, items after a comma and names are counted; those in strings do not count. Only texts longer than
    the limit are read: a value has at least one character, and a member five.
    """
    return any(count > limit for count in counts_of_parts(data, limit))


def counts_of_parts(data: bytes, limit: int) -> Iterator[int]:
    """Yield how many values a JSON text has so far, block by block; nothing if they are clearly not more than `limit`,
    and no more once they are."""
    if len(data) <= limit or _count(data) <= limit:
        return
    count, is_string, rest = 0, False, b""
    for start in range(0, len(data), _BLOCK):
        plain = (rest + data[start : start + _BLOCK]).replace(b"\\\\", b"")
        rest = b"\\" if plain.endswith(b"\\") else b""  # It escapes the first character of the next block.
        parts = plain.removesuffix(b"\\").replace(b'\\"', b"").split(b'"')  # Each begins or ends a string.
        count += _count(b"".join(parts[is_string::2]))
        is_string ^= len(parts) % 2 == 0
        yield count
        if count > limit:
            return


def _count(text: bytes) -> int:
    marks = text.translate(None, _NO_MARKS)  # One pass, which takes a third of the time of four counts.
    return len(marks) + (_OF_NAME - 1) * marks.count(b":")
