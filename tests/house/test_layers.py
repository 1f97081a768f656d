"""Who imports whom: the contracts of import-linter hold, and there are no circles, of modules or of folders."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from support.source_tree import (
    PACKAGES,
    ROOT,
    Graph,
    circles,
    folder_graph,
    graph_of,
    import_graph,
    imports,
    modules,
    relative,
)

from mcp_generated import REVISIONS

# What generated code may import of the runtime. Lazy imports of mcp_generated itself follow the layers only.
GENERATED_IMPORTS = (
    *("mcp_runtime._lazy", "mcp_runtime.bindings", "mcp_runtime.protocol"),
    *("mcp_products.host.sync", "mcp_products.models.tool_methods"),
)


def test_the_contracts_of_the_layers_hold() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    result = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_revision_is_held_apart_by_a_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [revisions] = [contract["modules"] for contract in contracts if contract["id"] == "revisions"]
    assert revisions == [f"mcp_generated.{folder}" for folder in REVISIONS.values()]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    """Imports inside functions and under TYPE_CHECKING count."""
    assert circles(import_graph(package)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folders_import_each_other_in_a_circle(package: str) -> None:
    """Imports inside functions and under TYPE_CHECKING count. Which product may import which is in a contract."""
    assert circles(within_products(folder_graph(package))) == []


def within_products(graph: Graph) -> Graph:
    """Return a graph without the imports of one product by another."""
    return {
        folder: {other for other in others if product(other) == product(folder)} for folder, others in graph.items()
    }


def product(folder: str) -> str:
    return folder.split(".")[1] if folder.startswith("mcp_products.") else ""


def test_a_circle_would_be_found() -> None:
    graph = graph_of([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("f", "a")])
    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]
    assert circles(graph_of([("a", "b"), ("a", "c"), ("b", "c")])) == []


def test_revisions_and_extensions_use_the_bindings_of_the_runtime_alone() -> None:
    offenders: dict[str, set[str]] = {}
    for module, path in modules("mcp_generated").items():
        folders = path.relative_to(PACKAGES["mcp_generated"]).parts
        if len(folders) > 2 and "compat" not in folders:  # `compat` binds the adapters of the official SDK's names.
            used = {name for name in imports(path, module) if name.startswith(("mcp_runtime", "mcp_products"))}
            if other := {name for name in used if not name.startswith(GENERATED_IMPORTS)}:
                offenders[relative(path)] = other
    assert offenders == {}
