"""Print templates, and format the modules that they make: imports that are needed, and the layout of black."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import black
import jinja2
from black.mode import TargetVersion

from ..cache import cached_texts
from ..errors import CodegenError
from ..helper_process import HelperProcess
from ..paths import Templates, generator_version

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
_BLACK: Final = version("black")
_MODE: Final = black.Mode(line_length=120, target_versions={TargetVersion.PY311})
_MIN_SHARE: Final = 100_000  # Characters. A second process imports black in the time that it takes to format these.


def format_module(text: str, what: str) -> str:
    """Return the module without the imports it does not need, formatted by black."""
    return _formatted([_tidy(text, what)], None)[0]


def tidy_modules(files: Mapping[Path, str], folder: Path) -> dict[Path, str]:
    """Return the modules without the imports that they do not need; errors name their paths in the folder."""
    return {
        path: _tidy(text, path.relative_to(folder).as_posix()) if path.suffix == ".py" else text
        for path, text in files.items()
    }


def format_modules(files: Mapping[Path, str], helper: HelperProcess | None = None) -> dict[Path, str]:
    """Return tidy modules, formatted by black; half of them by the helper, if there is one and there are many."""
    modules = {path: text for path, text in files.items() if path.suffix == ".py"}
    return {**files, **dict(zip(modules, _formatted(list(modules.values()), helper), strict=True))}


def _formatted(texts: list[str], helper: HelperProcess | None) -> list[str]:
    """Return the modules as black formats them, those that have not changed from the cache."""
    parts = [[_BLACK, _MODE.get_cache_key(), text] for text in texts]
    return cached_texts("module", parts, lambda numbers: _format_texts([texts[number] for number in numbers], helper))


def _format_texts(texts: Sequence[str], helper: HelperProcess | None) -> list[str]:
    if helper is None or sum(map(len, texts)) < 2 * _MIN_SHARE:
        return [format_text(text) for text in texts]
    shares = _halves(texts)
    helper.send("format", [texts[number] for number in shares[1]])
    formatted = {number: format_text(texts[number]) for number in shares[0]}
    for number in shares[1]:
        answer = helper.answer()
        formatted[number] = format_text(texts[number]) if answer is None else str(answer)
    return [formatted[number] for number in range(len(texts))]


def _halves(texts: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the numbers of the texts in two lists that take about the same time."""
    halves: tuple[list[int], list[int]] = ([], [])
    lengths = [0, 0]
    for number in sorted(range(len(texts)), key=lambda number: -len(texts[number])):
        shorter = int(lengths[1] < lengths[0])
        halves[shorter].append(number)
        lengths[shorter] += len(texts[number])
    return halves


def format_text(text: str) -> str:
    """Return a module as black formats it."""
    return black.format_str(text, mode=_MODE)


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
