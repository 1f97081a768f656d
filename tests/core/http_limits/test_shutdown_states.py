"""SIGTERM and SIGINT end a server over HTTP within two seconds, whatever its handlers and its clients do."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import support.http.blocked_server
from support.endpoints import STATELESS
from support.matrices import long_after
from support.processes import exit_code_within

SERVER = Path(support.http.blocked_server.__file__)
SOON = 2.0
TOOLS = ["hang", "deaf", "block", "executor", "thread", "plain", "large"]
SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


@contextmanager
def server() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server process, and its port."""
    command = [sys.executable, str(SERVER)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None and process.stdout is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("listening at"), line
        yield process, int(line.rpartition(":")[2].partition("/")[0])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        process.stdout.close()


def request(tool: str, length: int | None = None) -> bytes:
    """A call as bytes; with another Content-Length than its own, it is one half of a request."""
    body = json.dumps(STATELESS[-1].request(1, "tools/call", {"name": tool, "arguments": {}})).encode()
    lines = [
        "POST /mcp HTTP/1.1",
        "host: 127.0.0.1",
        "accept: application/json, text/event-stream",
        "content-type: application/json",
        f"mcp-protocol-version: {STATELESS[-1].id}",
        "mcp-method: tools/call",
        f"mcp-name: {tool}",
        f"content-length: {length or len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def wait_until_asleep(pid: int) -> None:
    """Wait until the main thread of a process sleeps. Python handles a signal that arrives just before a blocking call
    of C only when that call has ended, or with the next signal."""
    until = time.monotonic() + SOON
    while Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < until, "the event loop is not blocked"


@pytest.mark.long
@pytest.mark.parametrize("number", long_after(1, [signal.SIGTERM, signal.SIGINT]), ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_server_ends_soon_while_a_tool_runs(tool: str, number: signal.Signals) -> None:
    with server() as (process, port), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request(tool))
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        if tool == "block" and sys.platform == "linux":
            wait_until_asleep(process.pid)
        process.send_signal(number)
        assert exit_code_within(process, SOON) in (0, -number, 128 + number)
        assert process.stderr is not None and "Traceback" not in process.stderr.read()


@SIGNALS
def test_a_server_ends_soon_while_it_waits_for_the_rest_of_a_body(number: signal.Signals) -> None:
    with server() as (process, port), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request("hang", 100_000))
        with socket.create_connection(("127.0.0.1", port)) as other:  # The server has read the head when this began.
            other.sendall(request("hang"))
            assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert exit_code_within(process, SOON) in (0, -number, 128 + number)
        assert process.stderr is not None and "Traceback" not in process.stderr.read()
