"""The order of types.py: the specification's order, under its categories, with quotes around forward references.

datamodel-code-generator writes each class after all that it refers to; its option `keep_model_order` sorts by name.
Here the declarations get the order of the schema. Python only needs a base class, and the target of a second name, to
come first. Models are built when they are first used, so a quoted reference is resolved then.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import Final, cast

from ..model.ir import Object, Ref, Revision
from .types import is_second_name

# The section of the types that are in no category, and before no type that is in one.
_OTHER: Final = "Other types"
_WIDTH: Final = 90


def split(source: str) -> dict[str, str]:
    """Return the source of each class and type alias of a module by name, with its decorators and its docstring."""
    lines = source.split("\n")
    sources: dict[str, str] = {}
    name = ""
    for node in ast.parse(source).body:
        if isinstance(node, (ast.ClassDef, ast.Assign)):
            name = node.name if isinstance(node, ast.ClassDef) else ast.unparse(node.targets[0])
            decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            sources[name] = "\n".join(lines[first - 1 : node.end_lineno])
        elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            sources[name] += "\n" + "\n".join(lines[node.lineno - 1 : node.end_lineno])
    return sources


def arrange(revision: Revision, sources: Mapping[str, str]) -> str:
    """Join declarations in the order of the specification, with a comment above each category if they are all."""
    later = set(sources)
    parts: list[str] = []
    is_whole = len(sources) == len(revision.types)
    for category, names in sections(revision).items():
        heading = f"# ---- {category} ----\n\n" if category and is_whole else ""
        for name in filter(sources.__contains__, names):
            parts.append(heading + quote(sources[name], later))
            later.remove(name)
            heading = ""
    return "\n\n\n".join(parts)


def sections(revision: Revision) -> dict[str, list[str]]:
    """Return the names of the types by category, both in the order of the schema, but bases first."""
    categories = _categories(revision)
    members: dict[str, list[str]] = {}
    for name in revision.types:
        members.setdefault(categories[name], []).append(name)
    needs = {
        category: [categories[base] for name in names for base in _bases(revision, name)]
        for category, names in members.items()
    }
    order = list(dependencies_first(needs))
    chosen: set[str] = set()
    placed: dict[str, list[str]] = {}
    bases = {name: _bases(revision, name) for name in revision.types}
    for category in order:
        placed[category] = [name for name in dependencies_first(bases, members[category]) if name not in chosen]
        chosen.update(placed[category])
    return placed


def _categories(revision: Revision) -> dict[str, str]:
    """Return the category of each type. A type without one has that of the type it stands before, which is built of
    it."""
    category = _OTHER if any(defined.category for defined in revision.types.values()) else ""
    categories: dict[str, str] = {}
    for name, defined in reversed(list(revision.types.items())):
        text = "".join(char if char.isprintable() else " " for char in defined.category).strip()
        category = categories[name] = text or category
    return categories


def _bases(revision: Revision, name: str) -> tuple[str, ...]:
    """Return the names that Python needs before it can define this type."""
    defined = revision.types[name]
    if isinstance(defined, Object):
        return defined.bases
    return (defined.type.name,) if is_second_name(defined) and isinstance(defined.type, Ref) else ()


def dependencies_first(needs: Mapping[str, Collection[str]], start: Collection[str] = ()) -> Iterator[str]:
    """Each key once, in the order of `start` (of the mapping by default), after the keys that it needs."""
    seen: set[str] = set()

    def visit(key: str) -> Iterator[str]:
        if key not in seen:
            seen.add(key)
            for needed in needs[key]:
                yield from visit(needed)
            yield key

    for key in start or needs:
        yield from visit(key)


def quote(source: str, later: Collection[str]) -> str:
    """Return the declaration with its references to types in `later` as strings, and no others."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    edits: list[tuple[int, int, bytes]] = []
    for annotation in _annotations(ast.parse(source)):
        for node, quoted in _references(annotation, later):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            edits.append((begin, end, quoted.encode()))
    for begin, end, replacement in sorted(edits, reverse=True):
        text = text[:begin] + replacement + text[end:]
    return text.decode()


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    """Return the type of each field of the class, or the value of the type alias."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from (line.annotation for line in node.body if isinstance(line, ast.AnnAssign))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield node.value.args[1]


def _references(node: ast.expr, later: Collection[str]) -> Iterator[tuple[ast.expr, str]]:
    """Return the parts of an annotation to rewrite, with their new source: names, and unions as a whole."""
    match node:
        case ast.Name() | ast.BinOp() | ast.Constant(value=str()):
            if (source := _written(node, later)) != ast.unparse(node):
                yield node, source
        case ast.Subscript(value=ast.Name("Union"), slice=ast.Tuple(arms)) if not any(
            isinstance(part, ast.Constant) for arm in arms for part in ast.walk(ast.parse(_written(arm, later)))
        ):
            yield node, " | ".join(_written(arm, later) for arm in arms)
        case ast.Subscript(value=ast.Name(name), slice=inner) if name != "Literal":
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            for part in parts[:1] if name == "Annotated" else parts:
                yield from _references(part, later)
        case _:
            pass


def _written(node: ast.expr, later: Collection[str]) -> str:
    """Return the source of a name or union, as a string literal if it refers to a later type."""
    plain: ast.expr = _Unquoted().visit(node)
    source = ast.unparse(plain)
    if not any(isinstance(part, ast.Name) and part.id in later for part in ast.walk(plain)):
        return source
    if isinstance(plain, ast.BinOp) and len(source) > _WIDTH:  # No formatter can break a string into lines.
        return f"Union[{', '.join(_written(arm, later) for arm in _arms(plain))}]"
    return ascii(source)


def _arms(node: ast.expr) -> Iterator[ast.expr]:
    """Return the arms of a union, from left to right."""
    if isinstance(node, ast.BinOp):
        yield from _arms(node.left)
        yield from _arms(node.right)
    else:
        yield node


class _Unquoted(ast.NodeTransformer):
    """An annotation without the quotes that datamodel-code-generator has set because of its own order."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        is_literal = isinstance(node.value, ast.Name) and node.value.id == "Literal"
        return node if is_literal else cast("ast.expr", self.generic_visit(node))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return node
