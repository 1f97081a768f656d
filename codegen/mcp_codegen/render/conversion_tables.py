"""Print the tables of a conversion in fewer lines than black: what fits into a line is not split, and the items of a
tuple fill their lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeGuard

from ..conversion.steps import Step
from .types import literal

_WIDTH: Final = 120
_STEP: Final = 2


def conversion_tables(steps: list[Step]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return for each step its target and its tables, as Python texts by their names."""
    return [(literal(step.target), [*_tables(asdict(step))]) for step in steps]


def _tables(step: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in step.items():
        if name.startswith("renamed_") and not value:
            continue  # Few steps have any.
        if name == "rules" and value:
            yield name, _block("{", [f"{entry}," for entry in _rules(value)], "}", 8)
        else:
            yield name, _printed(value, 8, len(name) + 5)


def _rules(rules: Mapping[str, str]) -> Iterator[str]:
    """Yield the entries by their reason, which several rules may have."""
    names: dict[str, list[str]] = {}
    for name, reason in rules.items():
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        if len(those) == 1:
            yield f"{_line(those[0])}: {_line(reason)}"
        else:
            yield f"**dict.fromkeys({_filled('(', those, ')', 10)}, {_line(reason)})"


def _printed(value: Any, indent: int, used: int) -> str:
    """Return the text of a value. Its first line begins in the column `indent + used`."""
    text = _line(value)
    if indent + used + len(text) < _WIDTH:
        return text
    if _is_sequence(value):
        return _filled(text[0], value, text[-1], indent)
    if not _is_table(value):
        return text
    entries = [(_line(key), item) for key, item in value.items()]
    if len(entries) == 1:
        ((key, item),) = entries
        return f"{{{key}: {_printed(item, indent, used + len(key) + 3)}}}"
    return _block(
        "{", [f"{key}: {_printed(item, indent + _STEP, len(key) + 3)}," for key, item in entries], "}", indent
    )


def _filled(opening: str, items: Iterable[Any], closing: str, indent: int) -> str:
    """Return a sequence with as many items in a line as fit."""
    lines = [""]
    for item in items:
        text = _printed(item, indent + _STEP, 1)
        if lines[-1] and indent + 6 + len(lines[-1]) + len(text.partition("\n")[0]) > _WIDTH:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{text},"
    return _block(opening, lines, ",)" if len(lines) == 1 and closing == ")" else closing, indent)


def _block(opening: str, lines: Iterable[str], closing: str, indent: int) -> str:
    """Return a collection in several lines. Its last line has the closing bracket, as in Lisp."""
    return opening + "".join(f"\n{' ' * (indent + _STEP)}{line}" for line in lines).rstrip(",") + closing


def _line(value: Any) -> str:
    """Return a literal in one line, with the quotation marks that black prefers."""
    if isinstance(value, str):
        return literal(value)
    if _is_table(value):
        return "{" + ", ".join(f"{_line(key)}: {_line(item)}" for key, item in value.items()) + "}"
    if not _is_sequence(value):
        return ascii(value)
    inside = ", ".join(map(_line, value))
    return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if len(value) == 1 else f"({inside})"


def _is_table(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: Any) -> TypeGuard[tuple[Any, ...] | list[Any]]:
    return isinstance(value, (tuple, list))
