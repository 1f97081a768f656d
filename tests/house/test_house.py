"""The house: how large files may be, who may import whom, and what hand-written code may not know."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from support.project import ROOT, package

from mcp_codegen.model.names import RESERVED_BY_ENDPOINTS
from mcp_generated import REVISIONS

HAND_WRITTEN = [
    path
    for folder in ("codegen", "runtime", "tests", "examples", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
CODE = [path for path in HAND_WRITTEN if path.relative_to(ROOT).parts[0] in ("codegen", "runtime")]
GENERATED = sorted((ROOT / "generated").rglob("*.py"))
EXTENSIONS = [
    import_module(f"mcp_generated.extensions.{path.parent.name}.methods")
    for path in GENERATED
    if path.parts[-3] == "extensions" and path.name == "methods.py"
]

# Who may import whom inside the runtime: a module those on its left alone.
LAYERS = [
    "errors",
    "wire",
    "convert",
    "schemas",
    "spec",
    "jsonrpc",
    "lifecycle",
    "peer",
    "framing",
    "sse",
    "http",
    "auth",
    "eager",
    "exchange",
    "skills",
    "outcomes",
    "seams",
    "batch",
    "session",
    "transports",
    "faces",
    "authserver",
    "tasks",
    "app",
    "contract",
    "typed",
    "testing",
]
FREE = {"lazy"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", HAND_WRITTEN, ids=name)
def test_a_file_is_short_and_so_is_everything_in_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= (300 if isinstance(node, ast.ClassDef) else 50), f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", [*HAND_WRITTEN, *GENERATED], ids=name)
def test_a_module_says_first_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", CODE, ids=name)
def test_hand_written_code_knows_no_revision_and_no_method(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"\d{4}[-_]\d{2}[-_]\d{2}", text)
    tables = [package(revision, "methods") for revision in REVISIONS] + EXTENSIONS
    methods = {row.method for table in tables for row in table.REVISION.rows}
    for method in methods:
        assert "/" not in method or method not in text, method
    strings = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    assert not methods & {string for string in strings if isinstance(string, str)}


def imports(path: Path) -> set[str]:
    """The absolute names a module imports from, at any depth."""
    found: set[str] = set()
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(parts[: len(parts) - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", [*CODE, *GENERATED], ids=name)
def test_packages_import_each_other_one_way_only(path: Path) -> None:
    top = path.relative_to(ROOT).parts[0]
    seen = {each.partition(".")[0] for each in imports(path)}
    forbidden = {
        "codegen": {"mcp_runtime", "mcp_generated"},
        "runtime": {"mcp_codegen", "mcp_generated"},
        "generated": {"mcp_codegen"},
    }[top]
    assert not seen & forbidden


@pytest.mark.parametrize("path", [each for each in GENERATED if each.parent.name.startswith("v")], ids=name)
def test_revisions_never_import_each_other(path: Path) -> None:
    own = path.parent.name
    assert all(each.startswith(f"mcp_generated.{own}") for each in imports(path) if each.startswith("mcp_generated"))


@pytest.mark.parametrize("path", [each for each in CODE if "runtime" in each.parts[-3:]], ids=name)
def test_a_runtime_module_imports_those_below_it_alone(path: Path) -> None:
    parts = path.relative_to(ROOT / "runtime" / "mcp_runtime").with_suffix("").parts
    below = {each.split(".")[1] for each in imports(path) if each.startswith("mcp_runtime.")} - {parts[0]}
    if parts[0] in FREE or parts == ("__init__",):
        assert not below
    else:
        assert below <= set(LAYERS[: LAYERS.index(parts[0])])


@pytest.mark.parametrize("module", ["peer", "jsonrpc", "framing", "lifecycle", "spec"])
def test_the_core_does_no_io(module: str) -> None:
    seen = {each.partition(".")[0] for each in imports(ROOT / "runtime" / "mcp_runtime" / f"{module}.py")}
    assert not seen & {
        "asyncio",
        "socket",
        "time",
        "datetime",
        "random",
        "secrets",
        "os",
        "sys",
        "threading",
        "subprocess",
    }


def loaded_by(statement: str) -> set[str]:
    """The modules of ours that a statement loads in a fresh interpreter."""
    code = f"{statement}\nimport sys; print(*[name for name in sys.modules if name.startswith('mcp_') or name == 'pydantic'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_loads_nothing_that_was_not_asked_for() -> None:
    assert loaded_by("import mcp_generated") == {"mcp_generated"}
    package_alone = {"mcp_generated", "mcp_generated.v2025_03_26", "mcp_runtime", "mcp_runtime._lazy"}
    assert loaded_by("import mcp_generated.v2025_03_26") == package_alone
    with_types = {*package_alone, "mcp_generated.v2025_03_26.types", "mcp_runtime.protocol.models", "pydantic"}
    assert loaded_by("from mcp_generated.v2025_03_26 import types") == with_types
    everything = loaded_by("from mcp_generated.v2025_03_26 import Client, Server, types, methods")
    assert not [each for each in everything if each.startswith("mcp_generated.v") and "v2025_03_26" not in each]
    assert "mcp_codegen" not in everything


def test_an_unknown_name_of_a_package_is_an_attribute_error() -> None:
    from mcp_generated import v2025_03_26

    with pytest.raises(AttributeError, match="'mcp_generated.v2025_03_26' has no attribute 'Sever'"):
        v2025_03_26.Sever  # type: ignore[attr-defined]  # noqa: B018
    assert {"Client", "Server", "Context", "types", "methods"} <= set(dir(v2025_03_26))


def test_no_generated_method_can_hide_one_of_its_base_class() -> None:
    from mcp_generated.v2025_03_26 import Client, Server
    from mcp_runtime.bindings.client import BaseClient
    from mcp_runtime.client.core import ClientContext
    from mcp_runtime.bindings.server import BaseServer
    from mcp_runtime.server.context import ServerContext
    from mcp_runtime.bindings.sync import BaseSyncClient

    server = Server(name="x", version="1")
    classes = (BaseServer, BaseClient, BaseSyncClient, ServerContext, ClientContext)
    public = {*vars(server), *vars(Client.memory(server)), "state", *(name for each in classes for name in dir(each))}
    assert {each for each in public if not each.startswith("_")} <= RESERVED_BY_ENDPOINTS


def test_no_test_is_named_after_a_set(request: pytest.FixtureRequest) -> None:
    """The order in which a set is written changes from process to process, and those that share the tests name them."""
    for item in request.session.items:
        given = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        unordered = [value for value in given if isinstance(value, (set, frozenset))]
        assert not any(repr(value) in item.name for value in unordered), item.nodeid
