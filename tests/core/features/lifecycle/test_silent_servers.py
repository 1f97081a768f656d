"""Servers over stdio that do not respond to the first request: an old one, a slow one, and one that never responds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.clients import connect

from mcp_generated import RequestOptions
from mcp_runtime.errors import RequestTimeoutError

# Reads the methods of the messages; what it does with them is added. It writes its process id.
_START = """
import json, os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
def answer(id, **fields): print(json.dumps({"jsonrpc": "2.0", "id": id, **fields}), flush=True)
def initialized(request):
    info = {"protocolVersion": REVISION, "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}
    answer(request["id"], result=info)
def discovered(id):
    answer(id, result={"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "capabilities": {"tools": {}},
                       "supportedVersions": ["2026-07-28"]})
first = None
for line in sys.stdin.buffer:
    message = json.loads(line)
    method = message.get("method")
    with open(sys.argv[2], "a") as log:
        print(method, file=log)
"""
# Ignores what precedes the handshake, as the specification allows.
_OLD = """
    if method == "initialize":
        initialized(message)
    elif method == "tools/list":
        answer(message["id"], result={"tools": []})
"""
# Ignores it at first, and responds to it when `initialize` has been sent.
_LATE = """
    if method == "server/discover":
        first = message["id"]
    elif method == "initialize":
        answer(first, error={"code": -32601, "message": "no method"})
        initialized(message)
    elif method == "tools/list":
        answer(message["id"], result={"tools": []})
"""
# A stateless server that is slow to start: it responds to the first request after the client has sent `initialize`.
_SLOW = """
    if method == "server/discover" and first is None:
        first = message["id"]
    elif method == "server/discover":
        discovered(message["id"])
    elif method == "initialize":
        discovered(first)
        answer(message["id"], error={"code": -32601, "message": "no method"})
    elif method == "tools/list":
        answer(message["id"], result={"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": []})
"""
OPTIONS = RequestOptions(timeout=2)


def command(tmp_path: Path, rest: str, version: str) -> list[str]:
    program = tmp_path / "server.py"
    program.write_text(_START.replace("REVISION", repr(version)) + rest)
    return [sys.executable, str(program), str(tmp_path / "pid"), str(tmp_path / "methods")]


def methods(tmp_path: Path) -> list[str]:
    """The methods of the requests that the server has received."""
    lines = (tmp_path / "methods").read_text().splitlines()
    return [line for line in lines if not line.startswith("notifications/")]


@pytest.mark.parametrize("rest", [_OLD, _LATE], ids=["silent", "late"])
@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25"])
async def test_a_client_initializes_an_old_server_that_ignores_the_first_request(
    tmp_path: Path, rest: str, version: str
) -> None:
    async with connect(command(tmp_path, rest, version), connect_options=OPTIONS) as client:
        assert client.server.name == "old"
        assert (await client.list_tools()).tools == []
    assert methods(tmp_path) == ["server/discover", "initialize", "tools/list"]


async def test_a_stateless_server_that_is_slow_to_start_is_served_as_one(tmp_path: Path) -> None:
    async with connect(command(tmp_path, _SLOW, ""), connect_options=OPTIONS) as client:
        assert (await client.list_tools()).tools == []
    assert methods(tmp_path) == ["server/discover", "initialize", "server/discover", "tools/list"]


async def test_a_server_that_never_responds_fails_the_opening_and_leaves_no_process(tmp_path: Path) -> None:
    client = connect(command(tmp_path, "\n    pass\n", ""), connect_options=RequestOptions(timeout=1))
    with pytest.raises(RequestTimeoutError):
        async with client:
            pass
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


async def test_a_client_of_stateless_revisions_alone_waits_for_its_whole_timeout(tmp_path: Path) -> None:
    client = connect(
        command(tmp_path, _OLD, "2025-11-25"), revisions=["2026-07-28"], connect_options=RequestOptions(timeout=1)
    )
    with pytest.raises(RequestTimeoutError, match="server/discover"):
        async with client:
            pass
