"""Files of servers that other SDKs run, and words that name no server: what to pass instead."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Final

from ..errors import CodegenError

_SDKS: Final = frozenset({"mcp", "fastmcp"})
_OURS: Final = frozenset({"mcp_generated", "mcp_products", "mcp_runtime"})
_CLASSES: Final = ("FastMCP", "MCPServer")
_ABOVE: Final = 6  # Folders above a file in which its environment is looked for.
_PYTHON: Final = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
# Runs the server of a file that leaves this to a command of its SDK, such as `fastmcp run`.
_RUN: Final = """import pathlib, runpy, sys
file, name = sys.argv[1:3]
sys.argv[:] = [file]
sys.path.insert(0, str(pathlib.Path(file).resolve().parent))
values = runpy.run_path(file)
(values[name] if name else next(value for value in values.values() if type(value).__name__ in %r)).run()
"""
_RUNNERS: Final = {
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".ts": "npx tsx",
    ".go": "go run",
    ".jar": "java -jar",
}
_ADDRESS: Final = re.compile(r"(localhost|\d+(\.\d+){3}|[\w-]+(\.[\w-]+)+)(:\d+)?(/\S*)?")


def foreign_command(path: Path, name: str) -> tuple[str, ...] | None:
    """Return the command that runs a file written for another SDK; None for one of ours, or one that does not say.

    The Python is that of the project's own environment, where it has one. `name` is that of the server in the file.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # Who loads it says what is wrong.
    roots = set(_imported(tree))
    if roots & _OURS or not roots & _SDKS:
        return None
    python = project_python(path)
    if runs_itself(tree) and not name:
        return (python, str(path))
    return (python, "-c", _RUN % (_CLASSES,), str(path), name)


def project_python(path: Path) -> str:
    """Return the Python of the environment beside a file, or in a folder above it; else the one that runs this."""
    for folder in path.resolve().parents[:_ABOVE]:
        for environment in (".venv", "venv"):
            if (python := folder.joinpath(environment, *_PYTHON)).is_file():
                return str(python)
    return sys.executable


def runs_itself(tree: ast.Module) -> bool:
    """Return True if a file runs a server when it is started: a call of `run` or `main` below a guard or at the top."""
    calls = [node for top in tree.body if not _defines(top) for node in ast.walk(top) if isinstance(node, ast.Call)]
    names = {getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls}
    return bool(names & {"run", "main", "serve", "run_async"})


def _defines(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case _:
                pass


def refuse_no_command(word: str) -> None:
    """Raise CodegenError for a word that is no command, and that means something which is passed in another form."""
    if shutil.which(word) is not None:
        return
    if Path(word).is_dir():
        raise CodegenError(f"{word}: is a folder; pass the file of its server, or -- and the command that starts it")
    if runner := _RUNNERS.get(PureWindowsPath(word).suffix):
        raise CodegenError(f"{word}: is not run by itself; pass the program that runs it: -- {runner} {word}")
    if "://" in word:
        raise CodegenError(f"{word}: is no URL of a server; pass one that begins with http:// or https://")
    if (match := _ADDRESS.fullmatch(word)) and (match[3] or match[4] or match[1] == "localhost"):
        scheme = "http" if match[1] == "localhost" or match[2] else "https"
        raise CodegenError(f"{word}: is no command here; a URL has its scheme: {scheme}://{word}")
