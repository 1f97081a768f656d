"""A call that runs when its connection or its server begins to end is answered: by a server, a bridge and a gateway."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.http.asgi_client import Answer, Web

from mcp_generated import App, Gateway
from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.upstream.target import Target
from mcp_runtime.transports.http_server.app import MCPASGIApp

KINDS = pytest.mark.parametrize("kind", ["server", "bridge", "gateway"])
BOTH = among([HANDSHAKE[-1], *STATELESS])
# Its tool says in a folder that it has begun, and ends when the folder says that it may.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from mcp_generated import App

app, folder = App("gated"), Path(sys.argv[1])

@app.tool
async def gated(text: str) -> str:
    (folder / f"{text} begun").touch()
    while not (folder / f"{text} ends").exists():
        await asyncio.sleep(0.005)
    return text

if __name__ == "__main__":
    app.run()
"""
GATEWAY = """
import json, sys
from mcp_generated import Gateway
Gateway({"upstreams": {"gated": {"command": sys.argv[1], "args": sys.argv[2:], "prefix": ""}}}).run()
"""


class Gate:
    """A folder in which calls say that they have begun, and are told that they may end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)
        self.command = [sys.executable, str(folder / "program.py"), str(folder)]

    async def begun(self, text: str) -> None:
        async with asyncio.timeout(20):
            while not (self.folder / f"{text} begun").exists():
                await asyncio.sleep(0.005)

    def end(self, text: str) -> None:
        (self.folder / f"{text} ends").touch()

    def application(self, kind: str) -> Any:
        command, *words = self.command
        if kind == "gateway":
            return Gateway({"upstreams": {"gated": {"command": command, "args": words, "prefix": ""}}}).app.asgi()
        if kind == "bridge":
            return MCPASGIApp(Bridge(Target(command=tuple(self.command)), "mcp_generated").services())
        app = App("gated")

        @app.tool
        async def gated(text: str) -> str:
            (self.folder / f"{text} begun").touch()
            while not (self.folder / f"{text} ends").exists():
                await asyncio.sleep(0.005)
            return text

        return app.asgi()

    def over_stdio(self, kind: str) -> list[str]:
        relays = {"bridge": ["-m", "mcp_products.relay.bridge", "--"], "gateway": ["-c", GATEWAY]}
        return [sys.executable, *relays[kind], *self.command] if kind in relays else self.command


def call(rev: Rev, text: str) -> dict[str, Any]:
    return rev.request(text, "tools/call", {"name": "gated", "arguments": {"text": text}})


async def running(app: Any, rev: Rev, gate: Gate) -> Answer:
    """Return a call that runs, after one that has opened what is shared."""
    web = Web(app, rev)
    if not rev.stateless:
        await web.open()
    gate.end("first")
    assert b'"first"' in (await web.answered(body=call(rev, "first"))).content
    answer = web.request(body=call(rev, "second"))
    await gate.begun("second")
    return answer


@BOTH
@KINDS
async def test_a_worker_that_leaves_answers_the_calls_that_run(kind: str, rev: Rev, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    app = gate.application(kind)
    answer = await running(app, rev, gate)
    app.hand_over()
    await asyncio.sleep(0.02)  # What ends with the subscriptions has ended.
    gate.end("second")
    assert b'"text":"second"' in (await answer.whole()).content
    await app.close()


@among(STATELESS)
@KINDS
async def test_a_server_that_closes_answers_the_calls_that_end_soon(kind: str, rev: Rev, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    app = gate.application(kind)
    answer = await running(app, rev, gate)
    closing = asyncio.create_task(app.close())
    await asyncio.sleep(0.02)
    gate.end("second")
    assert b'"text":"second"' in (await answer.whole()).content
    await closing


@pytest.mark.long
@BOTH
@KINDS
async def test_the_last_call_before_the_end_of_the_input_is_answered(kind: str, rev: Rev, tmp_path: Path) -> None:
    """As in `printf … | server`: the client has said all, and waits for the answers."""
    gate, pipe = Gate(tmp_path), asyncio.subprocess.PIPE
    hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    opening = [rev.request("hello", "initialize", hello), {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    process = await asyncio.create_subprocess_exec(*gate.over_stdio(kind), stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    for message in [*([] if rev.stateless else opening), call(rev, "last")]:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    await gate.begun("last")
    process.stdin.close()
    await asyncio.sleep(0.1)  # The process has read the end.
    gate.end("last")
    output, errors = await process.communicate()
    answers = [json.loads(line) for line in output.splitlines()]
    assert answers[-1]["id"] == "last" and "result" in answers[-1], answers[-1]
    assert errors == b"" and process.returncode == 0
