"""What the runtime and the products have in one module: the clock, which tests and simulated schedules can set, the
rates that hold where nobody has said otherwise, and the name of the generator."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.source_tree import python_files, relative, syntax_tree

from mcp_runtime.aio import rates

CLOCK = "runtime/mcp_runtime/aio/clock.py"
READ = ("time", "monotonic", "time_ns", "monotonic_ns")  # Not perf_counter: how long work takes is not simulated.
PROCESSES = "it waits for processes of the system, which no simulated clock hurries"
THREADS = "a thread of the system waits so long for another one"
EXCEPTIONS = {
    "products/mcp_products/fast/stdio.py": THREADS,
    "products/mcp_products/fast/worker_threads.py": THREADS,
    "products/mcp_products/lint/reading.py": PROCESSES,
    "products/mcp_products/workers/supervisor.py": PROCESSES,
}


def readings(tree: ast.Module) -> Iterator[int]:
    """The lines that read the clock of the system, or import what reads it."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in READ:
                yield node.lineno
            case ast.ImportFrom(module="time", names=names) if any(alias.name in READ for alias in names):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="datetime"), attr="now" | "utcnow")):
                yield node.lineno
            case _:
                pass


def test_the_clock_of_the_system_is_read_in_one_module() -> None:
    paths = [path for folder in ("runtime", "products") for path in python_files(folder)]
    found = {relative(path): [*readings(syntax_tree(path))] for path in paths}
    assert CLOCK in found
    assert {path: lines for path, lines in found.items() if lines and path not in (CLOCK, *EXCEPTIONS)} == {}
    assert {path for path in EXCEPTIONS if not found[path]} == set()


def test_each_way_to_read_it_is_noticed() -> None:
    for source in ("time.time()", "f(clock=time.monotonic)", "from time import monotonic", "datetime.now(UTC)"):
        assert [*readings(ast.parse(source))] == [1], source
    for source in ("time.perf_counter()", "time.sleep(1)", "loop.time()", "from time import perf_counter"):
        assert [*readings(ast.parse(source))] == [], source


def test_no_other_module_has_a_rate_of_its_own() -> None:
    written = [
        relative(path)
        for path in python_files("runtime", "products")
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "RateLimit"
        if all(isinstance(value, ast.Constant) for value in (*node.args, *(item.value for item in node.keywords)))
    ]
    defaults = [value for value in vars(rates).values() if isinstance(value, rates.RateLimit)]
    assert written == ["runtime/mcp_runtime/aio/rates.py"] * len(defaults)
    assert len(defaults) == 5


def test_nothing_that_serves_or_connects_has_the_name_of_the_generator() -> None:
    """But the places on a disk, and the message of the generator itself."""
    kept = {"products/mcp_products/auth/client/storage.py", "runtime/mcp_runtime/command.py"}
    named = {
        relative(path)
        for path in python_files("runtime", "products")
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Constant) and str(node.value).startswith("mcp-codegen")
    }
    assert named == kept
