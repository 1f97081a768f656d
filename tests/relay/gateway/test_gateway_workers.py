"""A gateway of several processes over one store: each serves each session, and a reload loses none."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.feature_cells.bridge.bridge_processes import with_our_packages

pytestmark = [
    pytest.mark.long,
    pytest.mark.deadline(120),
    pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX"),
]
SERVER = """
import os
from mcp_generated import App

app = App("files")

@app.tool
def where() -> int:
    return os.getppid()

@app.tool
def other() -> str:
    return "other"

app.run()
"""
HEADERS = {"accept": "application/json, text/event-stream", "connection": "close"}


def rules(**more: Any) -> str:
    """Return the file of a gateway before one server."""
    server = {"command": sys.executable, "args": ["-c", SERVER], **more}
    lines = [f"{key} = {json.dumps(value)}" for key, value in server.items()]
    return "\n".join(["[upstreams.files]", *lines, 'env = { PYTHONPATH = "${PYTHONPATH}" }', ""])


class Sessions:
    """Sessions of a gateway, with a connection for each request."""

    def __init__(self, url: str, web: httpx2.AsyncClient) -> None:
        self.url = url
        self._web = web

    async def post(self, session: dict[str, str], body: dict[str, Any]) -> httpx2.Response:
        """Send a message in a session."""
        return await self._web.post(self.url, json={"jsonrpc": "2.0", **body}, headers={**HEADERS, **session})

    async def open(self) -> dict[str, str]:
        """Open a session, and return the headers of its requests."""
        details = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        opened = await self.post({}, {"id": 0, "method": "initialize", "params": details})
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await self.post(session, {"method": "notifications/initialized"})
        return session

    async def request(self, session: dict[str, str], method: str, **params: Any) -> Any:
        """Return the result of a request."""
        response = await self.post(session, {"id": 1, "method": method, "params": params})
        data = [line[5:] for line in response.text.splitlines() if line.startswith("data:") and line[5:].strip()]
        return json.loads(data[-1] if data else response.text)["result"]

    async def worker(self, session: dict[str, str]) -> int:
        """Return the process of the gateway that serves a call."""
        result = await self.request(session, "tools/call", name="files_where", arguments={})
        return int(result["content"][0]["text"])


def runs(process: int) -> bool:
    """Return True until a process has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@asynccontextmanager
async def gateway(file: Path, *options: str) -> AsyncIterator[tuple[subprocess.Popen[str], Sessions]]:
    """Run a gateway of two workers."""
    words = (sys.executable, "-m", "mcp_codegen", "gateway", str(file), "--http", "127.0.0.1:0", "--workers", "2")
    environment = {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    process = subprocess.Popen(
        with_our_packages(*words, *options), stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        assert process.stderr is not None
        line = await asyncio.to_thread(process.stderr.readline)
        match = re.search(r"http://\S+", line)
        assert match is not None, line
        async with httpx2.AsyncClient(timeout=60) as web:
            yield process, Sessions(match[0], web)
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


async def test_any_worker_serves_any_session_and_a_reload_loses_none(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(rules())
    async with gateway(file, "--store", f"sqlite:///{tmp_path}/store.db") as (process, sessions):
        opened = [await sessions.open() for _ in range(4)]
        workers = dict[str, set[int]]()
        for _ in range(20):  # Which worker accepts a connection, the system decides.
            for session in opened:
                workers.setdefault(session["mcp-session-id"], set()).add(await sessions.worker(session))
            if all(len(seen) == 2 for seen in workers.values()):
                break
        assert all(len(seen) == 2 for seen in workers.values()), "one worker has served a session alone"
        before = set[int]().union(*workers.values())
        file.write_text(rules(deny=["other"]))
        process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while any(map(runs, before)):
                await sessions.worker(opened[0])  # It is served meanwhile.
                await asyncio.sleep(0.1)
        for session in opened:
            listed = await sessions.request(session, "tools/list")
            assert [tool["name"] for tool in listed["tools"]] == ["files_where"], "the session has the new rules"


def test_workers_need_http(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(rules(env={}).replace('env = { PYTHONPATH = "${PYTHONPATH}" }', ""))
    command = with_our_packages(sys.executable, "-m", "mcp_codegen", "gateway", str(file), "--workers", "2")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "pass --http HOST:PORT" in done.stderr
