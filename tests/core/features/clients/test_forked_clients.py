"""A process that was forked uses no connection of its parent: its parent would get the answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.http.sockets import listening
from support.matrices import long_after

from mcp_generated import App

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")

SERVER = """
from mcp_generated import App

app = App("a")


@app.tool
def say(text: str) -> str:
    return text


if __name__ == "__main__":
    app.run()
"""
ASYNC = """
import asyncio, json, os, sys
from mcp_generated import connect
from mcp_generated import ConnectionClosedError, RequestOptions
sys.path.insert(0, sys.argv[1])
target = sys.argv[2]
if target == "memory":
    from server import app as target
elif target == "stdio":
    target = [sys.executable, f"{sys.argv[1]}/server.py"]


async def main():
    async with connect(target, revisions=[sys.argv[3]], timeout=30) as client:
        await client.call_tool("say", {"text": "first"})
        changes = await client.listen().__aenter__()
        reading, writing = os.pipe()
        if not os.fork():
            told = []
            uses = (lambda: client.call_tool("say", {"text": "child"}), client.list_tools, changes.__anext__)
            for use in (*uses, client.close):
                try:
                    await use()
                    told.append("no error")
                except ConnectionClosedError as error:
                    told.append(str(error))
            os.write(writing, json.dumps(told).encode())
            os._exit(0)
        os.close(writing)
        os.wait()
        told = json.loads(os.read(reading, 10000))
        said = [(await client.call_tool("say", {"text": text})).content[0].text for text in ("a", "b")]
        print(json.dumps([told, said]))


asyncio.run(main())
"""
SYNC = """
import json, os, sys
from mcp_generated import ConnectionClosedError
from mcp_generated.v2025_11_25.sync import SyncClient
target = [sys.executable, f"{sys.argv[1]}/server.py"] if sys.argv[2] == "stdio" else sys.argv[2]
with SyncClient.connect(target) as client:
    client.call_tool("say", {"text": "first"})
    reading, writing = os.pipe()
    if not os.fork():
        told = []
        for use in (lambda: client.call_tool("say", {"text": "child"}), client.list_tools, client.close):
            try:
                use()
                told.append("no error")
            except ConnectionClosedError as error:
                told.append(str(error))
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    told = json.loads(os.read(reading, 10000))
    said = [client.call_tool("say", {"text": text}).content[0].text for text in ("a", "b")]
    print(json.dumps([told, said]))
"""


def outcome(program: str, *arguments: str) -> Any:
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def check(told: list[str], said: list[str]) -> None:
    assert said == ["a", "b"]
    assert all("belongs to another process" in text for text in told[:-1])
    assert told[-1] == "no error"  # It closes nothing of the parent.


@pytest.mark.long
@pytest.mark.parametrize("version", long_after(1, ["2026-07-28", "2025-11-25"]))
@pytest.mark.parametrize("target", ["memory", "stdio"])
def test_a_forked_client_is_refused_and_harms_nothing(tmp_path: Path, target: str, version: str) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    check(*outcome(ASYNC, str(tmp_path), target, version))


@pytest.mark.long
def test_a_forked_client_without_an_event_loop_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    check(*outcome(SYNC, str(tmp_path), "stdio"))


@pytest.mark.long
@pytest.mark.parametrize("program", [ASYNC, SYNC], ids=["async", "sync"])
async def test_a_forked_client_over_http_is_refused_and_leaves_the_session(tmp_path: Path, program: str) -> None:
    import asyncio

    app = App("a")
    app.add_tool(lambda text: text, name="say")
    async with listening(app.asgi()) as port:
        arguments = (str(tmp_path), f"http://127.0.0.1:{port}/mcp", "2025-11-25")
        check(*await asyncio.to_thread(outcome, program, *arguments))
