"""Bridges to upstreams for cells: one process serves all cells of an upstream."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

from support.processes import end_with_session

SERVER = str(Path(__file__).parent / "revision_server.py")


def with_our_packages(*words: str) -> list[str]:
    """Return a command that starts a program with the packages of this process, whatever its parent passes on."""
    path = os.environ.get("PYTHONPATH")
    return [*(["env", f"PYTHONPATH={path}"] if path else []), *words]


def bridge_command(*words: str, options: tuple[str, ...] = ()) -> list[str]:
    """Return the command of a bridge to a command or to a URL."""
    return with_our_packages(sys.executable, "-m", "mcp_products.relay.bridge", *options, "--", *words)


def listening(command: list[str]) -> str:
    """Start a server over HTTP, which ends with the tests of this process, and return its origin."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    end_with_session(process)
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if (match := re.search(r"http://[\w.:]+", line)) is not None:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return match[0]
    raise AssertionError(f"{command} ended:\n{''.join(lines)}")


@cache
def upstream_words(revision: str, transport: str) -> tuple[str, ...]:
    """Return the command or the URL of the app with all features in one revision: over stdio, http or sse."""
    if transport == "stdio":
        return (*with_our_packages(sys.executable, SERVER, revision, "stdio"),)
    return (upstream_origin(revision) + {"http": "/mcp", "sse": "/sse"}[transport],)


@cache
def upstream_origin(revision: str) -> str:
    """Return where the app with all features serves one revision over HTTP."""
    return listening(with_our_packages(sys.executable, SERVER, revision, "http"))


@cache
def bridge_origin(*words: str) -> str:
    """Return where a bridge to a command or to a URL serves over HTTP."""
    return listening(bridge_command(*words, options=("--http", "127.0.0.1:0")))
