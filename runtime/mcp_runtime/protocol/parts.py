"""The values of a JSON text, counted before it is parsed: each of them becomes an object."""

from __future__ import annotations

from typing import Final

MAX_PARTS: Final = 1_000_000  # The default limit of one message.

_OF_NAME: Final = 3  # What the name of a member counts: another name takes as long as a few numbers.


def has_more_parts(data: bytes, limit: int) -> bool:
    """Return True if a JSON text has more than `limit` values. A member of an object counts as four of them.

    Opening brackets, items after a comma and names are counted; those in strings do not count. Only texts longer than
    the limit are read: a value has at least one character, and a member five.
    """
    if len(data) <= limit or _count(data) <= limit:
        return False
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # Now each quotation mark begins or ends a string.
    strings = plain.count(b'"') // 2  # At most half of them are names, and a colon follows each name.
    if strings - min(plain.count(b'":'), strings // 2) > limit + 1:
        return True
    return _count(b"".join(plain.split(b'"')[::2])) > limit


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{") + _OF_NAME * text.count(b":")
