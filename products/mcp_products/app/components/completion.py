"""Rank completion values by how well they match what the user has typed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

_MIN_SIMILARITY: Final = 0.6  # Of 1; lower ratios match by chance.


def rank_completions(values: Iterable[str], typed: str, max_values: int = 100) -> list[str]:
    """Return the values that match what the user has typed, best match first; for a server's `complete` handler.

    Values that start with the text come first, then values that contain it, then values that are spelled similarly.
    Upper and lower case are the same.

    Args:
        values: All possible values.
        typed: The text that the user has typed: `params.argument.value`.
        max_values: The maximum number of values to return; the specification allows 100.
    """
    prefix = typed.casefold()

    def score(value: str) -> float:
        text = value.casefold()
        if text.startswith(prefix):
            return 3.0
        if prefix in text:
            return 2.0
        beginning = text[: len(prefix) + 1]
        if 2 * len(beginning) < _MIN_SIMILARITY * (len(prefix) + len(beginning)):
            return 0.0  # It cannot be similar, and a client chooses how long the comparison of a long text would take.
        return SequenceMatcher(None, prefix, beginning).ratio()

    scored = [(score(value), value) for value in values]
    matches = sorted((match for match in scored if match[0] >= _MIN_SIMILARITY), key=lambda match: -match[0])
    return [value for _, value in matches[:max_values]]
