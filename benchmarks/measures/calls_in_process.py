"""What a call costs in an App, in process: all that is between the bytes of a message and those of its response.

    python benchmarks/measures/calls_in_process.py [--revision 2025-06-18] [--rounds 25]

Calls come one by one, in an iteration of the event loop of their own, or 256 at once. A value is the least CPU time of
a call, of all threads, in the rounds: other programs only make it larger. What remains of a call in readme_server.py
is the system: reading, writing, and waking the other process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from stdio_load import CLIENT_INFO

from mcp_generated import App
from mcp_runtime.bindings.server import services_of
from mcp_runtime.session.serving import serve

CALLS = 256
KINDS = ("async def", "def, thread=False", "def")


class Messages:
    """A transport that delivers messages, and counts what is sent."""

    kind = "memory"
    close_reason = "the measurement is over"

    def __init__(self, first: bytes) -> None:
        self._first = [first]
        self._waiting = list[bytes]()
        self.deliver: Callable[[bytes | None], None] | None = None
        self._is_paused = False
        self.sent = 0

    async def receive(self) -> bytes | None:
        return self._first.pop()

    def set_receiver(self, deliver: Callable[[bytes | None], None]) -> None:
        self.deliver = deliver

    def give(self, messages: list[bytes]) -> None:
        """Deliver messages, the last one first."""
        self._waiting += messages
        self.resume()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        while self._waiting and not self._is_paused and self.deliver is not None:
            self.deliver(self._waiting.pop())

    def send(self, message: bytes, more: bool = False) -> None:
        assert b'"error"' not in message, message
        self.sent += 1

    async def drain(self) -> None: ...

    async def close(self, timeout: float = 0) -> None: ...


def app_of(kind: str) -> App:
    """Return an app with a tool of this kind."""
    app = App("echo")
    if kind == "async def":

        @app.tool()
        async def echo(text: str) -> str:
            return text

    else:

        @app.tool(name="echo", thread=kind == "def")
        def plain(text: str) -> str:
            return text

    return app


def message(method: str, params: dict[str, Any], id: int | None = None) -> bytes:
    """Return a request, or a notification without an id."""
    return json.dumps(
        {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    ).encode()


async def measure(kind: str, revision: str, at_once: bool, rounds: int) -> float:
    """Return the least CPU time of a call in a round, in µs."""
    opening = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT_INFO}
    transport = Messages(message("initialize", opening, 0))
    serving = asyncio.create_task(serve(services_of([app_of(kind)]), transport))
    while not transport.sent:  # noqa: ASYNC110
        await asyncio.sleep(0)
    transport.give([message("notifications/initialized", {})])
    best = float("inf")
    for _ in range(rounds):
        calls = [
            message("tools/call", {"name": "echo", "arguments": {"text": f"call {id}"}}, id)
            for id in range(1, CALLS + 1)
        ]
        transport.sent = 0
        began = time.process_time()
        for number, batch in enumerate([calls] if at_once else [[call] for call in calls], 1):
            transport.give(batch)
            await asyncio.sleep(0)
            while transport.sent < (CALLS if at_once else number):  # noqa: ASYNC110
                await asyncio.sleep(0)
        best = min(best, (time.process_time() - began) / CALLS * 1e6)
    assert transport.deliver is not None
    transport.deliver(None)
    await serving
    return best


async def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revision", default="2025-06-18", help="a protocol version with a handshake")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    gc.freeze()
    print("| tool | one by one, µs CPU | 256 at once, µs CPU |\n|---|---:|---:|")
    for kind in KINDS:
        single, at_once = [await measure(kind, options.revision, it, options.rounds) for it in (False, True)]
        print(f"| {kind} | {single:.1f} | {at_once:.1f} |")


if __name__ == "__main__":
    asyncio.run(main())
