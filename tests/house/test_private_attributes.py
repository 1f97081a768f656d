"""A private attribute is used by its own class, or by others of the module that defines the class.

`other._x`, `getattr(other, "_x")` and `monkeypatch.setattr(other, "_x", …)` count unless a class of the same module
defines `_x`. What belongs to Python or to another library has a row in `FOREIGN`.
"""

from __future__ import annotations

import ast
import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol, TypeGuard

import pytest
import redis.asyncio
from opentelemetry import trace
from support.ratchets import assert_only_falls
from support.source_tree import ROOT, definitions, python_files, relative, syntax_tree
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# To be 0 in the core and the products, and at most 10 in tests; `generated` is here for the templates.
LEFT = {
    "runtime": 0,
    "products": 0,
    "codegen": 0,
    "generated": 0,
    "tests": 126,  # Of these, five read what a waiting connection holds, or send what no public method can write.
    "benchmarks": 2,
    "examples": 0,
    "docs": 0,
    ".ci": 0,
}
PATCHED_IN_TESTS = 48  # To fall with them.


class Foreign(NamedTuple):
    """A private name of Python or of a library that is used."""

    written: str  # As in the code; `._x` stands for any object.
    module: str  # That uses it; "" for any.
    why: str
    versions: str
    test: str  # That fails if the name means something else; "" if Python documents it.
    exists: Callable[[], object]


class _Structural(Protocol):
    """A protocol, for the row below."""


FOREIGN = [
    Foreign("os._exit", "", "ends a process in spite of its threads", "documented", "", lambda: os._exit),
    Foreign("sys._getframe", "", "finds who calls", "documented", "", lambda: sys._getframe),
    *(
        Foreign(f"._{name}", "", "a method or field of named tuples", "documented", "", lambda: True)
        for name in ("asdict", "field_defaults", "fields", "replace")
    ),
    Foreign(
        "asyncio.tasks._current_tasks",
        "mcp_products.fast.tasks",
        "the first step of a handler runs in the name of a task that is created before",
        "Python 3.11 only, which changes no more",
        "tests/fast/test_eager_tasks.py::test_what_waits_goes_on_in_the_task_it_began_in",
        lambda: sys.version_info >= (3, 12) or isinstance(vars(asyncio.tasks)["_current_tasks"], dict),
    ),
    Foreign(
        "threading._register_atexit",
        "mcp_products.platforms.error_output",
        "Python waits for threads of handlers before `atexit` calls anybody; without it, the process ends later",
        "Python 3.9 to 3.14",
        "tests/core/stdio/test_server_shutdown.py::test_the_process_ends_soon",
        lambda: vars(threading)["_register_atexit"],
    ),
    Foreign(
        "cls._is_protocol",
        "mcp_products.app.signatures.type_hints",
        "`typing.is_protocol` exists from Python 3.13 on",
        "Python 3.8 to 3.14",
        "tests/house/test_private_attributes.py::test_a_foreign_name_exists",
        lambda: vars(_Structural)["_is_protocol"],
    ),
    Foreign(
        "trace._TRACER_PROVIDER",
        "mcp_products.telemetry.__init__",
        "`get_tracer_provider` looks into the environment at each call; without it, that is asked",
        "opentelemetry-api 1.30 to 1.45",
        "tests/telemetry/test_spans.py::test_a_call_has_a_span_on_either_side_in_one_trace",
        lambda: "_TRACER_PROVIDER" in vars(trace),
    ),
    Foreign(
        "connection._writer",
        "mcp_products.workers.stores.redis_connection",
        "redis-py shows its transport nowhere else; without it, the client sends each command",
        "redis 5.2 to 8.1",
        "tests/workers/stores/test_tracked_records.py::test_a_change_is_known_everywhere_when_it_was_reported",
        lambda: "_writer" in dir(redis.asyncio.Connection()),
    ),
]

# What subclasses of uvicorn's connections override: why, which versions, and the test that fails.
UVICORN = {
    "_start_asgi_task": (
        "a request that has come as a whole is served at once",
        "uvicorn 0.54",
        "tests/fast/test_whole_messages.py::test_a_call_is_answered_with_one_write",
    ),
    "_unset_keepalive_if_required": (
        "one timer serves all idle times of a connection",
        "uvicorn 0.54",
        "tests/hosting/test_deadlines.py::test_a_request_that_is_not_finished_is_ended",
    ),
}


class Use(NamedTuple):
    """A place in a module that uses a private attribute."""

    line: int
    written: str  # `object._x`
    is_own: bool  # Of `self`, `cls` or `super()`.
    is_patched: bool = False  # By a method, as `monkeypatch.setattr`.

    @property
    def name(self) -> str:
        return self.written.rpartition(".")[2]


def is_private(name: object) -> TypeGuard[str]:
    return isinstance(name, str) and name.startswith("_") and name != "_" and not name.endswith("__")


def is_own(node: ast.expr) -> bool:
    """Return True for `self`, `cls` and `super()`."""
    match node:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
        case ast.Call(func=ast.Name(id="cast"), args=[_, value]):
            return is_own(value)
        case _:
            return False


def defined(tree: ast.Module) -> set[str]:
    """Return the names that classes of a module define: in their bodies, by `self.x = …`, or as slots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                names |= set(_defined_by(statement))
            names |= {
                item.attr
                for item in ast.walk(node)
                if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store) and is_own(item.value)
            }
    return names


def _defined_by(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
            yield from (str(item.value) for item in ast.walk(value) if isinstance(item, ast.Constant))
        case ast.Assign(targets=targets):
            yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


@cache
def uses(tree: ast.Module) -> list[Use]:
    """Return the uses of private attributes in a module."""
    found: list[Use] = []
    for node in ast.walk(tree):
        is_patched = False
        match node:
            case ast.Attribute(value=value, attr=name):
                pass
            case ast.Call(func=ast.Name(id=function), args=[value, ast.Constant(value=name), *_]):
                if function not in ("getattr", "hasattr", "setattr", "delattr"):
                    continue
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=[value, ast.Constant(value=name), *_]):
                is_patched = True
            case _:
                continue
        if is_private(name):
            found.append(Use(node.lineno, f"{ast.unparse(value)}.{name}", is_own(value), is_patched))
    return found


def uses_of_others(tree: ast.Module) -> list[Use]:
    """Return those of objects that are not `self`, `cls` or `super()`, and whose class is defined elsewhere."""
    names = defined(tree)
    return [use for use in uses(tree) if not use.is_own and use.name not in names]


def row_of(path: Path, use: Use) -> Foreign | None:
    """Return the row of a name that does not belong to the project."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts[1:])
    for row in FOREIGN:
        is_it = use.written.endswith(row.written) if row.written.startswith(".") else use.written == row.written
        if is_it and row.module in ("", module):
            return row
    return None


def places(folder: str, is_patched: bool = False) -> list[str]:
    """Return where a folder uses private attributes of others, but for those that have a row."""
    found: list[str] = []
    for path in python_files(folder):
        mine = [use for use in uses_of_others(syntax_tree(path)) if use.is_patched is is_patched]
        found += [f"{relative(path)}:{use.line}: {use.written}" for use in mine if row_of(path, use) is None]
    return found


@pytest.mark.parametrize("folder", LEFT)
def test_private_attributes_of_others_become_fewer(folder: str) -> None:
    assert_only_falls(places(folder), LEFT[folder])


def test_private_attributes_that_tests_patch_become_fewer() -> None:
    assert_only_falls(places("tests", is_patched=True), PATCHED_IN_TESTS)


@pytest.mark.parametrize("row", FOREIGN, ids=lambda row: row.written)
def test_a_foreign_name_exists(row: Foreign) -> None:
    assert row.exists()


def test_each_foreign_name_is_used_and_has_a_test() -> None:
    paths = python_files("runtime", "products", "tests", "benchmarks", "examples")
    rows = [row_of(path, use) for path in paths for use in uses(syntax_tree(path))]
    assert {row.written for row in rows if row is not None} == {row.written for row in FOREIGN}
    reasons = [(row.why, row.versions, row.test) for row in FOREIGN if row.versions != "documented"]
    for why, versions, test in [*reasons, *UVICORN.values()]:
        assert why and versions
        file, _, name = test.partition("::")
        assert name in {node.name for node in definitions(ROOT / file)}, test


def test_a_private_name_that_the_runtime_does_not_define_has_a_row() -> None:
    """Such a name belongs to somebody else, behind `self` as well."""
    paths = python_files("runtime", "products")
    nodes = [node for path in paths for node in ast.walk(syntax_tree(path))]
    names = {name for path in paths for name in defined(syntax_tree(path))}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    foreign = [(path, use) for path in paths for use in uses(syntax_tree(path)) if use.name not in names]
    assert [(relative(path), use) for path, use in foreign if row_of(path, use) is None] == []


def test_what_is_overridden_of_uvicorn_has_a_row() -> None:
    theirs = {name for base in (H11Protocol, HttpToolsProtocol) for name in vars(base) if is_private(name)}
    paths = [path for path in python_files("runtime", "products") if "uvicorn" in path.read_text(encoding="utf-8")]
    assert theirs & {name for path in paths for name in defined(syntax_tree(path))} == set(UVICORN)
    assert set(UVICORN) <= set(vars(HttpToolsProtocol))


_CLASS = """
class Some:
    __slots__ = ("_slot",)
    _field: int
    _number = 1

    def _method(self):
        self._set = 1
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("other._x", ["other._x"]),
        ("self.other._x = 1", ["self.other._x"]),
        ("getattr(f(), '_x', None)", ["f()._x"]),
        ("monkeypatch.setattr(other, '_x', 1)", ["other._x"]),
        ("type(self)._x", ["type(self)._x"]),
        ("self._x, cls._x, super()._x, cast(Any, super())._x, getattr(self, '_x')", []),
        ("other._slot, other._field, other._method(), other._set, other._number", []),
        ("other.x, other.__class__, other.__x__", []),
    ],
)
def test_what_counts(line: str, found: list[str]) -> None:
    assert [use.written for use in uses_of_others(ast.parse(_CLASS + line))] == found
