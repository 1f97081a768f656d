"""A server and a client without what macOS lacks: no waitid, POLLRDHUP, epoll or /proc, and no events of terminals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from support.project import SERVERS, TESTS
from support.windows.emulated import DEADLINE

EMULATION = TESTS / "support" / "macos" / "emulation"
FAULTY = str(SERVERS / "misbehaving_handlers.py")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
OPENING = [{"id": 1, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized", "params": {}}]


def environment() -> dict[str, str]:
    """Return the environment of a process that runs as on macOS."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(EMULATION), *filter(None, sys.path)])}


def run(source: str, *arguments: str) -> Any:
    """Run the source of a program and return the JSON that it prints. Raises AssertionError if it fails."""
    command = [sys.executable, "-c", textwrap.dedent(source), *arguments]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=DEADLINE)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)


def lines(*messages: dict[str, Any]) -> bytes:
    """Return messages as lines."""
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def test_the_emulation_lacks_what_macos_lacks() -> None:
    source = """
        import json, os, select, sys
        names = [(os, "waitid"), (select, "POLLRDHUP"), (select, "epoll")]
        try:
            processes = open("/proc/self/stat")
        except FileNotFoundError:
            processes = None
        print(json.dumps([sys.platform, [hasattr(*name) for name in names], processes]))
    """
    assert run(source) == ["darwin", [False] * 3, None]


CLIENT = """
    import asyncio, json, os, sys, threading, time
    from mcp_generated import connect
    from mcp_generated.v2025_06_18 import Client
    from mcp_runtime.errors import ConnectionClosedError

    def runs(pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    async def main():
        seen = {"platform": sys.platform, "lines": []}
        path = {"PYTHONPATH": os.environ["PYTHONPATH"]}  # So that the server runs as on macOS too.
        async with Client.stdio(sys.executable, sys.argv[1], env=path, stderr=seen["lines"].append) as client:
            seen["large"] = len((await client.call_tool(name="large", arguments={"size": 3 << 20})).content[0].text)
            child = int((await client.call_tool(name="child")).content[0].text)
            try:
                await client.call_tool(name="last words")
            except ConnectionClosedError as error:
                seen["reason"] = str(error)
        deadline = time.monotonic() + 10
        while runs(child) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        return {**seen, "child": runs(child), "threads": threading.active_count()}

    print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.long
def test_a_client_calls_a_server_and_ends_all_that_it_started() -> None:
    seen = run(CLIENT, FAULTY)
    assert seen["platform"] == "darwin" and seen["large"] == 3 << 20
    assert "exit code 1" in seen["reason"] and seen["lines"] == ["Traceback: the disk is full"]
    assert (seen["child"], seen["threads"]) == (False, 1)


def test_a_server_whose_loop_is_blocked_ends_with_its_client() -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, FAULTY, "2025-11-25"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()) as server:
        assert server.stdin is not None
        server.stdin.write(lines(*OPENING, {"id": 2, "method": "tools/call", "params": {"name": "block"}}))
        server.stdin.close()
        assert server.wait(DEADLINE) == 1


@pytest.mark.long
def test_a_server_reads_a_terminal() -> None:
    """As a person starts it by hand, to see whether it answers."""
    person, terminal = os.openpty()
    try:
        command = [sys.executable, str(SERVERS / "golden.py"), "2025-11-25"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=terminal, stdout=pipe, stderr=pipe, env=environment()) as server:
            assert server.stdout is not None and server.stderr is not None
            call = {"id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "typed"}}}
            os.write(person, lines(*OPENING, call))
            answers = [json.loads(server.stdout.readline()) for _ in range(2)]
            os.write(person, b"\x04")  # Ctrl-D
            assert server.wait(DEADLINE) == 0, server.stderr.read()
    finally:
        os.close(person)
        os.close(terminal)
    assert answers[1]["result"]["content"][0]["text"] == "typed"
