"""What to write instead of a keyword of the official SDK or of FastMCP that has another name here: other_names.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any


def advice(function: str, keyword: str, names: Sequence[str]) -> str | None:
    """Return what to write instead of a keyword of another SDK; None if it has no row, or its row names no keyword."""
    text = _rows(function).get(keyword)
    if isinstance(text, list):
        text = text[0] if text[0] in names else text[1]
    if text is None:
        return None
    if text.isidentifier():
        return f"use {text!r}" if text in names else None
    return text


def _rows(function: str) -> Mapping[str, str | list[str]]:
    """Return the rows of a function: those of its name, else of its class."""
    name, tables = function.rpartition(".")[2], _tables()
    by_class = "apps" if name.endswith("App") else "clients" if name.endswith("Client") else "requests"
    named = (table for table, functions in tables["functions"].items() if name in functions)
    rows: Mapping[str, str | list[str]] = tables[next(named, by_class)]
    return rows


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
