"""Print templates, and format the modules that they make: imports that are needed, and the layout of black.

Tables of data have a denser layout.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeGuard

import jinja2

from ..errors import CodegenError
from ..paths import Templates, generator_version
from .types import literal

# The imports of a generated module: none that it does not use, in the order of isort.

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


GENERATOR: Final = generator_version()
# Ruff's layout of what the templates give is black's, in a hundredth of the time: docs/adr/0054.
_FORMAT: Final = (
    *(sys.executable, "-P", "-m", "ruff", "format", "--isolated", "--no-cache", "--no-respect-gitignore"),
    *("--line-length", "120", "--target-version", "py311"),
)


def format_module(text: str, what: str) -> str:
    """Return the module without the imports it does not need, formatted."""
    return format_text(_tidy(text, what))


def tidy_modules(files: Mapping[Path, str], folder: Path) -> dict[Path, str]:
    """Return the modules without the imports that they do not need; errors name their paths in the folder."""
    return {
        path: _tidy(text, path.relative_to(folder).as_posix()) if path.suffix == ".py" else text
        for path, text in files.items()
    }


def format_text(text: str) -> str:
    """Return a tidy module, formatted."""
    return _formatted([text])[0]


def format_modules(files: Mapping[Path, str]) -> dict[Path, str]:
    """Return tidy modules, formatted, and the other files as they are."""
    modules = {path: text for path, text in files.items() if path.suffix == ".py"}
    return {**files, **dict(zip(modules, _formatted(modules.values()), strict=True))}


def _formatted(texts: Iterable[str]) -> list[str]:
    """Return modules as one run of ruff formats them, in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="mcp-codegen-") as name:
        paths: list[Path] = []
        for number, text in enumerate(texts):
            paths.append(Path(name, f"{number}.py"))
            paths[-1].write_bytes(text.encode())
        done = subprocess.run([*_FORMAT, name], capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode:
            raise CodegenError(f"ruff cannot format what the templates give: {' '.join(done.stderr.split())[:300]}")
        return [path.read_bytes().decode() for path in paths]


def _tidy(text: str, what: str) -> str:
    try:
        return tidy_imports(text)
    except (SyntaxError, ValueError) as error:
        raise CodegenError(f"{what}: what the templates give is not Python: {error}") from error


def print_template(template: str, context: Mapping[str, Any], templates: Templates) -> str:
    """Return what a template gives. Raises CodegenError for a template that is broken, or asks for what is not
    there."""
    try:
        return _environment(templates).get_template(template).render(context)
    except jinja2.TemplateError as error:
        raise template_error(template, error) from error


def template_error(template: str, error: jinja2.TemplateError) -> CodegenError:
    """Return the error that says where a template is wrong."""
    name, line = getattr(error, "name", None) or template, getattr(error, "lineno", None)
    return CodegenError(f"the template {name}{f', line {line}' if line else ''}: {error.message}")


@cache
def _environment(templates: Templates) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # What is printed is Python, made safe by `literal` and `docstring`.
    )


# Tables of data, in fewer lines than the formatter: a row begins a line, and what is in a row fills its lines.

_TABLE_WIDTH: Final = 120


def printed_table(rows: Mapping[str, str], indent: int) -> str:
    """Return a dict in a line of that indent, with a line for each row: Python texts by their keys."""
    return printed_block("{", [f"{one_line(key)}: {row}," for key, row in rows.items()], "}", indent)


def printed_row(key: str, value: Any, indent: int) -> str:
    """Return the text of a value, in a line of that indent that begins with its key."""
    return _printed(value, indent, len(one_line(key)) + 2)


def printed_block(opening: str, lines: Iterable[str], closing: str, indent: int) -> str:
    """Return a collection in several lines. Its last line has the closing bracket, as in Lisp."""
    return opening + "".join(f"\n{' ' * (indent + 1)}{line}" for line in lines).rstrip(",") + closing


def one_line(value: Any) -> str:
    """Return a literal in one line, with the quotation marks that the formatter prefers."""
    if isinstance(value, str):
        return literal(value)
    if _is_table(value):
        return "{" + ", ".join(f"{one_line(key)}: {one_line(item)}" for key, item in value.items()) + "}"
    if not _is_sequence(value):
        return ascii(value)
    inside = ", ".join(map(one_line, value))
    return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if len(value) == 1 else f"({inside})"


def filled(value: Any, indent: int) -> str:
    """Return a sequence or a table with as many items in a line as fit."""
    lines = [""]
    for start, item in _items(value):
        text = f"{start}{one_line(item)},"
        *above, last = lines[-1].split("\n")
        column = len(last) if above else indent + 1 + len(last)  # Lines below the first have their indent.
        if last and column + 1 + len(text) > _TABLE_WIDTH:
            lines.append("")
        if lines[-1]:
            lines[-1] += f" {text}"
        else:
            lines[-1] = f"{start}{_printed(item, indent + 1, len(start))},"
    whole = one_line(value)
    return printed_block(whole[0], lines, ",)" if whole.endswith(",)") else whole[-1], indent)


def _printed(value: Any, indent: int, used: int) -> str:
    text = one_line(value)
    is_whole = indent + used + len(text) < _TABLE_WIDTH or not (_is_sequence(value) or _is_table(value))
    return text if is_whole else filled(value, indent)


def _items(value: Any) -> list[tuple[str, Any]]:
    if _is_table(value):
        return [(f"{one_line(key)}: ", item) for key, item in value.items()]
    return [("", item) for item in value]


def _is_table(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: Any) -> TypeGuard[tuple[Any, ...] | list[Any]]:
    return isinstance(value, (tuple, list))
