"""The parts of a JSON text, counted before it is parsed: each of them becomes an object."""

from __future__ import annotations

from typing import Final

MAX_PARTS: Final = 1_000_000  # The default limit of the values of one message: containers, and what they contain.


def has_more_parts(data: bytes, limit: int) -> bool:
    """Return True if a JSON text has more than `limit` parts: opening brackets, and items after a comma.

    Only texts longer than the limit are read: a part has at least one character. Brackets and commas in strings do not
    count.
    """
    if len(data) <= limit or _count(data) <= limit:
        return False
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # Now each quotation mark begins or ends a string.
    strings = plain.count(b'"') // 2  # At most half of them are names, and a colon follows each name.
    if strings - min(plain.count(b'":'), strings // 2) > limit + 1:
        return True
    return _count(b"".join(plain.split(b'"')[::2])) > limit


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
