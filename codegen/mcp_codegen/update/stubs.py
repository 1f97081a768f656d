"""Rows without a sentence in docs.toml, for the names that have none yet."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from typing import Final

from ..errors import CodegenError

_ROW: Final = re.compile(r'^("(?:[^"\\]|\\.)*"|[\w-]+)\s*=')
_EMPTY: Final = re.compile(r'^("(?:[^"\\]|\\.)*"|[\w-]+) = ""\n', re.MULTILINE)
_TABLE: Final = re.compile(r"^\[([\w.]+)\]\s*$")


def with_stubs(text: str, names: Iterable[str]) -> str:
    """Return the text of docs.toml with an empty row for each of these types (`Name`) and properties (`Type.name`), and
    no other empty row. The rows are in the order of their keys. Raises CodegenError for a text that is not TOML."""
    text = _EMPTY.sub("", text)
    try:
        tables = tomllib.loads(text)
    except ValueError as error:
        raise CodegenError(f"docs.toml: is not TOML: {error}; correct it") from error
    for name in names:
        table = "properties" if "." in name else "types"
        if name not in tables.get(table, {}):
            text = _with_row(text, table, name)
    return text


def _with_row(text: str, table: str, name: str) -> str:
    lines = text.splitlines(keepends=True)
    row = f'{name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)} = ""\n'
    heads = [(number, match[1]) for number, line in enumerate(lines) if (match := _TABLE.match(line))]
    start = next((number for number, head in heads if head == table), None)
    if start is None:
        return text + f"\n[{table}]\n{row}".removeprefix("\n" * (not text))
    end = next((number for number, _ in heads if number > start), len(lines))
    rows = [(number, match[1].strip('"')) for number in range(start + 1, end) if (match := _ROW.match(lines[number]))]
    place = next((number for number, key in rows if key > name), None)
    if place is None:
        place = end
        while place > start + 1 and not lines[place - 1].strip():
            place -= 1
        if not lines[place - 1].endswith("\n"):
            lines[place - 1] += "\n"
    return "".join([*lines[:place], row, *lines[place:]])
