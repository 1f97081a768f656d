"""Measure how many programs of others run with only their import lines changed: the servers of FastMCP's examples and
documentation, servers of PyPI, and the Python blocks of documents.

    FASTMCP_PYTHON=/path/to/an/environment/with/fastmcp/bin/python FASTMCP_SOURCE=/path/to/fastmcp.git \\
        python tests/interop/official/other_programs.py fastmcp
    python tests/interop/official/other_programs.py documents /path/to/a/folder/of/documents
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interop.official.official_examples import (
    SDKS,
    Failure,
    Interpreter,
    Outcome,
    load,
    our_interpreter,
    peer_interpreter,
    print_table,
)
from support.official.imports import rewrite
from support.official.sources import tags, unpack
from support.peers import clean

_IMPORT: Final = re.compile(r"^\s*(?:from|import)\s+(?:fastmcp|mcp)\b", re.MULTILINE)
_SERVER: Final = re.compile(r"\b(?:FastMCP|MCPServer|Server)\(")
# Programs that sign users in with a service, and those of other services.
_FOREIGN: Final = re.compile(
    r"fastmcp\.server\.auth\.(?:providers|oauth_proxy|oidc_proxy)|openai|anthropic|google\.genai"
)
_FENCE: Final = re.compile(r"^([ \t]*)```python[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_NUMBER: Final = re.compile(r"^\s*\d+\. ?", re.MULTILINE)


def fastmcp_programs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and the sources of the servers in FastMCP's examples and documentation."""
    for path in sorted((folder / "examples").rglob("*.py")):
        source = path.read_text()
        if _SERVER.search(source) and _IMPORT.search(source) and not _FOREIGN.search(source):
            yield path.relative_to(folder).as_posix(), source
    for path in sorted((folder / "docs").rglob("*.mdx")):
        name = path.relative_to(folder).as_posix()
        if not name.startswith(("docs/v2", "docs/v3", "docs/python-sdk")):
            yield from _blocks(name, path.read_text())


def document_programs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and the sources of the Python blocks of a folder of documents that are programs."""
    for path in sorted(folder.glob("*.txt")):
        yield from _blocks(path.name, path.read_text())
        yield from _blocks(f"{path.name} without numbers", _NUMBER.sub("", path.read_text()))


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


def measure(programs: Iterator[tuple[str, str]], theirs: Interpreter, old: bool) -> Iterator[Outcome]:
    """Yield the outcome of each program that loads on its own SDK."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, source) in enumerate(programs):
            original, changed = Path(folder) / f"original{number}.py", Path(folder) / f"changed{number}.py"
            original.write_text(source)
            changed.write_text(rewrite(source, old))
            try:
                load(theirs, original)
            except Failure:
                continue  # It needs a service, another file or a package that is not here.
            try:
                load(our_interpreter(), changed)
                yield Outcome(name, True, None)
            except Failure as failure:
                yield Outcome(name, False, None, str(failure))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fastmcp"]:
            repository = Path(os.environ["FASTMCP_SOURCE"])
            unpacked = unpack(repository, tags(repository, "v")[-1], Path(tempfile.mkdtemp()), "examples", "docs")
            interpreter = Interpreter(Path(os.environ["FASTMCP_PYTHON"]), clean())
            print_table(measure(fastmcp_programs(unpacked), interpreter, old=False))
        case ["documents", documents]:
            print_table(measure(document_programs(Path(documents)), peer_interpreter(SDKS["v1"]), old=True))
        case _:
            sys.exit(__doc__)
