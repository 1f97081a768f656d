"""Which tests of a suite use a private name of the packages that it tests.

A test uses one if it, its fixtures or its helpers do, also those of conftest.py and of other modules of the tests, with
all that these use themselves. A private name has one leading underscore. It counts

* in a path that is imported: `from mcp.client._memory import X`, `from mcp.client.session import _x`;
* as an attribute, `session._streams`, unless the object is an imported module of others, or a file of these tests that
  the test uses gives something this name itself: a function, a variable, an attribute of its own classes;
* in the text of a call that looks it up or replaces it: `patch("mcp.client._x.f")`, `setattr(session, "_x", …)`.

What is imported counts for the tests that use it, not for all tests of its file. The fixtures that run by themselves
count for each test of their file or folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Final

LOOKUPS: Final = frozenset("patch object multiple setattr delattr getattr hasattr spy".split())
OF_NAMED_TUPLES: Final = frozenset(("_replace", "_asdict", "_fields", "_make"))
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def is_private(name: str) -> bool:
    """Return whether a name has one leading underscore and is not known from elsewhere."""
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in OF_NAMED_TUPLES


def modules_of(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the local name and the full path of each import of a statement."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], alias.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"


@dataclass(frozen=True)
class Suite:
    """The folder above the tests, and the packages that they test."""

    root: Path
    packages: frozenset[str]

    @cache  # noqa: B019  # There are three suites.
    def module(self, path: Path) -> Module:
        """Return a file of the tests."""
        return Module(self, path, ast.parse(path.read_text(encoding="utf-8")))

    def is_public(self, path: str) -> bool:
        """Return whether a dotted path names nothing private of the packages."""
        package, *parts = path.split(".")
        return package not in self.packages or not any(map(is_private, parts))

    def helper(self, module: Module, path: str) -> tuple[Module, str] | None:
        """Return the file of the tests that an imported path leads to, and the name there."""
        level = len(path) - len(path.lstrip("."))
        parts = path.lstrip(".").split(".")
        folder = module.path.parents[level - 1] if level else self.root
        file = folder.joinpath(*parts[:-1])
        for found in (file.with_suffix(".py"), file / "__init__.py"):
            if parts[:-1] and found.is_file() and found.is_relative_to(self.root / "tests"):
                return self.module(found), parts[-1]
        return None

    def uses_private_names(self, test: str) -> bool:
        """Return whether a test, by pytest's name for it, uses a private name."""
        file, _, name = test.partition("::")
        module = self.module(self.root / file)
        return Search(self).finds(module, name.partition("[")[0].split("::"))


@dataclass(eq=False)
class Module:
    """A file of the tests: what its names stand for."""

    suite: Suite
    path: Path
    tree: ast.Module

    @cached_property
    def definitions(self) -> dict[str, list[ast.AST]]:
        """The statements at the top that give a name its value, by name."""
        found: dict[str, list[ast.AST]] = {}
        for statement in self.tree.body:
            for node in _flat(statement):
                names = [node.name] if isinstance(node, Definition) else [name for name, _ in modules_of(node)]
                if not names:
                    names = [leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name) and _is_stored(leaf)]
                for name in names:
                    found.setdefault(name, []).append(node)
        return found

    @cached_property
    def imports(self) -> dict[str, str]:
        """The full path of each name that is imported anywhere in the file."""
        return dict(pair for node in ast.walk(self.tree) for pair in modules_of(node))

    @cached_property
    def own(self) -> frozenset[str]:
        """The private names that this file gives to something itself."""
        return frozenset(name for node in ast.walk(self.tree) for name in _given(node) if is_private(name))

    @cached_property
    def automatic(self) -> list[Definition]:
        """The fixtures at the top of the file that run by themselves."""
        return [node for nodes in self.definitions.values() for node in nodes if _is_automatic(node)]

    @cached_property
    def fixtures(self) -> dict[str, list[ast.AST]]:
        """The fixtures that their decorator gives another name."""
        found: dict[str, list[ast.AST]] = {}
        for node in self.tree.body:
            for decorator in getattr(node, "decorator_list", ()):
                for keyword in getattr(decorator, "keywords", ()):
                    if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                        found.setdefault(str(keyword.value.value), []).append(node)
        return found

    def conftests(self) -> Iterator[Module]:
        """Yield the files conftest.py that hold for this file, the nearest first."""
        for folder in self.path.parents:
            if (folder / "conftest.py").is_file():
                yield self.suite.module(folder / "conftest.py")
            if folder == self.suite.root:
                return


def _flat(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement, or those inside of it if it is a condition or an attempt; an import has one for each name."""
    if isinstance(statement, ast.If | ast.Try | ast.With):
        for child in ast.iter_child_nodes(statement):
            yield from _flat(child)
    elif isinstance(statement, ast.ImportFrom):
        yield from (ast.ImportFrom(statement.module, [alias], statement.level) for alias in statement.names)
    else:
        yield statement


def _is_stored(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def _given(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node gives to something."""
    if isinstance(node, Definition):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and _is_stored(node):
        yield node.id
    elif isinstance(node, ast.Attribute) and _is_stored(node) and isinstance(node.value, ast.Name):
        if node.value.id in ("self", "cls"):
            yield node.attr


def _is_automatic(node: ast.AST) -> bool:
    keywords = [
        word for decorator in getattr(node, "decorator_list", ()) for word in getattr(decorator, "keywords", ())
    ]
    return any(word.arg == "autouse" for word in keywords)


def _root(node: ast.expr) -> str:
    """Return the name at the beginning of `name.a.b`, or an empty text."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


@dataclass
class Search:
    """Looks through a test and all that it uses, each part once."""

    suite: Suite
    seen: set[int] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)

    def finds(self, module: Module, names: Sequence[str]) -> bool:
        """Return whether something private is used; names are those of the classes and the function of the test."""
        parts: list[tuple[Module, ast.AST]] = [(module, node) for node in module.definitions.get(names[0], ())]
        for holder in (module, *module.conftests()):
            parts += [(holder, node) for node in holder.automatic]
        parts += [(module, node) for node in module.definitions.get("pytestmark", ())]
        for name in names[1:]:
            parts = [found for where, part in parts for found in self._member(where, part, name)]
        return any(self._uses(where, part) for where, part in parts) or bool(self.attributes - self.own)

    def _member(self, module: Module, part: ast.AST, name: str) -> Iterator[tuple[Module, ast.AST]]:
        """Yield the parts of a class that one of its tests uses; a part that is not a class stays."""
        if not isinstance(part, ast.ClassDef):
            yield module, part
            return
        for node in part.body:
            if not isinstance(node, Function) or node.name == name or _is_automatic(node):
                yield module, node
        for node in (*part.bases, *part.decorator_list):
            yield module, node

    def _uses(self, module: Module, part: ast.AST) -> bool:
        """Return whether a part of a file, or what it uses, has an import or a text with a private name."""
        if id(part) in self.seen:
            return False
        self.seen.add(id(part))
        self.own |= module.own
        return any(self._is_use(module, node) for node in ast.walk(part)) or any(
            self._uses(where, used) for node in ast.walk(part) for where, used in self._used(module, node)
        )

    def _is_use(self, module: Module, node: ast.AST) -> bool:
        for _, path in modules_of(node):
            if not self.suite.is_public(path):
                return True
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            path = module.imports.get(_root(node), "")
            if not path or path.lstrip(".").partition(".")[0] in self.suite.packages:
                self.attributes.add(node.attr)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            texts = [leaf.value for leaf in node.args if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)]
            if name in LOOKUPS:
                self.attributes |= {text for text in texts if is_private(text) and "." not in text}
                return not all(map(self.suite.is_public, texts))
        return False

    def _used(self, module: Module, node: ast.AST) -> Iterator[tuple[Module, ast.AST]]:
        """Yield what the names of a node stand for: statements of this file, of helpers and of conftest.py."""
        for name in _names(node):
            found = module.definitions.get(name) or module.fixtures.get(name)
            if not found and isinstance(node, ast.arg | ast.Constant):
                for holder in module.conftests():
                    for used in holder.fixtures.get(name) or holder.definitions.get(name, ()):
                        yield holder, used
            for used in found or ():
                yield module, used
                yield from self._imported(module, used, name)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            for used in _methods(module, node.attr):
                yield module, used
        for name, _ in modules_of(node):
            yield from self._imported(module, node, name)

    def _imported(self, module: Module, used: ast.AST, name: str) -> Iterator[tuple[Module, ast.AST]]:
        """Yield what an imported name is in a helper of the tests."""
        paths = [path for local, path in modules_of(used) if local == name]
        for helper in (self.suite.helper(module, path) for path in paths):
            if helper is not None:
                holder, there = helper
                for node in holder.definitions.get(there, ()):
                    yield holder, node
                    yield from self._imported(holder, node, there)


def _names(node: ast.AST) -> Iterable[str]:
    """Return the names of a node: a variable, an argument that is a fixture, or a text that may name one."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.arg):
        return (node.arg,)
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        return (node.value,)
    return ()


def _methods(module: Module, name: str) -> Iterator[ast.AST]:
    """Yield the methods of this name of the classes of a file."""
    for nodes in module.definitions.values():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                yield from (item for item in node.body if isinstance(item, Function) and item.name == name)
