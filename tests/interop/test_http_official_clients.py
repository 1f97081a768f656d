"""The official clients (Python, TypeScript, command line) with our server of every revision over HTTP."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.http.raw_client import PARSERS, ended, launched
from support.peers import driven, node_peer, python_peer
from support.project import PEER_DRIVERS

pytestmark = pytest.mark.long

TOOLS = ["echo", "steps", "meet", "big", "wait", "change", "status", "raise", "endless"]
FAILURE = -32603
H11, HTTPTOOLS = PARSERS
# Who reads HTTP for us, what is installed, over what, with what offered, and what is agreed then.
TYPESCRIPT = [
    (H11, "@modelcontextprotocol/sdk@1.32.2", "http", "usual", "2025-11-25"),
    (HTTPTOOLS, "@modelcontextprotocol/sdk@1.32.2", "sse", "usual", "2025-11-25"),
    (HTTPTOOLS, "@modelcontextprotocol/client@2.4.0", "http", "usual", "2025-11-25"),
    (H11, "@modelcontextprotocol/client@2.4.0", "http", "auto", "2026-07-28"),
    (H11, "@modelcontextprotocol/client@2.4.0", "sse", "usual", "2025-11-25"),
]


@pytest.fixture
def host(parser: str) -> Iterator[str]:
    """A server of its own, whose counts begin at nothing."""
    server, where = launched(parser)
    yield f"http://{where}"
    ended(server.process)


def check(seen: dict[str, Any], version: str) -> None:
    """What every client has to see."""
    assert (seen["version"], seen["tools"]) == (version, TOOLS)
    assert seen["echo"] == "héllo\n\u2028" and seen["big"] == 3 << 20
    assert seen["steps"] == "steps"
    assert seen["failure"]["code"] == FAILURE and "hunter2" not in seen["failure"]["message"]
    assert seen["status"]["waiting"] == 0 and seen["status"]["cancelled"] == 1


@pytest.mark.edges("h11-@modelcontextprotocol/client@2.4.0-http-auto", "httptools-@modelcontextprotocol/sdk@1.32.2-sse")
@pytest.mark.parametrize(("parser", "requirement", "transport", "negotiation", "version"), TYPESCRIPT)
def test_the_typescript_client_uses_our_server(
    host: str, requirement: str, transport: str, negotiation: str, version: str
) -> None:
    folder = node_peer(requirement)
    driver = str(PEER_DRIVERS / "typescript.mjs")
    url = f"{host}/{'sse' if transport == 'sse' else 'mcp'}"
    command = ["node", driver, str(folder), transport, url, negotiation]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    check(seen, version)
    # Over the older HTTP this client forgets whom progress is for as soon as the answer is there.
    assert seen["progress"] in ([[1, 2, 3]] if transport == "http" else [[1, 2, 3], [1, 2], [1], []])
    assert seen["cancelled"] == "given up" and seen["together"] == [*"abcdefghi"] and seen["server"] == "served"


@pytest.mark.parametrize(
    ("parser", "mode", "version"), [(HTTPTOOLS, "auto", "2026-07-28"), (H11, "legacy", "2025-11-25")]
)
def test_the_newer_python_client_uses_our_server(host: str, mode: str, version: str) -> None:
    seen = driven(python_peer("mcp==2.3.0"), "python_http.py", f"{host}/mcp", mode)
    check(seen, version)
    assert seen["progress"] == [1, 2, 3]
    assert seen["large"] == 3 << 20 and [seen[letter] for letter in "abcdefghi"] == [*"abcdefghi"]
    assert seen.get("heard") == ("ToolsListChanged" if mode == "auto" else None)
