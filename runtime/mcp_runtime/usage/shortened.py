"""Texts of peers as records, logs and errors have them: they have a size, whatever a peer sends."""

from __future__ import annotations

from typing import Final

MAX_CHARACTERS: Final = 200  # Of a name.
_MAX_ERROR: Final = 1000  # Of an error, which may repeat what a peer has sent.


def shortened(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return a text, or the beginning of a long one with a mark that names its length."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def error_text(error: BaseException) -> str:
    """Return an exception as text, shortened if it is long."""
    return shortened(str(error), _MAX_ERROR)


def quoted(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return a text as messages quote it, shortened if it is long."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}… ({len(text):,} characters)"
