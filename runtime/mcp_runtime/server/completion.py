"""Rank completion values by how well they match what the user has typed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

_SIMILARITY: Final = 0.6  # Of 1; less is chance.


def rank_completions(values: Iterable[str], typed: str, max_values: int = 100) -> list[str]:
    """The values that fit what was typed, the most fitting first: those that begin with it, those that have it inside,
    then those that are spelled alike; for a server's handler of completions."""
    wanted = typed.casefold()

    def fit(value: str) -> float:
        found = value.casefold()
        if found.startswith(wanted):
            return 3.0
        return 2.0 if wanted in found else SequenceMatcher(None, wanted, found[: len(wanted) + 1]).ratio()

    fitting = [(fit(value), value) for value in values]
    chosen = sorted((each for each in fitting if each[0] >= _SIMILARITY), key=lambda each: -each[0])
    return [value for _, value in chosen[:max_values]]
