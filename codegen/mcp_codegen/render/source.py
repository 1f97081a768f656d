"""The text of generated modules: printed from templates, laid out, and checked against the types that they declare."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, TypeGuard

import jinja2

from ..errors import CodegenError
from ..model.ir import Revision
from ..paths import Templates, generator_version
from .types import literal

GENERATOR: Final = generator_version()
# Ruff removes imports that a module does not use, sorts the others as isort does, and writes the layout of black, in a
# hundredth of black's time: docs/adr/0054. It reads no configuration, and the names of files mean nothing to it.
_RUFF: Final = (sys.executable, "-P", "-m", "ruff")
_OPTIONS: Final = "--isolated --no-cache --no-respect-gitignore --line-length 120 --target-version py311".split()
_SORTED: Final = "lint.isort.split-on-trailing-comma = false"
_IMPORTS: Final = ("check", "--quiet", "--fix", "--exit-zero", "--select", "F401,I001", "--config", _SORTED)
_LAYOUT: Final = ("format",)
_PLACE: Final = re.compile(r"(\d+)\.py:(\d+):(.*)")
_TABLE_WIDTH: Final = 120

_CALLS: Final = frozenset({"ConfigDict", "Field", "Matches", "TypeAliasType", "const", "deprecated", "default_to"})
_ANNOTATION_NAMES: Final = frozenset({"Any", "Int", "Literal", "Number", "bool", "dict", "list", "str"})
_NODES: Final = (
    *(
        ast.Attribute,
        ast.Module,
        ast.ImportFrom,
        ast.alias,
        ast.ClassDef,
        ast.AnnAssign,
        ast.Assign,
        ast.Expr,
        ast.Pass,
        ast.Call,
    ),
    *(ast.keyword, ast.Name, ast.Load, ast.Store, ast.Constant, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr),
    *(ast.UnaryOp, ast.USub, ast.List),
)


@lru_cache(maxsize=4)
def parsed(text: str) -> ast.Module:
    """Return the tree of a module, which nobody changes: it is checked, and then divided into sections."""
    return ast.parse(text)


def format_module(text: str, what: str) -> str:
    """Return the module without the imports it does not need, formatted."""
    return _formatted([text], [what], (_IMPORTS, _LAYOUT))[0]


def format_text(text: str, what: str) -> str:
    """Return the module with all of its imports, formatted."""
    return _formatted([text], [what], (_LAYOUT,))[0]


def format_modules(files: Mapping[Path, str], folder: Path) -> dict[Path, str]:
    """Return the modules without the imports that they do not need, formatted, and the other files as they are.

    Errors name the paths of modules in the folder.
    """
    modules = {path: text for path, text in files.items() if path.suffix == ".py"}
    names = [path.relative_to(folder).as_posix() for path in modules]
    return {**files, **dict(zip(modules, _formatted(modules.values(), names, (_IMPORTS, _LAYOUT)), strict=True))}


def _formatted(texts: Iterable[str], names: Sequence[str], steps: Iterable[Iterable[str]]) -> list[str]:
    """Return modules after the steps of ruff, which get all of them at once, in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="mcp-codegen-") as folder:
        paths: list[Path] = []
        for number, text in enumerate(texts):
            paths.append(Path(folder, f"{number}.py"))
            paths[-1].write_bytes(text.encode())
        for step in steps:
            command = [*_RUFF, *step, *_OPTIONS, "."]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)
            if done.returncode:
                raise _format_error(done.stderr, names)
        return [path.read_bytes().decode() for path in paths]


def _format_error(text: str, names: Sequence[str]) -> CodegenError:
    """Return the error that says which module ruff cannot read, and at which line."""
    if (place := _PLACE.search(text)) is not None:
        what, line, reason = names[int(place[1])], place[2], place[3].partition(":")[2].strip()
        return CodegenError(f"{what}: what the templates give is not Python: {reason} (line {line})")
    return CodegenError(f"ruff, which formats what is generated, failed: {' '.join(text.split())[:300]}")


def print_template(template: str, context: Mapping[str, Any], templates: Templates) -> str:
    """Return what a template gives. Raises CodegenError for a template that is broken, or asks for what is not
    there."""
    try:
        return _environment(templates).get_template(template).render(context)
    except CodegenError:
        raise
    except Exception as error:  # A template is the program of its author.
        raise template_error(template, error) from error


def template_error(template: str, error: Exception) -> CodegenError:
    """Return the error that says where a template is wrong."""
    lines = template_lines(error)
    name, line = lines[-1] if lines else (template, None)
    if isinstance(error, jinja2.TemplateSyntaxError):
        name, line = error.name or name, error.lineno
    what = error.message if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {error}"
    return CodegenError(f"the template {name}{f', line {line}' if line else ''}: {what}")


def template_lines(error: Exception) -> list[tuple[str, int | None]]:
    """Return the templates that an error has passed, the last one last, each with its line."""
    frames = extract_tb(error.__traceback__)
    return [(Path(frame.filename).name, frame.lineno) for frame in frames if frame.filename.endswith(".jinja2")]


@cache
def _environment(templates: Templates) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # What is printed is Python, made safe by `literal` and `docstring`.
    )


# Tables of data, in fewer lines than the formatter: a row begins a line, and what is in a row fills its lines.


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


# Check that a types.py has exactly the types of the revision.
#
# Schema text is untrusted. The tokens of `types_py` keep it out of the syntax; this looks at the result and makes sure.


def verify_types_module(source: str, revision: Revision, own: Collection[str] | None = None) -> None:
    """Raise CodegenError unless the module declares exactly the types and fields of the revision, and does nothing.

    If `own` types are named, it declares only those.
    """
    names = frozenset(revision.types if own is None else own)
    tree = parsed(source)
    nodes = list(ast.walk(tree))
    for quoted in _forward_references(nodes):
        if stray := _names(quoted) - set(revision.types) - _ANNOTATION_NAMES:
            raise _error(revision, f"a quoted annotation with {sorted(stray)}")
    for node in nodes:
        if not isinstance(node, _NODES) or (isinstance(node, ast.Call) and not _is_harmless(node)):
            raise _error(revision, f"a {type(node).__name__} at line {getattr(node, 'lineno', 0)}")
    actual = {node.name: _fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    expected = {
        definition.name: {field.name for field in revision.own_fields(definition)}
        for definition in revision.objects()
        if definition.name in names
    }
    if actual != expected:
        name = min(name for name in actual.keys() | expected.keys() if actual.get(name) != expected.get(name))
        raise _error(revision, f"{name} with {_listed(actual.get(name))} instead of {_listed(expected.get(name))}")
    declared = set(actual) | {_target(node) for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))}
    if surplus := declared ^ names:
        raise _error(revision, f"the names {sorted(surplus)} on one side only")


def _forward_references(nodes: list[ast.AST]) -> Iterator[str]:
    """Return the strings that are evaluated as annotations: those of fields and type aliases that are not literal
    values."""
    annotations = [node.annotation for node in nodes if isinstance(node, ast.AnnAssign)]
    calls = (node for node in nodes if isinstance(node, ast.Call) and _is_name(node.func, "TypeAliasType"))
    for annotation in annotations + [call.args[1] for call in calls]:
        inner = list(ast.walk(annotation))
        values = {
            id(part)
            for node in inner
            if isinstance(node, ast.Call) or (isinstance(node, ast.Subscript) and _is_name(node.value, "Literal"))
            for part in ast.walk(node)
        }
        strings = (node for node in inner if isinstance(node, ast.Constant) and id(node) not in values)
        yield from (node.value for node in strings if isinstance(node.value, str))


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _names(quoted: str) -> set[str]:
    """Return the names in a quoted annotation; its whole text if it is not a type expression."""
    try:
        nodes = list(ast.walk(ast.parse(quoted, mode="eval")))
    except SyntaxError:
        return {quoted}
    if not all(isinstance(node, (ast.Expression, *_NODES)) and not isinstance(node, ast.Call) for node in nodes):
        return {quoted}
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def _is_harmless(call: ast.Call) -> bool:
    """Whether it is one of the few calls a types.py makes."""
    return isinstance(call.func, ast.Name) and call.func.id in _CALLS


def _fields(node: ast.ClassDef) -> set[str]:
    return {_target(line) for line in node.body if isinstance(line, ast.AnnAssign)}


def _target(node: ast.Assign | ast.AnnAssign) -> str:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return target.id if isinstance(target, ast.Name) else ast.unparse(target)


def _listed(names: set[str] | None) -> str:
    return "nothing" if names is None else str(sorted(names))


def _error(revision: Revision, what: str) -> CodegenError:
    return CodegenError(f"{revision.id}: types.py would hold what the schema did not ask for: {what}")
