"""Measure how many programs of others run with only their import lines changed: the servers of FastMCP's examples and
documentation, the programs of `docs_src` of the official SDK 2.x, and the Python blocks of documents.

    FASTMCP_PYTHON=/path/to/an/environment/with/fastmcp/bin/python FASTMCP_SOURCE=/path/to/its/source/distribution \\
        python tests/compat/programs/other_programs.py fastmcp
    MCP_PYTHON_SDK=/path/to/python-sdk.git python tests/compat/programs/other_programs.py tutorials
    python tests/compat/programs/other_programs.py documents /path/to/a/folder/of/documents
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from compat.programs.official_examples import (
    SDKS,
    Interpreter,
    Outcome,
    folders,
    our_interpreter,
    peer_interpreter,
    print_table,
)
from support.official.imports import rewrite
from support.peers import clean
from support.project import TESTS

_IMPORT: Final = re.compile(r"^\s*(?:from|import)\s+(?:fastmcp|mcp)\b", re.MULTILINE)
_SERVER: Final = re.compile(r"\b(?:FastMCP|MCPServer|Server)\(")
# Programs that sign users in with a service, and those of other services.
_FOREIGN: Final = re.compile(
    r"fastmcp\.server\.auth\.(?:providers|oauth_proxy|oidc_proxy)|openai|anthropic|google\.genai"
)
_FENCE: Final = re.compile(r"^([ \t]*)```python[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_FASTMCP: Final = "fastmcp.server.server,fastmcp.client,fastmcp.tools,fastmcp.resources,fastmcp.prompts"
_NUMBER: Final = re.compile(r"^\s*\d+\. ?", re.MULTILINE)


def fastmcp_programs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and the sources of the servers in FastMCP's examples and documentation."""
    for path in sorted((folder / "examples").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if _SERVER.search(source) and _IMPORT.search(source) and not _FOREIGN.search(source):
            yield path.relative_to(folder).as_posix(), source
    for path in sorted((folder / "docs").rglob("*.mdx")):
        name = path.relative_to(folder).as_posix()
        if not name.startswith(("docs/v2", "docs/v3", "docs/python-sdk")):
            yield from _blocks(name, path.read_text(encoding="utf-8"))


def document_programs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and the sources of the Python blocks of a folder of documents that are programs."""
    for path in sorted(folder.glob("*.txt")):
        yield from _blocks(path.name, path.read_text(encoding="utf-8"))
        yield from _blocks(f"{path.name} without numbers", _NUMBER.sub("", path.read_text(encoding="utf-8")))


def _blocks(name: str, text: str) -> Iterator[tuple[str, str]]:
    for number, (_, block) in enumerate(_FENCE.findall(text)):
        source = textwrap.dedent(block)
        if _IMPORT.search(source) and _SERVER.search(source) and not _FOREIGN.search(source) and _is_python(source):
            yield f"{name}#{number}", source


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def measure(programs: Iterator[tuple[str, str]], theirs: Interpreter, modules: str, old: bool) -> Iterator[Outcome]:
    """Yield the outcome of each program that loads on its own SDK, whose modules are named."""
    with tempfile.TemporaryDirectory() as folder:
        names: dict[str, Path] = {}
        for number, (name, source) in enumerate(programs):
            names[name] = Path(folder) / f"program{number}.py"
            names[name].write_text(source)
        reference = loaded(theirs, modules, [*names.values()])
        # The others need a service, another file or a package that is not here.
        names = {name: path for name, path in names.items() if not reference[path]}
        for path in names.values():
            path.write_text(rewrite(path.read_text(encoding="utf-8"), old))
        ours = loaded(
            with_packages_of(theirs, Path(folder) / "packages"),
            "mcp_generated.compat,mcp_generated.middleware,mcp_generated.transforms",
            [*names.values()],
        )
        for name, path in names.items():
            yield Outcome(name, not ours[path], None, ours[path])


def measure_tutorials() -> Iterator[Outcome]:
    """Yield the outcome of each program of the documentation of 2.x that loads on its own SDK."""
    original, changed = folders("v2")
    paths = [path for path in sorted((original / "docs_src").rglob("*.py")) if path.name != "__init__.py"]
    theirs = peer_interpreter(SDKS["v2"])
    reference = loaded(theirs, "mcp.server.mcpserver,mcp.client", paths)
    relative = [path.relative_to(original) for path in paths if not reference[path]]
    with tempfile.TemporaryDirectory() as folder:
        interpreter = with_packages_of(theirs, Path(folder) / "packages")
        ours = loaded(interpreter, "mcp_generated.compat", [changed / path for path in relative])
    for path in relative:
        name = path.relative_to("docs_src").with_suffix("").as_posix()
        yield Outcome(name, not ours[changed / path], None, ours[changed / path])


def loaded(interpreter: Interpreter, modules: str, paths: list[Path]) -> dict[Path, str]:
    """Load programs with an interpreter; return the error of each of them, empty if there is none."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as file:
        file.write("\n".join(map(str, paths)))
        file.flush()
        command = [interpreter.python, TESTS / "support/official/load_programs.py", modules, file.name]
        done = subprocess.run(command, env=interpreter.env, check=True, capture_output=True, text=True)
    return {Path(path): error for path, error in map(json.loads, done.stdout.splitlines())}


def with_packages_of(theirs: Interpreter, folder: Path) -> Interpreter:
    """Return our interpreter with what programs import besides their SDK, and we do not use ourselves."""
    folder.mkdir()
    ours = our_interpreter()
    [site] = theirs.python.parents[1].glob("lib/*/site-packages")
    for path in site.iterdir():
        name = path.name.removesuffix(".py")
        if name.isidentifier() and not name.startswith(("mcp", "fastmcp", "_")) and find_spec(name) is None:
            (folder / path.name).symlink_to(path)
    return Interpreter(ours.python, {**ours.env, "PYTHONPATH": f"{ours.env['PYTHONPATH']}{os.pathsep}{folder}"})


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fastmcp"]:
            interpreter = Interpreter(Path(os.environ["FASTMCP_PYTHON"]), clean())
            sources = fastmcp_programs(Path(os.environ["FASTMCP_SOURCE"]))
            print_table(measure(sources, interpreter, _FASTMCP, old=False))
        case ["tutorials"]:
            print_table(measure_tutorials())
        case ["documents", documents]:
            print_table(
                measure(
                    document_programs(Path(documents)), peer_interpreter(SDKS["v1"]), "mcp.server.fastmcp", old=True
                )
            )
        case _:
            sys.exit(__doc__)
