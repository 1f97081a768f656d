"""CPU time from `python server.py` to the first answer, for the server of README and for MCPServer of the official SDK.

    python benchmarks/start.py [--runs 25] [--quick]

The value is the CPU time of the server process, user and system, until the first answer to `tools/call` has been read.
Each comes from a fresh process with compiled bytecode. Candidates alternate, the first round does not count, and tables
show the minimum, which other processes disturb least. The table is also written to benchmarks/results/start.md, except
with --quick.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measures.ports import free_port
from peers import environment, ours, ours_with
from rich.console import Console
from stdio_load import CLIENT_INFO, NEWEST, environ
from stdio_table import markdown, shown

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "start.md"
HANDSHAKE = "2025-11-25"
CALL = {"name": "add", "arguments": {"a": 1, "b": 2}}
ECHO = {"name": "echo", "arguments": {"text": "3"}}
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": NEWEST, f"{PREFIX}clientInfo": CLIENT_INFO, f"{PREFIX}clientCapabilities": {}}
STATELESS = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {**CALL, "_meta": META}}
INITIALIZE = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": NEWEST,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "add",
}
SECONDS = 30  # The time limit of one start.


@dataclass(frozen=True)
class Candidate:
    """A program, what it does until the clock stops, and the candidate and limit of its ratio."""

    title: str
    run: Callable[[], float]
    baseline: str = ""
    target: float | None = None


def conversation(version: str, call: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a client of a protocol version sends until it has called a tool."""
    if version == NEWEST:
        return [{**STATELESS, "params": {**call, "_meta": META}}]
    return [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]


def cpu_milliseconds(process: int) -> float:
    """Return the CPU time of all threads of a process."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e6


def statement(python: Path, code: str) -> float:
    """Return the CPU time of an interpreter that has run this code."""
    command = [python, "-c", f"{code}\nprint(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ()) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"\n"
        cost = cpu_milliseconds(process.pid)
        process.stdin.write(b"\n")
    return cost


def command_of(python: Path, server: str | Sequence[str]) -> list[str | Path]:
    """Return the command of a script in servers/, or of one with its arguments."""
    script, *arguments = (server,) if isinstance(server, str) else server
    return [python, HERE / "servers" / script, *arguments]


def over_stdio(python: Path, server: str | Sequence[str], version: str, call: dict[str, Any] = CALL) -> float:
    """Return the CPU time of a server until it has answered the call of a client of this protocol version."""
    command, pipe = command_of(python, server), subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environ()) as process:
        assert process.stdin is not None and process.stdout is not None
        answer: dict[str, Any] = {}
        for message in conversation(version, call):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline()) if "id" in message else answer
        cost = cpu_milliseconds(process.pid)
        process.kill()
    check(json.dumps(answer))
    return cost


def over_http(python: Path, server: str | Sequence[str]) -> float:
    """Return the CPU time of a server until it has answered the call of a client of the newest version."""
    port = free_port()
    command, quiet = [*command_of(python, server), str(port)], subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environ()) as process:
        try:
            wait_until_listening(port)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
            connection.request("POST", "/mcp", json.dumps(STATELESS), HEADERS)
            answer = connection.getresponse().read().decode()
            cost = cpu_milliseconds(process.pid)
        finally:
            process.kill()
    check(answer)
    return cost


def wait_until_listening(port: int) -> None:
    """Return when a server accepts connections. Raises TimeoutError."""
    for _ in range(SECONDS * 100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise TimeoutError(f"nothing listens on port {port}")


def check(answer: str) -> None:
    """Raise RuntimeError if an answer does not have the sum."""
    if '"text":"3"' not in answer.replace(" ", ""):
        raise RuntimeError(f"a wrong answer: {answer}")


def candidates() -> dict[str, Candidate]:
    """Return all candidates by name."""
    own, own_http = ours(), ours_with("http")
    sdk = environment("mcp", "mcp==2.3.0")
    bare = "import asyncio, pydantic; pydantic.BaseModel"
    app = "from mcp_generated import App\napp = App('x')\n@app.tool()\ndef add(a: int, b: int) -> int: return a + b"
    mine, theirs = "start_ours_server.py", "start_mcpserver_server.py"
    return {
        "python": Candidate("python", lambda: statement(own, "")),
        "bare": Candidate("import pydantic, asyncio", lambda: statement(own, bare)),
        "model": Candidate(
            "the same, and one model", lambda: statement(own, f"{bare}; pydantic.create_model('M', x=(int, 0))")
        ),
        "app": Candidate("import App, and add one tool", lambda: statement(own, app)),
        "mcp": Candidate(f"MCPServer (mcp 2.3.0), stdio, {HANDSHAKE}", lambda: over_stdio(sdk, theirs, HANDSHAKE)),
        "ours": Candidate(f"App, stdio, {HANDSHAKE}", lambda: over_stdio(own, mine, HANDSHAKE), "mcp", 0.30),
        "mcp newest": Candidate(f"MCPServer, stdio, {NEWEST}", lambda: over_stdio(sdk, theirs, NEWEST)),
        "ours newest": Candidate(f"App, stdio, {NEWEST}", lambda: over_stdio(own, mine, NEWEST), "mcp newest", 0.30),
        **examples(own, sdk),
        "mcp http": Candidate(f"MCPServer, HTTP, {NEWEST}", lambda: over_http(sdk, theirs)),
        "ours http": Candidate(f"App, HTTP, {NEWEST}", lambda: over_http(own_http, mine), "mcp http", 0.40),
    }


def examples(own: Path, sdk: Path) -> dict[str, Candidate]:
    """Return the example `echo`, which has a class for each protocol version, and the low-level server of the SDK."""
    mine, theirs, chosen = "../../examples/echo/server.py", "stdio_sdk_server.py", dict[str, Candidate]()
    for version in (HANDSHAKE, NEWEST):
        low = Candidate(f"low-level server (mcp 2.3.0), {version}", partial(over_stdio, sdk, theirs, version, ECHO))
        echo = partial(over_stdio, own, mine, version, ECHO)
        chosen[f"low {version}"] = low
        chosen[f"echo {version}"] = Candidate(f"five classes, {version}", echo, f"low {version}", 0.35)
    return chosen


def compare(runs: int, save: bool) -> None:
    """Measure all candidates, print the table, and write it if `save`."""
    chosen = candidates()
    least = dict.fromkeys(chosen, float("inf"))
    for number in range(runs + 1):
        for name, candidate in chosen.items():
            cost = candidate.run()
            least[name] = min(least[name], cost) if number else least[name]
    table: list[list[str]] = []
    for name, candidate in chosen.items():
        row = [candidate.title, f"{least[name]:.0f}"]
        if candidate.target is not None:
            ratio = least[name] / least[candidate.baseline]
            met = "yes" if ratio <= candidate.target else "no"
            row += [f"{ratio:.2f}", f"≤ {candidate.target:.2f}", met]
        table.append(row + [""] * (5 - len(row)))
    heads = ["until the first answer", "CPU ms", "ratio", "target", "met"]
    caption = f"Minimum of {runs} starts; Python {sys.version.split()[0]}, {os.cpu_count()} processors."
    console = Console(width=max(Console().width, 100))
    console.print(shown("start of a server", heads, table), "", caption)
    if save:
        RESULTS.write_text(f"# Start of a server\n\n{caption}\n\n{markdown(heads, table)}\n")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25, help="starts that count")
    parser.add_argument("--quick", action="store_true", help="a short run to test the program; writes no results")
    options = parser.parse_args()
    compare(2 if options.quick else options.runs, save=not options.quick)


if __name__ == "__main__":
    main()
