"""`run("http", workers=N)`: real processes that share a store, replaced and killed under load."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.peers import driven, python_peer
from support.stores.homes import SHARED, place_of
from support.stores.worker_server import BURST

from mcp_generated import Client
from mcp_runtime.http.sse import SSEDecoder

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX"),
]
PROGRAM = Path(__file__).parents[2] / "support" / "stores" / "worker_server.py"
ACCEPT = {"accept": "application/json, text/event-stream", "connection": "close"}
HELLO = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "raw", "version": "1"}}


@pytest.fixture(params=["memory", *SHARED])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory" if request.param == "memory" else str(place_of(request.param, tmp_path))


@dataclass
class Endpoint:
    """A server of several workers, and a client with a connection for each request."""

    process: subprocess.Popen[str]
    url: str
    web: httpx2.AsyncClient
    session: dict[str, str]
    last: int = 0

    async def post(self, body: dict[str, Any]) -> httpx2.Response:
        return await self.web.post(self.url, json={"jsonrpc": "2.0", **body}, headers={**ACCEPT, **self.session})

    async def open(self, capabilities: dict[str, Any]) -> None:
        self.session = {}
        params = {**HELLO, "capabilities": capabilities}
        opened = await self.post({"id": 0, "method": "initialize", "params": params})
        self.session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        assert (await self.post({"method": "notifications/initialized"})).status_code == 202

    def request(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.last += 1
        meta = {"progressToken": self.last}
        return {
            "id": self.last,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": meta},
        }

    async def call(self, tool: str, **arguments: Any) -> str:
        """Return the text of a tool's result; a call whose connection was refused is sent again."""
        body = self.request(tool, **arguments)
        while True:
            try:
                answer = await self.post(body)
                break
            except httpx2.ConnectError:
                await asyncio.sleep(0.01)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["result"]["content"][0]["text"]
        return text

    async def pids(self, count: int) -> set[int]:
        """Call until so many workers have answered."""
        seen: set[int] = set()
        while len(seen) < count:
            seen |= {int(text) for text in await asyncio.gather(*(self.call("who") for _ in range(8)))}
        return seen


@asynccontextmanager
async def endpoint(store: str, workers: int = 2) -> AsyncIterator[Endpoint]:
    command = [sys.executable, str(PROGRAM), store, str(workers)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = await asyncio.to_thread(process.stderr.readline)
        match = re.fullmatch(r"listening at (\S+)\n", line)
        assert match is not None, line
        asyncio.get_running_loop().run_in_executor(None, process.stderr.read)
        async with httpx2.AsyncClient(timeout=30) as web:
            served = Endpoint(process, match[1], web, {})
            await served.open({})
            yield served
    finally:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == -signal.SIGTERM


def is_running(pid: int) -> bool:
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.edges("sqlite")
@pytest.mark.deadline(60)
async def test_workers_share_sessions_and_end_with_their_supervisor(store: str) -> None:
    async with endpoint(store, 3) as served:
        pids = await served.pids(3)
        answer = await served.web.get(served.url.replace("/mcp", "/readyz"))
        assert (answer.status_code, served.process.pid in pids) == (200, False)
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.edges("sqlite")
@pytest.mark.deadline(60)
async def test_workers_end_when_their_supervisor_is_killed(store: str) -> None:
    pids: set[int] = set()
    with suppress(AssertionError):
        async with endpoint(store) as served:
            pids = await served.pids(2)
            served.process.kill()
    while any(is_running(pid) for pid in pids):
        await asyncio.sleep(0.05)
    assert len(pids) == 2


ALONE = """
import sys
from mcp_generated import App

App("alone").run("http", port=0, store=sys.argv[1], uvicorn={"timeout_graceful_shutdown": 60})
"""


@pytest.mark.deadline(60)
async def test_a_process_with_a_store_ends_although_its_clients_come_back(tmp_path: Path) -> None:
    """They find no other process at its address, and listen to it again while it still accepts."""
    command = [sys.executable, "-c", ALONE, f"sqlite:///{tmp_path}/store.db"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = (await asyncio.to_thread(process.stderr.readline)).removeprefix("listening at ").strip()
            async with Client(url, revisions=["2025-11-25"]) as client:
                assert await client.list_tools() == []
                process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(process.wait, 30) == -signal.SIGTERM
        finally:
            process.kill()


@pytest.mark.edges
@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", ["uvicorn", "hypercorn"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGKILL", None)])
async def test_the_store_that_workers_have_without_one_ends_with_them(
    number: signal.Signals, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec(server) is None:
        pytest.skip(f"{server} is not installed")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("SERVER", server)
    pids, folders = set[int](), list[Path]()
    with suppress(AssertionError):  # That of the exit code.
        async with endpoint("memory", 3) as served:
            pids, folders = await served.pids(3), [*tmp_path.iterdir()]
            served.process.send_signal(number)
            await asyncio.to_thread(served.process.wait, 20)
    while any(is_running(pid) for pid in pids):
        await asyncio.sleep(0.05)
    assert (len(pids), len(folders), [*tmp_path.iterdir()]) == (3, 1, [])


@pytest.mark.deadline(60)
async def test_each_worker_counts_for_itself_what_a_client_may_do() -> None:
    """So a client may do as many times as much as there are workers, and no more."""
    async with endpoint("memory", 2) as served:
        await served.pids(2)
        refused: list[bool] = []
        for _ in range(5):
            await served.pids(2)  # Both accept connections at this time.
            requests = [served.post({"id": id, "method": "prompts/list"}) for id in range(1000, 1012)]
            answers = await asyncio.gather(*requests)
            refused += ["error" in answer.json() for answer in answers]
            assert [
                (a.headers, a.text) for a in answers if "error" in a.json() and "retry-after" not in a.headers
            ] == []
        assert BURST <= refused.count(False) <= 2 * BURST


@pytest.mark.edges("memory")
@pytest.mark.deadline(60)
async def test_answers_of_the_client_find_the_worker_that_waits(store: str) -> None:
    async with endpoint(store) as served:
        await served.open({"elicitation": {}})
        answered_at: set[str] = set()
        for number in range(200):
            if number >= 12 and len(answered_at) == 2:
                break
            headers = {**ACCEPT, **served.session, "connection": "close"}  # The next one may get to the other worker.
            body = {"jsonrpc": "2.0", **served.request("order")}
            async with served.web.stream("POST", served.url, json=body, headers=headers) as answer:
                messages = []
                decoder = SSEDecoder()
                async for part in answer.aiter_bytes():
                    for event in decoder.feed(part):
                        if event.data and "method" in (message := json.loads(event.data)):
                            result = {"action": "accept", "content": {"value": "blue"}}
                            assert (await served.post({"id": message["id"], "result": result})).status_code == 202
                        elif event.data:
                            messages.append(message)
            [response] = messages
            action, colour, pid = response["result"]["content"][0]["text"].split()
            assert (action, colour) == ("accept", "blue")
            answered_at.add(pid)
        assert len(answered_at) == 2


@pytest.mark.edges("redis")
@pytest.mark.deadline(120)
async def test_no_call_is_lost_while_workers_are_replaced(store: str) -> None:
    async with endpoint(store) as served:
        before, results = await served.pids(2), list[str]()
        done = asyncio.Event()

        async def load() -> None:
            while not done.is_set():
                results.append(await served.call("who"))

        tasks = [asyncio.create_task(load()) for _ in range(4)]
        served.process.send_signal(signal.SIGHUP)
        while any(is_running(pid) for pid in before) and not any(task.done() for task in tasks):
            await asyncio.sleep(0.05)
        done.set()
        await asyncio.gather(*tasks)
        after = await served.pids(2)
        assert before.isdisjoint(after) and len(results) > 20


@pytest.mark.edges("redis")
@pytest.mark.deadline(120)
async def test_a_session_goes_on_when_a_worker_is_killed(store: str) -> None:
    async with endpoint(store) as served:
        pids = await served.pids(2)
        os.kill(min(pids), signal.SIGKILL)
        after: set[int] = set()
        while len(after - pids) < 1:
            with suppress(httpx2.TransportError):
                after.add(int(await served.call("who")))
        assert min(pids) not in after


@pytest.mark.edges("redis-auto")
@pytest.mark.deadline(120)
@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_official_client_uses_several_workers_as_one(store: str, mode: str, version: str) -> None:
    async with endpoint(store) as served:
        seen = await asyncio.to_thread(
            driven, python_peer("mcp==2.3.0"), "python_workers.py", served.url, mode, limit=90.0
        )
    assert seen == {
        "version": version,
        "workers": 2,
        "ordered": ["accept blue"] * 16,
        "progress": [float(step) for step in range(1, 21)],
    }
