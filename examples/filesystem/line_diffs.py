"""Edits of a text, and their diff: the shortest one, with four lines of context, as the original prints it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_CONTEXT: Final = 4
_MAX_EDITS: Final = 1000  # A longer diff shows the middle of the text as replaced; the search takes quadratic time.

# A part of a diff: "-" for lines that are removed, "+" for lines that are added, " " for lines of both texts.
Part = tuple[str, list[str]]


class EditError(Exception):
    """A text to replace is not in the file."""


class Edit(NamedTuple):
    """A text to replace, and what to replace it with."""

    old: str
    new: str


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with the first place of each old text replaced.

    Lines that differ only in white space at their ends are a match too; they keep their indentation. Raises EditError.
    """
    for edit in edits:
        old, new = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
        text = text.replace(old, new, 1) if old in text else _replace_lines(text, old, new, edit.old)
    return text


def _replace_lines(text: str, old: str, new: str, requested: str) -> str:
    lines, old_lines = text.split("\n"), old.split("\n")
    stripped = [line.strip() for line in old_lines]
    for start in range(len(lines) - len(old_lines) + 1):
        if [line.strip() for line in lines[start : start + len(old_lines)]] == stripped:
            indentation = _indentation(lines[start])
            lines[start : start + len(old_lines)] = [
                _indented(line, number, old_lines, indentation) for number, line in enumerate(new.split("\n"))
            ]
            return "\n".join(lines)
    raise EditError(f"Could not find exact match for edit:\n{requested}")


def _indented(line: str, number: int, old_lines: Sequence[str], indentation: str) -> str:
    if number == 0:
        return indentation + line.lstrip()
    before = _indentation(old_lines[number]) if number < len(old_lines) else ""
    after = _indentation(line)
    if not (before and after):
        return line
    return indentation + " " * max(0, len(after) - len(before)) + line.lstrip()


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def unified_diff(path: str, old: str, new: str) -> str:
    """Return the diff of two texts with line feeds as line ends, in a Markdown block."""
    header = [f"Index: {path}", "=" * 67, f"--- {path}\toriginal", f"+++ {path}\tmodified"]
    diff = "\n".join([*header, *_hunks(_diff_lines(_lines(old), _lines(new)))]) + "\n"
    fence = "`" * (max([2, *(len(run) for run in re.findall("`+", diff))]) + 1)
    return f"{fence}diff\n{diff}{fence}\n\n"


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _hunks(parts: Sequence[Part]) -> list[str]:
    """Return the lines of the hunks; changes with at most twice the context between them share a hunk."""
    result: list[str] = []
    hunk: list[str] = []
    counts = {"-": 0, "+": 0, " ": 0}
    old = new = 1  # The numbers of the next lines.
    for index, (sign, lines) in enumerate(parts):
        if sign != " ":
            if not hunk and index:
                hunk = [f" {line}" for line in parts[index - 1][1][-_CONTEXT:]]
                counts[" "] = len(hunk)
            hunk += [f"{sign}{line}" for line in lines]
            counts[sign] += len(lines)
        elif hunk:
            ends = len(lines) > 2 * _CONTEXT or index == len(parts) - 1
            after = lines[:_CONTEXT] if ends else lines
            hunk += [f" {line}" for line in after]
            counts[" "] += len(after)
            if ends:
                result += _hunk(hunk, counts, old + len(after), new + len(after))
                hunk, counts = [], dict.fromkeys(counts, 0)
        old += len(lines) * (sign != "+")
        new += len(lines) * (sign != "-")
    return result + (_hunk(hunk, counts, old, new) if hunk else [])


def _hunk(lines: Sequence[str], counts: dict[str, int], old_end: int, new_end: int) -> list[str]:
    """Return a hunk with its head; the ends are the numbers of the lines after it."""
    old_count, new_count = counts["-"] + counts[" "], counts["+"] + counts[" "]
    # The start of an empty range is one lower, by the rules of the format.
    old_start, new_start = old_end - old_count - (not old_count), new_end - new_count - (not new_count)
    result = [f"@@ -{old_start},{old_count} +{new_start},{new_count} @@"]
    for line in lines:
        result += [line[:-1]] if line.endswith("\n") else [line, "\\ No newline at end of file"]
    return result


class _Path(NamedTuple):
    """The farthest path on a diagonal: how many old lines it has passed, its last edit, and the path before that."""

    passed: int
    sign: str
    before: _Path | None


def _diff_lines(old: Sequence[str], new: Sequence[str]) -> list[Part]:
    """Return the shortest diff (E. W. Myers, 1986); where several are possible, removed lines come first."""
    paths = {0: _Path(_common(old, new, 0, 0), "", None)}
    for edits in range(min(len(old) + len(new), _MAX_EDITS) + 1):
        for diagonal in range(-edits, edits + 1, 2):
            path = paths[0] if edits == 0 else _extend(paths, diagonal, old, new)
            if path is None:
                paths.pop(diagonal, None)
                continue
            if path.passed == len(old) and path.passed - diagonal == len(new):
                return _parts(path, old, new)
            paths[diagonal] = path
    same = _common(old, new, 0, 0)
    parts: list[Part] = [(" ", [*old[:same]]), ("-", [*old[same:]]), ("+", [*new[same:]])]
    return [part for part in parts if part[1]]


def _extend(paths: dict[int, _Path], diagonal: int, old: Sequence[str], new: Sequence[str]) -> _Path | None:
    """Return the farthest path on a diagonal with one more edit, None if there is none."""
    removing, adding = paths.get(diagonal - 1), paths.get(diagonal + 1)
    can_add = adding is not None and 0 <= adding.passed - diagonal - 1 < len(new)
    can_remove = removing is not None and removing.passed < len(old)
    if (
        adding is not None
        and can_add
        and not (can_remove and removing is not None and removing.passed >= adding.passed)
    ):
        start, sign, before = adding.passed, "+", adding
    elif removing is not None and can_remove:
        start, sign, before = removing.passed + 1, "-", removing
    else:
        return None
    return _Path(start + _common(old, new, start, start - diagonal), sign, before)


def _common(old: Sequence[str], new: Sequence[str], at: int, new_at: int) -> int:
    """Return the number of lines that are the same from these places on."""
    count = 0
    while at + count < len(old) and new_at + count < len(new) and old[at + count] == new[new_at + count]:
        count += 1
    return count


def _parts(path: _Path | None, old: Sequence[str], new: Sequence[str]) -> list[Part]:
    """Return the parts of the diff that a path stands for."""
    signs: list[str] = []
    while path is not None:
        start = 0 if path.before is None else path.before.passed + (path.sign == "-")
        signs += [" "] * (path.passed - start) + [path.sign] * bool(path.sign)
        path = path.before
    parts: list[Part] = []
    at = new_at = 0
    for sign in reversed(signs):
        if not parts or parts[-1][0] != sign:
            parts.append((sign, []))
        parts[-1][1].append(new[new_at] if sign == "+" else old[at])
        at += sign != "+"
        new_at += sign != "-"
    return parts
