"""The official clients, in Python and TypeScript, use the one file of handlers, examples/everything/app.py, in each
revision that they speak, over stdio, HTTP and a proxy."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from support.cli.commands import INSTALLED
from support.endpoints import ALL_REVISIONS, INVALID_PARAMS
from support.everything import APP, TOOLS, origin
from support.peers import driven, node_peer, python_peer
from support.project import PEER_DRIVERS

pytestmark = pytest.mark.long

PROXY = str(PEER_DRIVERS.parent / "servers" / "proxy.py")


def check(seen: dict[str, Any], revision: str) -> None:
    """What an official client has to see, in the revision that it speaks."""
    calls = seen["calls"]
    assert seen["tools"][:5] == TOOLS[:5]
    assert calls["echo"]["content"][0]["text"] == "héllo\n\u2028"
    structured = {"count": 2, "sum": 3.5, "maximum": 2.5} if revision >= "2025-06-18" else None
    assert calls["statistics"].get("structuredContent") == structured
    kinds = [content["type"] for content in calls["mixed"]["content"]]
    assert kinds == ["text", "image", "resource", "resource_link" if revision >= "2025-06-18" else "text"]
    assert calls["audio"]["content"][0]["type"] == ("audio" if revision >= "2025-03-26" else "resource")
    assert calls["fail"]["isError"] is True and calls["nonsense"]["error"]["code"] == INVALID_PARAMS
    assert calls["list_roots"]["content"][0]["text"] == "work: file:///work"
    assert calls["sample"]["content"][0]["text"] == "parrot (endTurn): HELLO"
    if revision >= "2025-06-18":
        assert calls["elicit_name"]["content"][0]["text"].startswith("accept: ")
    assert seen["resource"]["contents"][0]["text"] == "This is number 7."
    assert seen["prompt"]["messages"][0]["content"]["text"] == "Describe Rome in a short text."
    assert seen["completion"] == ["Padua", "Paris", "Pau"]
    words = ["step 1", "step 2", "done"] if revision >= "2025-03-26" else [None] * 3
    progress = [[number, 2, word] for number, word in enumerate(words)]
    # The TypeScript client forgets whom progress is for as soon as the answer is there, which follows the last at once.
    assert seen["progress"] in (progress, progress[:2])


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
def test_the_official_python_client_uses_it(sdk: str, version: str, transport: str) -> None:
    check(driven(python_peer(sdk), "python_one.py", version, *target(transport, version)), version)


@pytest.mark.parametrize("transport", ["stdio", "http", "proxy"])
@pytest.mark.parametrize(
    ("package", "negotiation", "version"),
    [
        ("@modelcontextprotocol/sdk@1.32.2", "usual", "2025-11-25"),
        ("@modelcontextprotocol/client@2.4.0", "usual", "2025-11-25"),
        ("@modelcontextprotocol/client@2.4.0", "auto", "2026-07-28"),
    ],
)
def test_the_official_typescript_client_uses_it(package: str, negotiation: str, version: str, transport: str) -> None:
    folder = node_peer(package)
    driver = str(PEER_DRIVERS / "typescript_one.mjs")
    command = ["node", driver, str(folder), negotiation, *target(transport, version)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-4000:]
    check(json.loads(done.stdout), version)
