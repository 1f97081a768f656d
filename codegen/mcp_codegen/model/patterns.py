"""Texts that match a pattern: for the regular expressions that schemas have."""

from __future__ import annotations

import re
from typing import Final

# Characters to try for a class of characters.
_CHARACTERS: Final = "a0A-_./: é"
_TOKEN: Final = re.compile(
    r"(?P<open>\((?:\?:|\?P?<\w+>|(?!\?)))|(?P<close>\))|(?P<either>\|)|(?P<anchor>\^|\$|\\[bBAZz])"
    r"|(?P<one>\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^\\()|*+?])(?P<times>[*+?]\??|\{(?P<least>\d+)(?:,\d*)?\}\??)?",
    re.DOTALL,
)
_REPEATED: Final = re.compile(r"[*+?]\??|\{(?P<least>\d+)(?:,\d*)?\}\??")


def matching_text(pattern: str) -> str | None:
    """Return a text that matches a regular expression: the shortest for its first alternatives; None if it has other
    constructs than characters, classes, groups and repetitions."""
    try:
        text, end = _text(pattern, 0)
        return text if end == len(pattern) and re.search(pattern, text) is not None else None
    except (re.error, RecursionError):  # Of a regular expression in another dialect.
        return None


def _text(pattern: str, at: int) -> tuple[str, int]:
    """Return a text of the alternatives that begin here, and where they end."""
    parts: list[str] = []
    is_first = True
    while at < len(pattern) and (match := _TOKEN.match(pattern, at)) is not None and match["close"] is None:
        at, part = match.end(), ""
        if match["open"] is not None:
            part, inner_end = _text(pattern, at)
            repeated = _REPEATED.match(pattern, inner_end + 1)
            part *= _times(repeated[0] if repeated else None, repeated["least"] if repeated else None)
            at = repeated.end() if repeated else inner_end + 1
        elif match["either"] is not None:
            is_first = False
        elif match["one"] is not None:
            part = _character(match["one"]) * _times(match["times"], match["least"])
        parts += [part] if is_first else []
    return "".join(parts), at


def _times(written: str | None, least: str | None) -> int:
    if written is None or written[0] == "+":
        return 1
    return int(least) if least is not None else 0


def _character(written: str) -> str:
    """Return a character that an atom matches."""
    candidates = _CHARACTERS if written[0] in "[.\\" else written
    if written[0] == "\\":
        candidates += written[1]
    return next((character for character in candidates if re.fullmatch(written, character)), "")
