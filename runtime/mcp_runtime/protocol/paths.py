"""Path safety: find path traversal in percent-encoded paths, including paths that are encoded more than once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

_MAX_DECODINGS: Final = 2  # A receiver may decode a path once more than it should, rarely twice.
_SEPARATOR: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")


def has_traversal(path: str) -> bool:
    """Return True if the path, or one of its decodings, has a `.` or `..` segment or a NUL character."""
    return any(
        "\0" in text or any(segment.strip() in (".", "..") for segment in _SEPARATOR.split(text))
        for text in _decodings(path)
    )


def has_separator(text: str) -> bool:
    """Return True if the text, or one of its decodings, has a slash or a backslash."""
    return any(_SEPARATOR.search(decoded) for decoded in _decodings(text))


def has_backslash(text: str) -> bool:
    """Return True if the text, or one of its decodings, has a backslash, the separator of Windows."""
    return any("\\" in decoded for decoded in _decodings(text))


def is_absolute(path: str) -> bool:
    """Return True if the path, or one of its decodings, starts with a separator or a drive, or is empty."""
    return any(_DRIVE.match(text) or _SEPARATOR.split(text, maxsplit=1)[0] == "" for text in _decodings(path))


def _decodings(text: str) -> Iterator[str]:
    """Yield the text and its repeated percent-decodings."""
    yield text
    for _ in range(_MAX_DECODINGS):
        text = unquote(text)
        yield text
