"""Path safety: find path traversal in percent-encoded paths, including paths that are encoded more than once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

_MAX_DECODINGS: Final = 2  # A receiver may decode a path once more than it should, rarely twice.
_SEPARATOR: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_HARMLESS: Final = re.compile(r"[^%/\\.:\0]+")
_ROOT: Final = re.compile(r"(?:[A-Za-z]:)?[/\\]")


def has_traversal(path: str) -> bool:
    """Return True if the path, or one of its decodings, has a `.` or `..` segment or a NUL character."""
    return any(
        "\0" in text or any(segment.strip() in (".", "..") for segment in _SEPARATOR.split(text))
        for text in _decodings(path)
    )


def has_separator(text: str) -> bool:
    """Return True if the text, or one of its decodings, has a slash or a backslash."""
    return any(_SEPARATOR.search(decoded) for decoded in _decodings(text))


def is_absolute(path: str) -> bool:
    """Return True if the path, or one of its decodings, starts with a separator or a drive, or is empty."""
    return any(_DRIVE.match(text) or _SEPARATOR.split(text, maxsplit=1)[0] == "" for text in _decodings(path))


def leaves_directory(value: str, spans: bool) -> bool:
    """Return True if a value, or one of its decodings, would lead out of the directory that it is joined to.

    That is a value with a `.` or `..` segment, a NUL character, or the root of a file system. A value that may span
    several segments (`spans`) is a path: it may not be empty either, and may not have a drive.
    """
    if value and _HARMLESS.fullmatch(value):
        return False
    return has_traversal(value) or (is_absolute(value) if spans else any(map(_ROOT.match, _decodings(value))))


def _decodings(text: str) -> Iterator[str]:
    """Yield the text and its repeated percent-decodings."""
    yield text
    for _ in range(_MAX_DECODINGS):
        text = unquote(text)
        yield text
