"""Text of others that is written to a terminal, which obeys some characters: titles, links, the direction of text."""

from __future__ import annotations

import re
from typing import Final

_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")


def plain(text: str) -> str:
    """Return text in which each character that is not printable is escaped."""
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def coloured(text: str) -> str:
    """Return text in which such characters are escaped, but for tabs and for those that choose a colour."""
    if text.isprintable():
        return text
    parts = _COLOUR.split(text)
    parts[::2] = ("\t".join(map(plain, part.split("\t"))) for part in parts[::2])
    return "".join(parts) + ("\x1b[0m" if len(parts) > 1 else "")
