"""What hand-written code may not name, what an import loads, and which names generated classes may not take."""

from __future__ import annotations

import ast
import json
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel
from support.project import package
from support.source_tree import python_files, relative, syntax_tree

from mcp_codegen.model.names import RESERVED_BY_ENDPOINTS
from mcp_generated import REVISIONS

CODE = python_files("codegen", "runtime", "products")
EXTENSIONS = [
    import_module(f"mcp_generated.extensions.{path.parent.name}.methods")
    for path in python_files("generated")
    if path.parts[-3] == "extensions" and path.name == "methods.py"
]


def test_hand_written_code_knows_no_revision_and_no_method() -> None:
    tables = [package(revision, "methods") for revision in REVISIONS] + EXTENSIONS
    methods = {row.method for table in tables for row in table.REVISION.rows}
    found = {relative(path): protocol_names(path, methods) for path in CODE}
    assert len(found) > 300 and {path: names for path, names in found.items() if names} == {}


def protocol_names(path: Path, methods: set[str]) -> set[str]:
    """Return the revisions in a file, and those of these methods that its text or its strings are."""
    text = path.read_text(encoding="utf-8")
    strings = {node.value for node in ast.walk(syntax_tree(path)) if isinstance(node, ast.Constant)}
    named = {method for method in methods if ("/" in method and method in text) or method in strings}
    return named | set(re.findall(r"\d{4}[-_]\d{2}[-_]\d{2}", text))


def loaded_by(statement: str) -> set[str]:
    """The modules of ours that a statement loads in a fresh interpreter."""
    ours = "name.startswith('mcp_') or name == 'pydantic'"
    code = f"{statement}\nimport sys; print(*[name for name in sys.modules if {ours}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_loads_nothing_that_was_not_asked_for() -> None:
    front_door = {"mcp_generated", "mcp_runtime", "mcp_runtime._lazy", "mcp_runtime.products"}
    assert loaded_by("import mcp_generated") == front_door
    package_only = {*front_door, "mcp_generated.v2025_03_26"}
    assert loaded_by("import mcp_generated.v2025_03_26") == package_only
    with_types = {*package_only, "mcp_generated.v2025_03_26.types", "pydantic"}
    with_types |= {
        "mcp_runtime.protocol",
        "mcp_runtime.protocol.models",
        "mcp_products",
        "mcp_products.models",
        "mcp_products.models.tool_methods",
        "mcp_runtime.protocol.model_methods",
        "mcp_runtime.protocol.wire_models",
    }
    assert loaded_by("from mcp_generated.v2025_03_26 import types") == with_types
    everything = loaded_by("from mcp_generated.v2025_03_26 import Client, Server, types, methods")
    assert not [module for module in everything if module.startswith("mcp_generated.v") and "v2025_03_26" not in module]
    assert "mcp_codegen" not in everything


SERVER = """
import sys
from mcp_generated import App
app = App("x")
@app.tool()
def loaded() -> list[str]: return [name for name in sys.modules if name.startswith("mcp_generated.")]
app.run()
"""
CLIENT = {"name": "raw", "version": "1"}
PREFIX = "io.modelcontextprotocol/"
META = {"protocolVersion": "2026-07-28", "clientInfo": CLIENT, "clientCapabilities": {}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
OPENINGS: dict[str, list[dict[str, Any]]] = {
    "2025-11-25": [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ],
    "2026-07-28": [],
}
# The sections of the newest version that a call needs: its params may have the responses to any input request.
CALL = set("common_types content elicitation_create multi_round_trip notifications_cancelled roots_list".split())
CALL |= {"sampling_createmessage", "tools_call", "tools_list"}


@pytest.mark.parametrize("version", OPENINGS)
def test_a_first_answer_loads_only_the_types_that_it_needs(version: str) -> None:
    pipe = subprocess.PIPE
    params: dict[str, Any] = {"name": "loaded", "arguments": {}}
    if version == "2026-07-28":
        params["_meta"] = {PREFIX + name: value for name, value in META.items()}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        answer: dict[str, Any] = {}
        for message in [*OPENINGS[version], call]:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline()) if "id" in message else answer
        process.stdin.close()
    modules = answer["result"]["structuredContent"]["result"]
    types = {(name.split(".")[1], name.split(".")[3]) for name in modules if name.count(".") == 3}
    allowed = {("v2026_07_28", name) for name in CALL}
    if version == "2025-11-25":
        older = {"common_types", "content", "initialize", "resources_list", "tools_call"}
        allowed |= {("v2025_11_25", name) for name in older}
    assert types and types <= allowed
    loaded_versions = {name.split(".")[1] for name in modules if name.split(".")[1].startswith("v20")}
    assert loaded_versions == {"v2026_07_28", REVISIONS[version]}


def test_the_types_of_a_version_are_all_where_they_are_looked_for(revision: str) -> None:
    types = package(revision, "types")
    space: dict[str, Any] = {}
    exec(f"from {types.__name__} import *", space)
    models = {name for name in dir(types) if isinstance(getattr(types, name), type(BaseModel))} - {"WireModel"}
    assert models <= space.keys() and {"Tool", "CallToolResult", "JSONRPCRequest"} <= models
    for name in models:
        model = getattr(types, name)
        assert pickle.loads(pickle.dumps(model)) is model is space[name]
        assert get_type_hints(model).keys() >= model.model_fields.keys()
        model.model_rebuild()
    with pytest.raises(AttributeError, match="has no attribute 'Toool'"):
        types.Toool


def test_the_official_types_have_their_names_before_they_are_loaded() -> None:
    names = loaded_by("import mcp_generated.compat.types as types; print(*['mcp_' + name for name in dir(types)])")
    types = import_module("mcp_generated.compat.types_v2")
    models = {name for name in dir(types) if isinstance(getattr(types, name), type(BaseModel)) and name.isidentifier()}
    assert {"mcp_" + name for name in models} <= names


def test_an_unknown_name_of_a_package_is_an_attribute_error() -> None:
    from mcp_generated import v2025_03_26

    with pytest.raises(AttributeError, match="'mcp_generated.v2025_03_26' has no attribute 'Sever'"):
        v2025_03_26.Sever  # type: ignore[attr-defined]
    assert {"Client", "Server", "Context", "types", "methods"} <= set(dir(v2025_03_26))


def test_no_generated_method_can_hide_one_of_its_base_class() -> None:
    from mcp_generated.v2025_03_26 import Client, Server
    from mcp_products.host.sync import BaseSyncClient
    from mcp_runtime.bindings.client import BaseClient
    from mcp_runtime.bindings.server import BaseServer
    from mcp_runtime.client.core import ClientContext
    from mcp_runtime.server.context import ServerContext

    server = Server(name="x", version="1")
    classes = (BaseServer, BaseClient, BaseSyncClient, ServerContext, ClientContext)
    public = {*vars(server), *vars(Client.memory(server)), "state", *(name for type_ in classes for name in dir(type_))}
    assert {name for name in public if not name.startswith("_")} <= RESERVED_BY_ENDPOINTS


def test_no_test_is_named_after_a_set(request: pytest.FixtureRequest) -> None:
    """The order in which a set is written changes from process to process, and those that share the tests name them."""
    for item in request.session.items:
        values = (
            item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        )
        unordered = [value for value in values if isinstance(value, (set, frozenset))]
        assert not any(repr(value) in item.name for value in unordered), item.nodeid
