"""Workers with repeatable tasks, and a client without a connection of its own: any worker gets any request."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.endpoints import STATELESS
from support.stores.homes import place_of

PROGRAM = Path(__file__).with_name("repeatable_program.py")
REV = STATELESS[-1]
CAPABILITIES = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
ENDED = ("completed", "failed", "cancelled")


class RepeatableServer:
    """A server of several workers, and what their functions have written."""

    def __init__(self, process: subprocess.Popen[str], url: str, store: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.store = store
        self.log = log

    async def sent(self, method: str, **params: Any) -> dict[str, Any]:
        """The result or the error of a request, of whichever worker; a worker that is killed has not answered it."""
        name = params.get("name", params.get("taskId"))
        body = REV.request(1, method, {**params, "_meta": {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}})
        headers = {
            **{"accept": "application/json, text/event-stream", "connection": "close", "mcp-method": method},
            **{"mcp-name": name, "mcp-protocol-version": REV.id, "content-type": "application/json"},
        }
        async with asyncio.timeout(30), httpx2.AsyncClient(timeout=10) as web:
            while True:
                try:
                    answer = (await web.post(self.url, json=body, headers=headers)).json()
                except httpx2.TransportError:
                    await asyncio.sleep(0.05)
                    continue
                result: dict[str, Any] = answer.get("result") or answer["error"]
                return result

    async def started(self, tool: str, /, **arguments: Any) -> str:
        """The id of the task of a call."""
        task = await self.sent("tools/call", name=tool, arguments=arguments)
        id: str = task["taskId"]
        return id

    async def until(self, id: str, *statuses: str) -> dict[str, Any]:
        """The task, once it has one of these statuses."""
        async with asyncio.timeout(40):
            while (task := await self.sent("tasks/get", taskId=id)).get("status") not in statuses:
                await asyncio.sleep(0.03)
        return task

    async def ended(self, id: str) -> tuple[str, str]:
        """The status of a task that has ended, and the text of its result or its error."""
        task = await self.until(id, *ENDED)
        if task["status"] == "completed":
            return task["status"], task["result"]["content"][0]["text"]
        return task["status"], task["error"]["message"] if "error" in task else task["statusMessage"]

    async def noted(self, text: str, count: int = 1) -> list[int]:
        """The processes that have written a line, once there are so many."""
        async with asyncio.timeout(40):
            while len(pids := self.notes(text)) < count:
                await asyncio.sleep(0.02)
        return pids

    def notes(self, text: str) -> list[int]:
        """The processes that have written a line."""
        return [int(pid) for pid in re.findall(rf"^(\d+) {re.escape(text)}$", self.log.read_text(), re.MULTILINE)]


@contextmanager
def repeatable_server(folder: Path, workers: int = 2) -> Iterator[RepeatableServer]:
    """Start workers with a Redis; a test is skipped where there is no Redis or no docket."""
    if find_spec("docket") is None:
        pytest.skip("docket is not installed (pip install pydocket)")
    store, log = str(place_of("redis", folder)), folder / "log"
    log.touch()
    command = [sys.executable, str(PROGRAM), store, str(workers), str(log)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        lines: list[str] = []
        while not (match := re.fullmatch(r"listening at (\S+)\n", line := process.stderr.readline())):
            lines.append(line)
            assert line, "".join(lines)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield RepeatableServer(process, match[1], store, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
