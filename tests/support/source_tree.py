"""The Python files of the repository as syntax trees: their definitions, and who imports whom."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The folder that holds each package.
PACKAGES = {
    "mcp_codegen": ROOT / "codegen",
    "mcp_runtime": ROOT / "runtime",
    "mcp_products": ROOT / "products",
    "mcp_generated": ROOT / "generated",
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Graph = Mapping[str, set[str]]


def python_files(*folders: str) -> list[Path]:
    """Return the Python files in folders of the repository, in the order of their paths."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def relative(path: Path) -> str:
    """Return a path as it is written from the root of the repository, with slashes."""
    return path.relative_to(ROOT).as_posix()


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def definitions(path: Path) -> Iterator[Definition]:
    """Yield every function and class of a file, at any depth."""
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, Definition):
            yield node


@cache
def modules(package: str) -> dict[str, Path]:
    """Return the modules of a package by their full names."""
    root = PACKAGES[package]
    return {_module_name(path.relative_to(root)): path for path in sorted((root / package).rglob("*.py"))}


def imports(path: Path, module: str) -> set[str]:
    """Return the absolute names that a module imports, at any depth: `a.b` and, for `from a import b`, both."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return names


@cache
def import_graph(package: str) -> Graph:
    """Return which modules of a package its modules import; a submodule stands for itself, not for its package."""
    paths = modules(package)
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        targets = {name for name in imports(path, module) if name in paths} - {module}
        precise = {name for name in targets if not any(other.startswith(f"{name}.") for other in targets)}
        graph[module] = precise
    return graph


def folder_graph(package: str) -> Graph:
    """Return which folders of a package import which. A module in the package's root counts as a folder of its own.

    An `__init__.py` only exports what lies below it, so its imports do not count here.
    """
    paths = modules(package)

    def folder(module: str) -> str:
        own = module if paths[module].name == "__init__.py" else module.rpartition(".")[0]
        return module if own == package else own

    graph: dict[str, set[str]] = {folder(module): set() for module in paths}
    for module, targets in import_graph(package).items():
        if paths[module].name != "__init__.py":
            graph[folder(module)] |= {folder(target) for target in targets} - {folder(module)}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Return the circles of a graph: its strongly connected components of two nodes or more (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            position = stack.index(node)
            component = stack[position:]
            del stack[position:]
            if len(component) > 1:
                components.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return components


def graph_of(edges: Iterable[tuple[str, str]]) -> Graph:
    """Return the graph with these edges."""
    graph: dict[str, set[str]] = {}
    for source, target in edges:
        graph.setdefault(source, set()).add(target)
        graph.setdefault(target, set())
    return graph


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
