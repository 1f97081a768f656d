"""Glob patterns as the original has them: `*`, `?`, `[a-z]`, `{a,b}`, `**` for any folders, `!(a|b)`, `!` in front."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Final

_MAX_ALTERNATIVES: Final = 1000  # Of the braces of one pattern.
_ENDS: Final = {"@": ")", "?": ")?", "*": ")*", "+": ")+"}

Segment = re.Pattern[str] | None  # None is `**`.


@lru_cache(maxsize=100)
def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tests relative paths. Names that begin with a dot match as all others do."""
    if pattern.startswith("#"):  # A comment.
        return lambda path: False
    body = pattern.lstrip("!")
    negated = (len(pattern) - len(body)) % 2 == 1
    alternatives = [[_segment(part) for part in re.split("/+", one)] for one in _expand_braces(body)]

    def matches(path: str) -> bool:
        parts = path.split("/")
        return any(_match(parts, segments) for segments in alternatives) is not negated

    return matches


def _match(parts: Sequence[str], segments: Sequence[Segment]) -> bool:
    """Match the parts of a path; `**` at the end needs one part at least. The time is bounded by their product."""
    reached = {0}
    for number, segment in enumerate(segments):
        if segment is not None:
            reached = {at + 1 for at in reached if at < len(parts) and segment.fullmatch(parts[at])}
        elif number == len(segments) - 1:
            return any(at < len(parts) for at in reached)
        elif reached:
            reached = set(range(min(reached), len(parts)))
    return len(parts) in reached


def _segment(text: str) -> Segment:
    """Return the regular expression of one part of a pattern."""
    return None if text == "**" else re.compile("(?=.)" + _translate(text) if text else "", re.DOTALL)


def _translate(text: str) -> str:
    result, at = "", 0
    while at < len(text):
        character = text[at]
        group = _group_end(text, at)
        if group:
            inner = "|".join(_translate(part) for part in _split(text[at + 2 : group - 1], "|"))
            rest = _translate(text[group:])
            if character == "!":
                return f"{result}(?!(?:{inner}){rest}$).*?{rest}"
            return f"{result}(?:{inner}{_ENDS[character]}{rest}"
        at += 1
        if character == "*":
            result += "" if result.endswith(".*?") else ".*?"
        elif character == "?":
            result += "."
        elif character == "[" and (end := _class_end(text, at)):
            content = text[at:end].replace("\\", "\\\\").replace("[", "\\[")
            result += f"[^{content[1:]}]" if content[0] in "!^" else f"[{content}]"
            at = end + 1
        elif character == "\\" and at < len(text):
            result += re.escape(text[at])
            at += 1
        else:
            result += re.escape(character)
    return result


def _group_end(text: str, at: int) -> int:
    """Return the index after a group such as `@(a|b)` that begins here, 0 if none does."""
    if text[at] not in "!?*+@" or text[at + 1 : at + 2] != "(":
        return 0
    end = _closing(text, at + 1)
    return end + 1 if end else 0


def _closing(text: str, start: int) -> int:
    """Return the index of the bracket that ends what the bracket at `start` begins, 0 without one."""
    begin, end = text[start], {"(": ")", "{": "}"}[text[start]]
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == begin) - (text[index] == end)
        if depth == 0:
            return index
    return 0


def _class_end(text: str, start: int) -> int:
    """Return the index of the bracket that ends a class of characters, 0 if none does."""
    first = start + (text[start : start + 1] in ("!", "^"))
    end = text.find("]", first + 1)
    return max(end, 0)


def _split(text: str, separator: str) -> list[str]:
    """Split outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "({") - (character in ")}")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _expand_braces(pattern: str) -> list[str]:
    """Return the alternatives of `{a,b}`, `{1..3}` and `{a..c}`; braces of one part stay as they are."""
    start = pattern.find("{")
    while start >= 0:
        end = _closing(pattern, start)
        if end and (parts := _brace_parts(pattern[start + 1 : end])):
            inner = [one for part in parts for one in _expand_braces(part)]
            combined = product(inner, _expand_braces(pattern[end + 1 :]))
            return [pattern[:start] + one + rest for one, rest in combined][:_MAX_ALTERNATIVES]
        start = pattern.find("{", start + 1)
    return [pattern]


def _brace_parts(inner: str) -> list[str]:
    if numbers := re.fullmatch(r"(-?\d{1,6})\.\.(-?\d{1,6})", inner):
        first, last = int(numbers[1]), int(numbers[2])
        step = 1 if first <= last else -1
        return [str(number) for number in range(first, last + step, step)][:_MAX_ALTERNATIVES]
    if letters := re.fullmatch(r"([A-Za-z])\.\.([A-Za-z])", inner):
        low, high = sorted(map(ord, letters.groups()))
        return [chr(code) for code in range(low, high + 1)]
    parts = _split(inner, ",")
    return parts if len(parts) > 1 else []
