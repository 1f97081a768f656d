"""The servers that benchmarks/fast_paths.py starts without some fast paths, and what it measures of them."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(HERE / "bridge"), str(HERE / "stores")]

from bridge_load import Load as BridgeLoad  # noqa: E402
from bridge_load import over_stdio as bridge_over_stdio  # noqa: E402
from http_load import HttpChild, HttpLoad, calls, idle  # noqa: E402
from start import HANDSHAKE, over_stdio  # noqa: E402
from start import over_http as start_over_http  # noqa: E402
from stdio_load import CLIENT_CPUS, PROCESSORS, REVISION, SERVER_CPUS, Child, Load  # noqa: E402

SERVERS = HERE / "servers"
STDIO = Load(warm_up=1500, sequential=400, pipelined=2500)
HTTP = HttpLoad(begin=400, turns=1, warm_up=16, calls=320, sessions=0, streams=0)
SESSIONS = 3000
BRIDGE = BridgeLoad(warm_up=200, sequential=500, concurrent=2000)

Figures = dict[str, float]
Command = list[str | Path]
Turn = Callable[[], Figures]
Form = Callable[[ExitStack, Path, str], Turn]  # Starts a server without these fast paths.


def server(python: Path, path: str, script: str, *arguments: str) -> Command:
    """Return the command of a server without fast paths."""
    return [python, SERVERS / "without.py", path, SERVERS / script, *arguments]


class Stdio:
    """README's App over stdio."""

    def __init__(self, stack: ExitStack, python: Path, path: str, is_pinned: bool) -> None:
        """Start a server; `is_pinned` gives it a CPU, and the client another one."""
        self._cpus = CLIENT_CPUS if is_pinned else PROCESSORS
        self._kind = "" if is_pinned else ", any CPU"
        command = server(python, path, "plain_def_server.py", "ours")
        cpus = SERVER_CPUS if is_pinned else PROCESSORS
        self._child = stack.enter_context(Child(command, 3600, REVISION, cpus))
        self._child.open()
        self._next = 1
        self._calls(self._child.sequential, STDIO.warm_up)
        self._calls(self._child.pipelined, STDIO.warm_up)

    def _calls(self, send: Callable[[int, int], float], count: int) -> tuple[float, float]:
        cpu = self._child.cpu()
        seconds = send(self._next, count)
        self._next += count
        return seconds / count * 1e6, (self._child.cpu() - cpu) / count * 1e6

    def turn(self) -> Figures:
        """Return what a call takes, in µs."""
        os.sched_setaffinity(0, self._cpus)
        wall, cpu = self._calls(self._child.sequential, STDIO.sequential)
        piped, piped_cpu = self._calls(self._child.pipelined, STDIO.pipelined)
        kind = self._kind
        return {
            f"sequential{kind}": wall,
            f"sequential{kind}, CPU": cpu,
            f"pipelined{kind}": piped,
            f"pipelined{kind}, CPU": piped_cpu,
        }


def over_http(what: str, script: str, arguments: Sequence[str], stack: ExitStack, python: Path, path: str) -> Turn:
    """Return what measures a server over HTTP, on one connection and on sixteen, in a session and without."""
    child = stack.enter_context(HttpChild(server(python, path, script, *arguments), SERVER_CPUS))

    def turn(load: HttpLoad = HTTP) -> Figures:
        figures: Figures = {}
        for connections in (1, 16):
            for kind in ("session", "stateless"):
                taken = asyncio.run(calls(child, load, connections, kind == "stateless"))
                figures[f"{what}, {kind}, {connections}"] = 1e6 / taken["calls"]
                figures[f"{what}, {kind}, {connections}, CPU"] = taken["cpu"]
        return figures

    turn(dataclasses.replace(HTTP, calls=HTTP.begin))
    return turn


def starts(stack: ExitStack, python: Path, path: str) -> Turn:
    """Return what measures the CPU time until the first answer, in ms."""
    command = ("without.py", path, str(SERVERS / "start_ours_server.py"))

    def turn() -> Figures:
        return {
            "start, CPU": over_stdio(python, command, HANDSHAKE),
            "HTTP start, CPU": start_over_http(python, command),
        }

    turn()  # Writes bytecode.
    return turn


def stdio(is_pinned: bool, stack: ExitStack, python: Path, path: str) -> Turn:
    """Return what measures README's App over stdio."""
    return Stdio(stack, python, path, is_pinned).turn


FORMS: Sequence[Form] = (
    starts,
    partial(stdio, True),
    partial(stdio, False),
    partial(over_http, "HTTP, App", "plain_def_server.py", ["ours"]),
    partial(over_http, "HTTP, class", "http_class_server.py", []),
)


# ---- what is neither README's App nor an endpoint over HTTP ----------------------------------------------------------


def memory(stack: ExitStack, python: Path, path: str) -> Turn:
    """Return what measures the memory of idle sessions with and without an open stream, in bytes of one."""

    def turn() -> Figures:
        with HttpChild(server(python, path, "http_class_server.py"), SERVER_CPUS) as child:
            without = asyncio.run(idle(child, dataclasses.replace(HTTP, sessions=SESSIONS, streams=0)))
            before = child.memory("VmRSS")
            asyncio.run(idle(child, dataclasses.replace(HTTP, sessions=SESSIONS, streams=SESSIONS)))
            streams = (child.memory("VmRSS") - before) / SESSIONS * 2**20
            return {"an idle session, bytes": without["session"], "the same with a stream, bytes": streams}

    return turn


def bridge(stack: ExitStack, python: Path, path: str) -> Turn:
    """Return what measures a bridge over stdio to a server over stdio, and to one over HTTP."""
    upstream = [python, HERE / "bridge" / "bare_http_upstream.py", "0"]
    process = stack.enter_context(subprocess.Popen(upstream, stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    assert process.stdout is not None
    own = [python, SERVERS / "without.py", path, "-m", "mcp_products.relay.bridge"]
    ways = {
        "to stdio": [*own, "--", python, SERVERS / "stdio_bare_server.py"],
        "to HTTP": [*own, f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"],
    }

    def turn() -> Figures:
        figures: Figures = {}
        for way, command in ways.items():
            costs = bridge_over_stdio(command, BRIDGE)
            figures[f"a bridge {way}, sequential, CPU"] = costs.cpu
            figures[f"a bridge {way}, 100 in flight, CPU"] = costs.concurrent_cpu
        return figures

    return turn
