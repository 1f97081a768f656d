"""What `lint --fix` changes in Python sources of App, FastMCP and the SDKs: names of tools, prints, and empty schemas.

A change is made where it is certain. A name is changed if every text that is equal to it is the name of the tool: its
registration, a comparison, the key of a table, or a call in a test. A print is moved to standard error if the server
has printed it before its first answer, and in a module that serves over stdio if the start or a handler runs it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, QualifiedName, QualifiedNameProvider

from .names import PACKAGES, Names, dotted, tables

OURS: Final = (*PACKAGES, "mcp_generated")
_SERVERS: Final = frozenset({"server", "fastserver", "lowlevel", "app"})
_REFUSED: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HANDLERS: Final = frozenset(
    "tool resource prompt completion call_tool list_tools list_resources read_resource".split()
)
_NESTED: Final = (
    cst.FunctionDef,
    cst.ClassDef,
    cst.Lambda,
    cst.If,
    cst.For,
    cst.While,
    cst.Try,
    cst.TryStar,
    cst.With,
    cst.Match,
)
_SCHEMAS: Final = frozenset({"inputSchema", "input_schema"})
_SPACE: Final = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wrong with a server: names that hosts refuse, all its names, printed lines, tools without properties."""

    refused: Sequence[str] = ()
    names: frozenset[str] = frozenset()
    noise: str = ""
    bare: frozenset[str] = frozenset()

    def renames(self) -> dict[str, str]:
        """Return the new names of tools, with `_` for what hosts refuse, where no other tool has this name."""
        new = {name: _REFUSED.sub("_", name) for name in self.refused if name.isascii()}
        return {old: name for old, name in new.items() if name not in self.names and [*new.values()].count(name) == 1}


@dataclass(frozen=True, slots=True)
class Change:
    """One change: its line in the file as it was, the code of its rule, and what stood and stands there."""

    path: Path
    line: int
    code: str
    before: str
    after: str


@dataclass(slots=True)
class Sources:
    """The Python files of a project after their changes, the changes, and why some names stay."""

    texts: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    changes: list[Change] = field(default_factory=list[Change])
    left: list[str] = field(default_factory=list[str])


def fixed_sources(paths: Sequence[Path], wanted: Wanted) -> Sources:
    """Return the changes of a project's Python files. Nothing is written; files that cannot be parsed stay."""
    found = Sources()
    modules = [_Module(path, data) for path in paths if _may_change(data := path.read_bytes(), wanted)]
    modules = [module for module in modules if module.is_read]
    renames = dict(_certain(modules, wanted.renames(), found.left))
    for module in modules:
        after, changes = module.fixed(renames, wanted)
        if changes:
            found.texts[module.path] = after
            found.changes += changes
    return found


def _may_change(data: bytes, wanted: Wanted) -> bool:
    words = [b"print", *(name.encode() for name in (*wanted.refused, *wanted.bare))]
    return any(word in data for word in words)


def _certain(modules: Sequence[_Module], renames: Mapping[str, str], left: list[str]) -> Iterator[tuple[str, str]]:
    for old, new in renames.items():
        uses = [use for module in modules for use in module.uses(old)]
        others = [use for use in uses if use.kind == "other"]
        registered = sum(use.kind == "registered" for use in uses)
        if others:
            left.append(f"{old!r} stays: {others[0].path.name}:{others[0].line} has it as something else perhaps")
        elif registered != 1:
            left.append(f"{old!r} stays: it is registered at {registered} places")
        elif any(module.uses(new) for module in modules):
            left.append(f"{old!r} stays: {new!r} has another meaning in this project")
        else:
            yield old, new


@dataclass(frozen=True, slots=True)
class _Use:
    """A text that is equal to a name: registered, used, or other."""

    path: Path
    line: int
    kind: str


class _Module:
    """One file."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self._data = data
        try:
            self._wrapper = MetadataWrapper(cst.parse_module(data), unsafe_skip_copy=True)
        except (cst.ParserSyntaxError, UnicodeError, LookupError, SyntaxError, RecursionError):
            self.is_read = False
            return
        self.is_read = True
        self.names = Names(self._wrapper, tables(), {}, OURS)
        self.parents = self._wrapper.resolve(ParentNodeProvider)
        found = _Texts()
        self._wrapper.module.visit(found)
        self._texts = found.texts
        self.serves_stdio = any(map(self._is_start, found.calls))

    def uses(self, name: str) -> list[_Use]:
        """Return the places where a text is equal to a name."""
        texts = [node for node in self._texts if node.evaluated_value == name]
        return [_Use(self.path, self.names.line(node), self._kind(node)) for node in texts]

    def _kind(self, node: cst.SimpleString) -> str:
        parent = self.parents[node]
        if isinstance(parent, cst.Arg) and isinstance(call := self.parents[parent], cst.Call):
            function = call.func
            name = function.attr.value if isinstance(function, cst.Attribute) else dotted(function)
            keyword = "" if parent.keyword is None else parent.keyword.value
            owner = self.names.kind(function.value) if isinstance(function, cst.Attribute) else ""
            if owner in _SERVERS and name in ("tool", "add_tool") and keyword in ("", "name"):
                return "registered"
            if name == "Tool" and keyword == "name" and self.is_tool(call):
                return "registered"
            return "used" if name == "call_tool" and keyword in ("", "name", "tool_name") else "other"
        is_compared = isinstance(parent, cst.Comparison | cst.ComparisonTarget | cst.MatchValue)
        is_key = isinstance(parent, cst.DictElement) and parent.key is node
        return "used" if is_compared or is_key else "other"

    def is_tool(self, call: cst.Call) -> bool:
        """Return True for a call of the class of tools of an SDK."""
        return self.names.path(call.func).endswith(".Tool")

    def _is_start(self, call: cst.Call) -> bool:
        """Return True for what serves over stdio: `server.run()`, `run("stdio")`, `stdio_server()`."""
        function = call.func
        name = function.attr.value if isinstance(function, cst.Attribute) else dotted(function)
        if name in ("stdio_server", "run_stdio_async"):
            return True
        if name != "run" or not isinstance(function, cst.Attribute) or self.names.kind(function.value) not in _SERVERS:
            return False
        transports = [item for item in call.args if item.keyword is None or item.keyword.value == "transport"]
        return all(
            isinstance(item.value, cst.SimpleString) and item.value.evaluated_value == "stdio" for item in transports
        )

    def fixed(self, renames: Mapping[str, str], wanted: Wanted) -> tuple[bytes, list[Change]]:
        """Return the file after its changes, and these."""
        edit = _Edit(self, renames, wanted)
        module = self._wrapper.module.visit(edit)
        if edit.needs_sys:
            module = module.with_changes(body=_with_import([*module.body]))
        return module.bytes, edit.changes

    def is_print(self, call: cst.Call) -> bool:
        """Return True for a print to standard output."""
        if dotted(call.func) != "print" or any(item.keyword and item.keyword.value == "file" for item in call.args):
            return False
        names: Any = self._wrapper.resolve(QualifiedNameProvider).get(call.func, ())
        found = cast("Iterable[QualifiedName]", names() if callable(names) else names)
        return {name.name for name in found} == {"builtins.print"}

    def has_other_sys(self) -> bool:
        """Return True if `sys` is a name of something else than the module, or may be."""
        return "sys" in self.names.used and not re.search(rb"(?m)^import (?:[\w., ]+, *)?sys\b", self._data)


class _Edit(cst.CSTTransformer):
    """The changes of one file."""

    def __init__(self, module: _Module, renames: Mapping[str, str], wanted: Wanted) -> None:
        super().__init__()
        self._module = module
        self._renames = renames
        self._wanted = wanted
        self._nested = 0  # Statements around, but for `if __name__ == "__main__":`.
        self._handlers = 0
        self.changes: list[Change] = []
        self.needs_sys = False

    def _note(self, node: cst.CSTNode, code: str, before: cst.CSTNode, after: cst.CSTNode) -> None:
        texts = [" ".join(cst.Module([]).code_for_node(item).split()) for item in (before, after)]
        self.changes.append(Change(self._module.path, self._module.names.line(node), code, *texts))

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        new = self._renames.get(str(original_node.evaluated_value))
        if new is None or original_node.prefix:
            return updated_node
        after = updated_node.with_changes(value=f"{original_node.quote}{new}{original_node.quote}")
        self._note(original_node, "M001", original_node, after)
        return after

    def on_visit(self, node: cst.CSTNode) -> bool:
        self._nested += isinstance(node, _NESTED) and not _is_main_guard(node)
        self._handlers += isinstance(node, cst.FunctionDef) and self._is_handler(node)
        return super().on_visit(node)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        left = super().on_leave(original_node, updated_node)
        self._nested -= isinstance(original_node, _NESTED) and not _is_main_guard(original_node)
        self._handlers -= isinstance(original_node, cst.FunctionDef) and self._is_handler(original_node)
        return left

    def _is_handler(self, node: cst.FunctionDef) -> bool:
        called = [
            item.decorator.func if isinstance(item.decorator, cst.Call) else item.decorator for item in node.decorators
        ]
        return any(
            isinstance(function, cst.Attribute)
            and function.attr.value in _HANDLERS
            and self._module.names.kind(function.value) in _SERVERS
            for function in called
        )

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if self._is_noise(original_node) and self._module.is_print(original_node) and not self._module.has_other_sys():
            after = updated_node.with_changes(args=_with_file(updated_node.args))
            self._note(original_node, "M060", original_node, after)
            self.needs_sys |= "sys" not in self._module.names.used
            return after
        name = next((item.value for item in original_node.args if item.keyword and item.keyword.value == "name"), None)
        if isinstance(name, cst.SimpleString) and name.evaluated_value in self._wanted.bare:
            return self._with_properties(original_node, updated_node)
        return updated_node

    def _is_noise(self, call: cst.Call) -> bool:
        if self._module.serves_stdio and (self._handlers or not self._nested):
            return True
        text = call.args[0].value if len(call.args) == 1 else None
        value = text.evaluated_value if isinstance(text, cst.SimpleString | cst.ConcatenatedString) else None
        return bool(self._wanted.noise) and isinstance(value, str) and " ".join(value.split()) == self._wanted.noise

    def _with_properties(self, node: cst.Call, updated: cst.Call) -> cst.Call:
        """Return the definition of a tool whose schema has `properties`."""
        arguments: list[cst.Arg] = []
        for item in updated.args:
            schema = item.value
            if item.keyword is not None and item.keyword.value in _SCHEMAS and isinstance(schema, cst.Dict):
                keys = [
                    part.key.evaluated_value
                    for part in schema.elements
                    if isinstance(part, cst.DictElement) and isinstance(part.key, cst.SimpleString)
                ]
                if len(keys) == len(schema.elements) and "properties" not in keys and keys:
                    added = cst.DictElement(cst.SimpleString('"properties"'), cst.Dict([]))
                    after = schema.with_changes(elements=_appended(schema.elements, added))
                    self._note(node, "M014", schema, after)
                    item = item.with_changes(value=after)
            arguments.append(item)
        return updated.with_changes(args=arguments)


class _Texts(cst.CSTVisitor):
    """Collects the strings and the calls of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[cst.SimpleString] = []
        self.calls: list[cst.Call] = []

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        self.texts.append(node)

    def visit_Call(self, node: cst.Call) -> None:
        self.calls.append(node)


def _is_main_guard(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.If) and isinstance(test := node.test, cst.Comparison) and dotted(test.left) == "__name__"
    )


def _with_file(arguments: Sequence[cst.Arg]) -> list[cst.Arg]:
    added = cst.Arg(
        cst.Attribute(cst.Name("sys"), cst.Name("stderr")),
        keyword=cst.Name("file"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    if not arguments:
        return [added]
    *rest, last = arguments
    comma = last.comma if isinstance(last.comma, cst.Comma) else cst.MaybeSentinel.DEFAULT
    return [*rest, last.with_changes(comma=_SPACE), added.with_changes(comma=comma)]


def _appended(elements: Sequence[cst.BaseDictElement], added: cst.DictElement) -> list[cst.BaseDictElement]:
    *rest, last = elements
    comma = last.comma if isinstance(last.comma, cst.Comma) else cst.MaybeSentinel.DEFAULT
    return [*rest, last.with_changes(comma=_SPACE), added.with_changes(comma=comma)]


def _with_import(body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Return the statements of a module with `import sys` before its first import, but after those of the future."""
    line = cst.SimpleStatementLine([cst.Import([cst.ImportAlias(cst.Name("sys"))])])
    for number, statement in enumerate(body):
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        first = statement.body[0]
        future = isinstance(first, cst.ImportFrom) and first.module is not None and dotted(first.module) == "__future__"
        if isinstance(first, cst.Import | cst.ImportFrom) and not future:
            lines = statement.leading_lines
            module = first.module if isinstance(first, cst.ImportFrom) else first.names[0].name
            is_own = module is None or dotted(module).partition(".")[0] not in sys.stdlib_module_names
            below = statement.with_changes(leading_lines=[cst.EmptyLine()] if is_own else ())
            return [*body[:number], line.with_changes(leading_lines=lines), below, *body[number + 1 :]]
    return [line, *body]
