"""Rewrite the import lines of programs that were written for the official SDK or FastMCP. Nothing else changes."""

from __future__ import annotations

import ast
import re
from typing import Final

COMPAT: Final = "mcp_generated.compat"
_OFFICIAL: Final = re.compile(r"(mcp|mcp_types|fastmcp)(\.|$)")
# Names of the last 1.x that have another shape in 2.x, and stand in `compat` under another name.
OLD_NAMES: Final = {"streamable_http_client": "streamablehttp_client"}


def rewrite(source: str, old: bool = False) -> str:
    """Return the source with its import lines changed; `old` is for programs of the last 1.x."""
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    statements = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    for node in sorted(statements, key=lambda node: node.lineno, reverse=True):
        replacement = _rewritten(node, old)
        if replacement is not None:
            assert node.end_lineno is not None
            indent = lines[node.lineno - 1][: node.col_offset]
            lines[node.lineno - 1 : node.end_lineno] = [f"{indent}{line}\n" for line in replacement]
    return "".join(lines)


def changed_lines(source: str) -> int:
    """Return the number of logical lines that `rewrite` changes."""
    return sum(
        _rewritten(node, False) is not None
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    )


def _rewritten(node: ast.Import | ast.ImportFrom, old: bool) -> list[str] | None:
    if isinstance(node, ast.ImportFrom):
        if node.level or not _OFFICIAL.match(node.module or ""):
            return None
        module = str(node.module)
        if module.split(".")[-1] in ("types", "mcp_types") and not module.endswith("utilities.types"):
            return [f"from {COMPAT}.types import {', '.join(map(_alias, node.names))}"]
        return [_from_compat(name, old) for name in node.names]
    if [name.name for name in node.names] == ["httpx"] and old:
        return ["import httpx2 as httpx"]  # The HTTP client of 2.x and of this package.
    official = [name for name in node.names if _OFFICIAL.match(name.name)]
    if not official:
        return None
    others = [name for name in node.names if name not in official]
    return [_plain_import(name) for name in official] + ([f"import {', '.join(map(_alias, others))}"] if others else [])


def _from_compat(name: ast.alias, old: bool) -> str:
    if name.name == "base":
        return f"from mcp_generated import compat as {name.asname or name.name}"
    target = OLD_NAMES.get(name.name, name.name) if old else name.name
    bound = name.asname or name.name
    return f"from {COMPAT} import {target}" + ("" if bound == target else f" as {bound}")


def _plain_import(name: ast.alias) -> str:
    last = name.name.split(".")[-1]
    if name.asname is None:
        return f"from mcp_generated import compat as {name.name.split('.')[0]}"
    return (
        f"from {COMPAT} import types as {name.asname}"
        if last in ("types", "mcp_types")
        else (f"from mcp_generated import compat as {name.asname}")
    )


def _alias(name: ast.alias) -> str:
    return name.name if name.asname is None else f"{name.name} as {name.asname}"
