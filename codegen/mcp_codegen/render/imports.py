"""The imports of a generated module: none that it does not use, in the order of isort."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

_FUTURE, _STANDARD, _THIRD_PARTY, _RELATIVE = range(4)
_MAGIC: Final = "__future__"


def tidy_imports(text: str) -> str:
    """Return the module without the imports that it does not use, and with the others sorted in their groups."""
    tree = ast.parse(text)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = text.split("\n")
    for run in sorted(_runs(tree), key=lambda run: -run[0].lineno):
        indent = " " * run[0].col_offset
        statements = _statements(_without_unused(run, used))
        lines[run[0].lineno - 1 : run[-1].end_lineno] = [indent + line if line else "" for line in statements]
    return "\n".join(lines)


def _runs(tree: ast.Module) -> Iterator[list[ast.Import | ast.ImportFrom]]:
    """Return the imports that stand next to each other, at the top of the module and below a condition at its top."""
    for body in [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]:
        for is_import, nodes in groupby(body, key=lambda node: isinstance(node, (ast.Import, ast.ImportFrom))):
            if is_import:
                yield [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]


def _without_unused(run: Iterable[ast.Import | ast.ImportFrom], used: set[str]) -> list[ast.Import | ast.ImportFrom]:
    """One node for each module or renamed import; what is imported under its own name again is exported."""
    members: dict[tuple[int, str], list[ast.alias]] = {}
    statements: list[ast.Import | ast.ImportFrom] = []
    for node in run:
        if isinstance(node, ast.Import):
            statements.append(node)
            continue
        for alias in node.names:
            if alias.name == "*" or (alias.asname is not None and alias.asname == alias.name):
                statements.append(ast.ImportFrom(node.module, [alias], node.level))
            elif (alias.asname or alias.name) in used or node.module == _MAGIC:
                if alias.asname is None:
                    members.setdefault((node.level, node.module or ""), []).append(alias)
                else:
                    statements.append(ast.ImportFrom(node.module, [alias], node.level))
    for (level, module), aliases in members.items():
        statements.append(ast.ImportFrom(module or None, sorted(aliases, key=_member_key), level))
    return statements


def _statements(imports: list[ast.Import | ast.ImportFrom]) -> list[str]:
    """Return the lines of the statements, with an empty one between two groups."""
    lines: list[str] = []
    for _, group in groupby(sorted(imports, key=_key), key=_group):
        lines += ["", *map(ast.unparse, group)]
    return lines[1:]


def _group(node: ast.Import | ast.ImportFrom) -> int:
    if isinstance(node, ast.ImportFrom) and node.level:
        return _RELATIVE
    name = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
    if name == _MAGIC:
        return _FUTURE
    return _STANDARD if name.partition(".")[0] in sys.stdlib_module_names else _THIRD_PARTY


def _key(node: ast.Import | ast.ImportFrom) -> tuple[int, bool, int, str, tuple[int, str]]:
    """Return the order of the statements: by group; whole modules first; parents before siblings; then by name."""
    if isinstance(node, ast.Import):
        return _group(node), False, 0, node.names[0].name.lower(), (0, "")
    return _group(node), True, -node.level, (node.module or "").lower(), _member_key(node.names[0])


def _member_key(alias: ast.alias) -> tuple[int, str]:
    """Return the order of names in one statement: constants, then classes, then the others."""
    if len(alias.name) > 1 and alias.name.isupper():
        return 0, alias.name.lower()
    return 1 if alias.name[:1].isupper() else 2, alias.name.lower()
