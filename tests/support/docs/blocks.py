"""Code blocks of the documentation: find them, and run a chain of Python blocks.

An HTML comment directly above a Python block controls how it runs:

* `<!-- test: file=server.py -->` writes the block to a file and runs it as a child process with closed standard input.
* `<!-- test: file=server.py stop=listening -->` runs a server over HTTP until it listens, then sends SIGTERM.
* `<!-- test: continues -->` runs the block after the one above it, in the same folder and the same namespace;
  `continues=server.py` does so after the block that wrote that file.
* `<!-- test: context=client -->` provides the names of `contexts.client` to the block.
* `<!-- test: needs=docket -->` skips the chain where that module is not installed.

Every block without a comment has to run by itself. A ```text block below a Python block is its expected output, in
which `…` matches any text.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from support.docs import contexts
from support.processes import free_port

ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK: Final = re.compile(r"^(?:<!-- test: (?P<options>.*?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_SECONDS: Final = 30.0  # The time limit of a child process and of a block.


@dataclass
class Block:
    """A Python block: its place, its options, its source, and the expected output if the page shows it."""

    page: Path
    line: int
    options: dict[str, str]
    source: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Return the Python blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    blocks: list[Block] = []
    previous_end, above = -1, ""
    for match in _BLOCK.finditer(text):
        if match["kind"] == "python":
            words = (match["options"] or "").split()
            options = {name: value for name, _, value in (word.partition("=") for word in words)}
            blocks.append(Block(page, text.count("\n", 0, match.start()) + 1, options, match["text"]))
        elif match["kind"] == "text" and above == "python" and not text[previous_end : match.start()].strip():
            blocks[-1].output = match["text"]
        previous_end, above = match.end(), match["kind"]
    return blocks


def chains() -> list[list[Block]]:
    """Return the blocks of all pages, each with the blocks that continue it."""
    groups: list[list[Block]] = []
    for page in PAGES:
        for block in blocks_of(page):
            if "continues" not in block.options:
                groups.append([block])
                continue
            file = block.options["continues"]
            chain = next(
                chain
                for chain in reversed(groups)
                if chain[0].page == page and (not file or any(one.options.get("file") == file for one in chain))
            )
            chain.append(block)
    return groups


def run_chain(chain: list[Block], folder: Path) -> None:
    """Run the blocks of a chain in a folder. Raises AssertionError if a block fails or prints something else."""
    for name in (block.options["needs"] for block in chain if "needs" in block.options):
        pytest.importorskip(name, reason=f"{name} is not installed")
    namespace: dict[str, Any] = {"__name__": "docs"}
    with _inside(folder):
        for block in chain:
            if "file" in block.options:
                (folder / block.options["file"]).write_text(block.source, encoding="utf-8")
                output = _run_file(block, folder)
            else:
                output = _run_here(block, namespace, folder)
            if block.output is not None:
                assert _matches(block.output, output), f"{block} prints\n{output}\ninstead of\n{block.output}"


def _run_file(block: Block, folder: Path) -> str:
    """Run a program of the page; a server over stdio ends because its input is closed."""
    path = folder / block.options["file"]
    if block.options.get("stop") == "listening":
        return _run_until_listening(block, path)
    if context := block.options.get("context"):
        contexts.FILES[context](folder)
    ended = subprocess.run(
        [sys.executable, str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        cwd=folder,
    )
    assert ended.returncode == 0, f"{block} ended with {ended.returncode}:\n{ended.stderr}"
    return ended.stdout


def _run_until_listening(block: Block, path: Path) -> str:
    """Run a server over HTTP, at a free port instead of 8000, and end it once it accepts a connection."""
    port = free_port()
    assert "port=8000" in block.source
    path.write_text(block.source.replace("port=8000", f"port={port}"), encoding="utf-8")
    with subprocess.Popen([sys.executable, str(path)], stdin=subprocess.DEVNULL, cwd=path.parent) as process:
        deadline = time.monotonic() + _SECONDS
        try:
            while process.poll() is None:
                assert time.monotonic() < deadline, f"{block} does not listen"
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            code = process.wait(_SECONDS)
        finally:
            process.kill()
    assert code in (0, -signal.SIGTERM), f"{block} ended with {code}"
    path.write_text(block.source, encoding="utf-8")
    return ""


def _run_here(block: Block, namespace: dict[str, Any], folder: Path) -> str:
    """Run a block in this process; `await` is allowed at its top level, as in `python -m asyncio`."""
    blank = "\n" * block.line  # Tracebacks then show the line of the page.
    # As a program of its own: without the `__future__` imports of this module.
    source, flags = blank + block.source, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, str(block.page), "exec", flags=flags, dont_inherit=True)
    output = io.StringIO()
    if "context" not in block.options and not code.co_flags & inspect.CO_COROUTINE:
        with redirect_stdout(output):
            exec(code, namespace)
        return output.getvalue()

    async def run() -> None:
        async with AsyncExitStack() as stack:
            if context := block.options.get("context"):
                await stack.enter_async_context(contexts.CONTEXTS[context](namespace, folder))
            with redirect_stdout(output):
                result = eval(code, namespace)
                if inspect.isawaitable(result):
                    await result

    asyncio.run(asyncio.wait_for(run(), _SECONDS))
    return output.getvalue()


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Make a folder the current one, with `python` in PATH and its modules importable."""
    previous, path, modules = Path.cwd(), os.environ["PATH"], set(sys.modules)
    os.chdir(folder)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        os.environ["PATH"] = path
        os.chdir(previous)
        for name in set(sys.modules) - modules:
            if Path(getattr(sys.modules[name], "__file__", None) or ROOT).is_relative_to(folder):
                del sys.modules[name]


def _matches(expected: str, output: str) -> bool:
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return re.fullmatch(pattern, output.strip(), re.S) is not None
