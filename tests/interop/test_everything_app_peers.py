"""The official clients, in Python and TypeScript, use the one file of handlers, examples/everything/app.py, in each
revision that they speak, over stdio, HTTP and a proxy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.cli.commands import INSTALLED
from support.endpoints import ALL_REVISIONS
from support.everything import APP, check_official_client, origin
from support.peers import driven, node_peer, python_peer
from support.project import PEER_DRIVERS

pytestmark = pytest.mark.long

PROXY = str(PEER_DRIVERS.parent / "servers" / "proxy.py")


def target(transport: str, revision: str) -> list[str]:
    if transport == "stdio":
        return [sys.executable, APP, "stdio"]
    if transport == "proxy":
        path = f"PYTHONPATH={INSTALLED['PYTHONPATH']}"  # The official clients pass no such variable to a child.
        return ["env", path, sys.executable, PROXY, sys.executable, APP, "stdio"]
    return [origin() + ("/mcp" if revision >= "2025-03-26" else "/sse")]


@pytest.mark.parametrize("transport", ["stdio", "http", "proxy"])
@pytest.mark.parametrize(
    ("sdk", "version"),
    [("mcp==1.30.0", rev.id) for rev in ALL_REVISIONS if not rev.stateless]
    + [("mcp==2.3.0", rev.id) for rev in ALL_REVISIONS],
)
@pytest.mark.edges
def test_the_official_python_client_uses_it(sdk: str, version: str, transport: str) -> None:
    check_official_client(driven(python_peer(sdk), "python_one.py", version, *target(transport, version)), version)


@pytest.mark.parametrize("transport", ["stdio", "http", "proxy"])
@pytest.mark.parametrize(
    ("package", "negotiation", "version"),
    [
        ("@modelcontextprotocol/sdk@1.32.2", "usual", "2025-11-25"),
        ("@modelcontextprotocol/client@2.4.0", "usual", "2025-11-25"),
        ("@modelcontextprotocol/client@2.4.0", "auto", "2026-07-28"),
    ],
)
@pytest.mark.edges
def test_the_official_typescript_client_uses_it(package: str, negotiation: str, version: str, transport: str) -> None:
    folder = node_peer(package)
    driver = str(PEER_DRIVERS / "typescript_one.mjs")
    command = ["node", driver, str(folder), negotiation, *target(transport, version)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-4000:]
    check_official_client(json.loads(done.stdout), version)
