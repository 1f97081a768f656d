"""Split types.py into a package with a module for each section of the specification, loaded when it is used.

The whole module has been rendered and verified before. Here its declarations are only moved: a section becomes a
module, and imports from the sections that it refers to. Sections that refer to each other in a circle stand in one
module. The types that no method needs, such as requests with their `method`, stand in a module of their own, because
a program hardly ever uses them.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from ..model.ir import Object, Ref, Revision
from .source import parsed
from .types import docstring, is_second_name

# The order of types.py: the specification's order, under its categories, with quotes around forward references.
#
# datamodel-code-generator writes each class after all that it refers to; its option `keep_model_order` sorts by name.
# Here the declarations get the order of the schema. Python only needs a base class, and the target of a second name, to
# come first. Models are built when they are first used, so a quoted reference is resolved then.

# The section of the types that are in no category, and before no type that is in one.
_OTHER: Final = "Other types"
_WIDTH: Final = 90
_WHOLE: Final = "types.py"
_MESSAGES: Final = "messages"
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_WORD: Final = re.compile(r"\w+")


def split(text: str) -> dict[str, str]:
    """Return the source of each class and type alias of a module by name, with its decorators and its docstring."""
    lines = text.split("\n")
    sources: dict[str, str] = {}
    name = ""
    for node in parsed(text).body:
        if isinstance(node, (ast.ClassDef, ast.Assign, ast.AnnAssign)):
            decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            name = _declared(node)
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
        for node, quoted in _names_in(annotation, later):
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


def _names_in(node: ast.expr, later: Collection[str]) -> Iterator[tuple[ast.expr, str]]:
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
                yield from _names_in(part, later)
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


def split_types(files: Mapping[str, str], revision: Revision) -> dict[str, str]:
    """Return the files of a revision with a package `types` instead of types.py, if its types are in sections."""
    by_section = sections(revision)
    if len(by_section) < 2:
        return dict(files)
    text = files[_WHOLE]
    sources = split(text)
    needs = {name: _references(source, sources) - {name} for name, source in sources.items()}
    modules = _modules(revision, by_section, needs)
    home = {name: module for module, names in modules.items() for name in names}
    header, imports = _header(text), _imports(text)
    first, *_, last = header.split("\n")
    short = f"{first}\n{last}" if last.startswith("# pyright") else first  # The index has the whole header.
    titles = _titles(by_section, home)
    result = {name: content for name, content in files.items() if name != _WHOLE}
    result["types/__init__.py"] = _index(header, revision, modules)
    for module, names in modules.items():
        parts = [short, docstring(_description(module, titles[module], revision), ""), "", imports]
        parts += _sibling_imports(module, names, needs, home)
        parts += ["", *_body(list(dependencies_first(_within(needs, names), names)), sources)]
        result[f"types/{module}.py"] = "\n".join(parts)
    return result


def _declared(node: ast.ClassDef | ast.Assign | ast.AnnAssign) -> str:
    if isinstance(node, ast.ClassDef):
        return node.name
    return ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])


def _references(source: str, names: Collection[str]) -> set[str]:
    """Return the types that a declaration refers to, also in quotes."""
    referenced: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            referenced.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            referenced.update(_WORD.findall(node.value))
    return referenced & set(names)


def _modules(
    revision: Revision, by_section: Mapping[str, list[str]], needs: Mapping[str, set[str]]
) -> dict[str, list[str]]:
    """Return the types of each module, in the order of the specification."""
    needed = _closure(_of_methods(revision), needs)
    slugs: dict[str, str] = {}
    for section, names in by_section.items():
        for name in names:
            slugs[name] = _module_name(section, needs) if name in needed else _MESSAGES
    graph: dict[str, set[str]] = {slug: set() for slug in slugs.values()}
    for name, slug in slugs.items():
        graph[slug] |= {slugs[other] for other in needs[name]} - {slug}
    reach = {slug: _closure(graph[slug], graph) for slug in graph}
    first: dict[str, str] = {}
    for slug in graph:
        first[slug] = next(other for other in graph if other == slug or (other in reach[slug] and slug in reach[other]))
    modules: dict[str, list[str]] = {}
    for name, slug in slugs.items():
        modules.setdefault(first[slug], []).append(name)
    return modules


def _of_methods(revision: Revision) -> Iterator[str]:
    """Return the types that the method table names."""
    for row in revision.methods:
        parts = [row.params, row.result, *(interim.type for interim in row.interim)]
        yield from [name for name in parts if name is not None]
        yield from [requirement.type for requirement in row.requirements]


def _closure(start: Iterable[str], needs: Mapping[str, set[str]]) -> set[str]:
    """Return the start, and what it needs."""
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += needs[name]
    return seen


def _module_name(section: str, types: Collection[str]) -> str:
    """Return the name of the module of a section; the text of a section is untrusted."""
    name = _NOT_IN_NAMES.sub("_", section.lower()).strip("_")
    if not name or name[0].isdigit() or keyword.iskeyword(name) or name in types or name == _MESSAGES:
        return f"section_{name}"
    return name


def _titles(by_section: Mapping[str, list[str]], home: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the sections of each module."""
    titles: dict[str, list[str]] = {}
    for section, names in by_section.items():
        for name in names:
            here = titles.setdefault(home[name], [])
            if section not in here:
                here.append(section)
    return titles


def _description(module: str, titles: list[str], revision: Revision) -> str:
    if module == _MESSAGES:
        return f"The types of MCP {revision.id} that no method table needs: whole messages, errors and unions of them."
    if len(titles) == 1:
        return f"The types of MCP {revision.id} in the section `{titles[0]}` of the specification."
    named = ", ".join(f"`{title}`" for title in titles)
    return f"The types of MCP {revision.id} in these sections of the specification: {named}."


def _header(text: str) -> str:
    """Return the comments above the docstring of the whole module."""
    lines = text.split("\n")
    return "\n".join(lines[: next(number for number, line in enumerate(lines) if not line.startswith("#"))])


def _imports(text: str) -> str:
    """Return the imports of the whole module; those that a section does not use are removed afterwards."""
    return "\n".join(ast.unparse(node) for node in parsed(text).body if isinstance(node, ast.ImportFrom))


def _sibling_imports(
    module: str, names: Iterable[str], needs: Mapping[str, set[str]], home: Mapping[str, str]
) -> Iterator[str]:
    """Return the imports from other sections, in the order of their names."""
    imported: dict[str, set[str]] = {}
    for name in names:
        for other in needs[name]:
            if home[other] != module:
                imported.setdefault(home[other], set()).add(other)
    for other_module, others in sorted(imported.items()):
        yield f"from .{other_module} import {', '.join(sorted(others))}"


def _within(needs: Mapping[str, set[str]], names: Sequence[str]) -> dict[str, list[str]]:
    """Return what the types of a module need of it, in the order of the specification.

    In a circle they need only those before them: type checkers accept a circle that begins with the union.
    """
    within = {name: {other for other in names if other in needs[name]} for name in names}
    reach = {name: _closure(within[name], within) for name in names}
    return {
        name: [other for other in names[:place] if other in within[name]]
        + [other for other in names[place:] if other in within[name] and name not in reach[other]]
        for place, name in enumerate(names)
    }


def _body(names: Collection[str], sources: Mapping[str, str]) -> Iterator[str]:
    """Return the declarations. Only references in a circle are in quotes: a subclass in another module could not read
    those that it inherits."""
    later = set(names)
    for name in names:
        yield f"{quote(sources[name], later)}\n\n"
        later.remove(name)


def _index(header: str, revision: Revision, modules: Mapping[str, list[str]]) -> str:
    """Return the `__init__.py` of the package of the types."""
    stars = "\n".join(f"    from .{module} import *" for module in modules)
    table = "\n".join(f'        "{module}": {_tuple(names)},' for module, names in modules.items())
    return f'''{header}
"""The types of MCP {revision.id}; each module is loaded when one of its types is first used.

Attributes are in snake case; their alias is the name of the property in JSON.
"""

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
{stars}

__getattr__, __dir__ = lazy_members(
    __name__,
    {{
{table}
    }},
)
'''


def _tuple(names: Iterable[str]) -> str:
    return "(" + "".join(f'"{name}", ' for name in names) + ")"
