"""The programs in a repository of the official SDK or of FastMCP, and how a server among them is started."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from support.official.imports import rewrite

StartMode = Literal["instance", "run", "stdio", "http", "load"]
"""How a server is started: the server object of a module, its function `run`, its `main` over stdio or HTTP; or it is
only loaded, because it needs another server."""


class Program(NamedTuple):
    """A program: its name, its file, and how it is started."""

    name: str
    path: Path
    start: StartMode


def tags(repository: Path, prefix: str) -> list[str]:
    """Return the release tags of a git directory that start so, oldest first; those of previews are left out."""
    lines = subprocess.run(
        ["git", "-C", repository, "tag", "--list", f"{prefix}*"], check=True, capture_output=True, text=True
    ).stdout.split()
    releases = [tag for tag in lines if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    return sorted(releases, key=lambda tag: [int(part) for part in tag[1:].split(".")])


def unpack(repository: Path, tag: str, folder: Path, *paths: str) -> Path:
    """Write these paths of a tag into the folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "-C", repository, "archive", tag, *paths], check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
    return folder


def rewritten(folder: Path, target: Path, old: bool) -> Path:
    """Write a copy of a folder whose Python files have their import lines changed, and return it."""
    for path in sorted(folder.rglob("*.py")):
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        source = path.read_text()
        try:
            copy.write_text(rewrite(source, old))
        except SyntaxError:
            copy.write_text(source)
    return target


def servers(folder: Path) -> Iterator[Program]:
    """Yield the servers of `examples/snippets/servers` and `examples/servers`."""
    snippets = folder / "examples" / "snippets" / "servers"
    for path in sorted(snippets.rglob("*.py")):
        if path.name != "__init__.py":
            yield Program(path.relative_to(snippets).with_suffix("").as_posix(), path, _start_of(path))
    for project in sorted((folder / "examples" / "servers").iterdir()):
        [package] = project.glob("mcp_*")
        module = package / "server.py" if (package / "server.py").exists() else package / "__main__.py"
        yield Program(project.name, module, _start_of_package(package, module))


def clients(folder: Path) -> Iterator[Program]:
    """Yield the client programs of `examples/snippets/clients`."""
    for path in sorted((folder / "examples" / "snippets" / "clients").glob("*.py")):
        if path.name != "__init__.py":
            yield Program(path.stem, path, "run" if "__main__" in path.read_text() else "load")


def _start_of(path: Path) -> StartMode:
    source = path.read_text(encoding="utf-8")
    if "auth=" in source:
        return "load"  # It asks its authorization server, which is a program of its own.
    functions = {node.name for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)}
    return "run" if "run" in functions else "instance"


def _start_of_package(package: Path, module: Path) -> StartMode:
    source = module.read_text(encoding="utf-8")
    if "auth" in package.name:
        return "load"
    if module.name == "__main__.py" or '"stdio"' in source:
        return "stdio"
    return "http"
