"""Clients without sessions before a bridge over HTTP: they share a bounded number of processes, and are not mixed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.clients import connect
from support.feature_cells.bridge.bridge_processes import bridge_command, listening
from support.feature_cells.bridge.raw_clients import a_bridge, running
from support.matrices import long_after
from support.processes import kill, runs

from mcp_generated import RemoteJSONRPCError

NEW, META = "2026-07-28", "io.modelcontextprotocol/"
LIMIT = 3
DIED = re.compile(
    r"the upstream of the bridge failed: .*the server (was ended by signal 9|ended with exit code 15|closed its output)"
)
SERVER = """
import asyncio, os, sys
from mcp_generated import App, Context

app = App("work")
running = set()

@app.tool
def started() -> str:
    return str(sum(number >= 50 for number in running))

@app.tool
async def work(number: int, seconds: float = 0.02) -> str:
    running.add(number)
    await asyncio.sleep(seconds)
    return f"{number}:{os.getpid()}"

@app.tool
async def double(number: int, ctx: Context) -> str:
    answer = await ctx.elicit(f"What is {number}?", int)
    return f"{number}:{answer.data}:{os.getpid()}"

with open(sys.argv[1], "a") as file:
    print(os.getpid(), file=file)
app.run(revisions=["2025-06-18"])
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the id of each process of the server that has started."""
    return tmp_path_factory.mktemp("bridge") / "started"


@pytest.fixture(scope="module")
def url(started: Path) -> str:
    """Return the endpoint of a bridge to a server with sessions."""
    options = ("--http", "127.0.0.1:0", "--connections", str(LIMIT))
    return listening(bridge_command(sys.executable, "-c", SERVER, str(started), options=options)) + "/mcp"


class Clients:
    """Requests of any number of clients, with capabilities of their own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.web = httpx2.AsyncClient(timeout=20, limits=httpx2.Limits(max_connections=None))

    async def call(self, name: str, number: int | None, capabilities: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Return the response of a tool."""
        meta = {f"{META}protocolVersion": NEW, f"{META}clientCapabilities": capabilities}
        arguments = {} if number is None else {"number": number, **more.pop("arguments", {})}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                   "params": {"name": name, "arguments": arguments, "_meta": meta, **more}}  # fmt: skip
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": NEW}
        headers |= {"mcp-method": "tools/call", "mcp-name": name}
        response = await self.web.post(self._url, json=message, headers=headers)
        return response.json()  # type: ignore[no-any-return]

    async def double(self, number: int) -> list[str]:
        """Return what the tool answers to a client that answers its question with twice the number."""
        first = (await self.call("double", number, {"elicitation": {}}))["result"]
        ((key, request),) = first["inputRequests"].items()
        assert request["params"]["message"] == f"What is {number}?"
        answers = {key: {"action": "accept", "content": {"value": 2 * number}}}
        more = {"requestState": first["requestState"], "inputResponses": answers}
        return words(await self.call("double", number, {"elicitation": {}}, **more))


def words(response: dict[str, Any]) -> list[str]:
    """Return what a tool answered, at its colons."""
    text: str = response["result"]["content"][0]["text"]
    return text.split(":")


def alive(started: Path) -> int:
    """Return how many processes of the server run."""
    return sum(runs(int(pid)) for pid in started.read_text(encoding="utf-8").split())


@pytest.mark.deadline(30)
async def test_fifty_clients_share_processes_whatever_capabilities_they_have(url: str, started: Path) -> None:
    clients = Clients(url)
    async with clients.web, asyncio.timeout(20):
        same = await asyncio.gather(*(clients.call("work", number, {}) for number in range(50)))
        assert [words(answer)[0] for answer in same] == [str(number) for number in range(50)]
        assert len({words(answer)[1] for answer in same}) == 1
        doubled = await asyncio.gather(*map(clients.double, range(9)))
        assert [(number, twice) for number, twice, _ in doubled] == [(str(n), str(2 * n)) for n in range(9)]
        assert len({pid for _, _, pid in doubled}) <= LIMIT
        kinds: list[dict[str, Any]] = [{"experimental": {f"x{number}": {}}} for number in range(2)]
        others = await asyncio.gather(*(clients.call("work", number, kind) for number, kind in enumerate(kinds)))
        assert [words(answer)[0] for answer in others] == [str(number) for number in range(len(kinds))]
        assert alive(started) <= LIMIT


async def test_a_killed_process_fails_its_requests_at_once_and_the_next_one_works(url: str) -> None:
    clients = Clients(url)
    async with clients.web:
        pid = words(await clients.call("work", 0, {}))[1]
        calls = [clients.call("work", number, {}, arguments={"seconds": 60}) for number in range(50, 100)]
        tasks = [asyncio.create_task(call) for call in calls]
        while int((await clients.call("started", None, {}))["result"]["content"][0]["text"]) < 50:
            await asyncio.sleep(0.05)
        kill(int(pid))
        async with asyncio.timeout(5):
            errors = [answer["error"]["message"] for answer in await asyncio.gather(*tasks)]
        for error in errors:
            assert DIED.search(error), error
        assert words(await clients.call("work", 0, {}))[1] != pid


async def test_a_process_that_may_still_work_for_a_client_that_has_left_asks_no_other_one(started: Path) -> None:
    options = ("--http", "127.0.0.1:0", "--connections", "1")
    url = listening(bridge_command(sys.executable, "-c", SERVER, str(started), options=options)) + "/mcp"
    clients = Clients(url)
    async with clients.web:
        pid, again = (await clients.double(7))[2], (await clients.double(8))[2]
        cancelled = asyncio.create_task(clients.call("work", 1, {"elicitation": {}}, arguments={"seconds": 30}))
        await asyncio.sleep(0.3)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        number, twice, other = await clients.double(9)
    assert again == pid and (number, twice) == ("9", "18") and other != pid


async def test_a_client_that_falls_back_after_a_failed_discovery_gets_the_reason() -> None:
    async with running(a_bridge("2025-11-25", "--fail", is_single=True)) as connect_raw:
        client = await connect_raw()
        meta = {f"{META}protocolVersion": NEW, f"{META}clientCapabilities": {}}
        failed = json.loads(await client.request("server/discover", {"_meta": meta}))["error"]
        assert "exit code 1" in failed["message"]
        assert (await client.initialize("2025-11-25"))["error"] == failed


@pytest.mark.parametrize("revisions", long_after(1, ["all", [NEW], ["2025-06-18"]]), ids=str)
async def test_a_server_that_cannot_start_is_the_error_of_any_client(revisions: Any) -> None:
    command = bridge_command(sys.executable, "-I", "-c", "raise SystemExit(3)")
    with pytest.raises(RemoteJSONRPCError, match="^the upstream of the bridge failed: .*exit code 3"):
        async with connect(command, revisions=revisions):
            pass
