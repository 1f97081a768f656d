"""Four servers that share a store, behind nginx and HAProxy without stickiness, as with one server and no proxy."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.endpoints import ALL_REVISIONS
from support.everything import APP, check_official_client
from support.peers import driven, node_peer, python_peer
from support.project import PEER_DRIVERS
from support.stores.balancers import BALANCERS, Balanced, balanced

from mcp_generated import connect
from mcp_runtime.http.sse import SSEDecoder

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="the proxies need POSIX"),
]
MANY = Path(__file__).parents[2] / "support" / "stores" / "worker_server.py"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
ACCEPT = {"accept": "application/json, text/event-stream"}
PAUSE = 0.005  # Seconds between two calls of a client: a processor has other things to do.


def readable_by_all(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder for a proxy whose workers run as another user."""
    folder = tmp_path_factory.mktemp(name)
    folder.chmod(0o777)
    return folder


@pytest.fixture(scope="module", params=BALANCERS)
def everything(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    folder = readable_by_all(tmp_path_factory, request.param)
    with balanced(Path(APP), f"sqlite:///{folder}/store.db", request.param, folder) as running:
        yield running


def url(everything: Balanced, version: str) -> str:
    return everything.origin + ("/mcp" if version >= "2025-03-26" else "/sse")


@pytest.mark.deadline(120)
@pytest.mark.parametrize(
    ("sdk", "version"),
    [("mcp==1.30.0", rev.id) for rev in ALL_REVISIONS if not rev.stateless]
    + [("mcp==2.3.0", rev.id) for rev in ALL_REVISIONS],
)
@pytest.mark.edges("haproxy-mcp==2.3.0")
def test_the_official_python_clients_use_four_servers_as_one(everything: Balanced, sdk: str, version: str) -> None:
    seen = driven(python_peer(sdk), "python_one.py", version, url(everything, version))
    check_official_client(seen, version)


@pytest.mark.deadline(120)
@pytest.mark.parametrize(
    ("package", "negotiation", "version"),
    [
        ("@modelcontextprotocol/sdk@1.32.2", "usual", "2025-11-25"),
        ("@modelcontextprotocol/client@2.4.0", "usual", "2025-11-25"),
        ("@modelcontextprotocol/client@2.4.0", "auto", "2026-07-28"),
    ],
)
def test_the_official_typescript_clients_use_four_servers_as_one(
    everything: Balanced, package: str, negotiation: str, version: str
) -> None:
    driver = str(PEER_DRIVERS / "typescript_one.mjs")
    command = ["node", driver, str(node_peer(package)), negotiation, url(everything, version)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-4000:]
    check_official_client(json.loads(done.stdout), version)


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.deadline(180)
@pytest.mark.parametrize("program", BALANCERS)
async def test_servers_have_the_address_of_each_client_whatever_it_says(
    program: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = readable_by_all(tmp_path_factory, f"address-{program}")
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": HELLO["clientInfo"],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"name": "address", "arguments": {}, "_meta": meta}
    headers = {
        **ACCEPT,
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "address",
        "x-forwarded-for": "198.51.100.7",
    }
    with balanced(MANY, f"sqlite:///{folder}/store.db", program, folder) as running:
        for address in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            transport = httpx2.AsyncHTTPTransport(local_address=address)
            async with httpx2.AsyncClient(transport=transport, timeout=30) as web:
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
                answer = await web.post(f"{running.origin}/mcp", json=body, headers=headers)
            assert answer.json()["result"]["content"][0]["text"] == address


# ---- clients that leave ----------------------------------------------------------------------------------------------


async def until_there(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(PAUSE)


@pytest.mark.deadline(180)
@pytest.mark.parametrize("program", BALANCERS)
async def test_a_quiet_call_ends_when_its_client_has_gone(
    program: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = readable_by_all(tmp_path_factory, f"gone-{program}")
    begun, ended = folder / "begun", folder / "ended"
    with balanced(MANY, f"sqlite:///{folder}/store.db", program, folder) as running:
        async with connect(f"{running.origin}/mcp", revisions=["2026-07-28"]) as client:
            call = asyncio.create_task(client.call_tool("stay", {"begun": str(begun), "ended": str(ended)}))
            await until_there(begun)
            call.cancel()
            async with asyncio.timeout(20):
                await until_there(ended)


# ---- rolling restarts ------------------------------------------------------------------------------------------------


class Caller:
    """A client with a session behind a proxy, which repeats no call."""

    def __init__(self, running: Balanced) -> None:
        self.url = f"{running.origin}/mcp"
        self.web = httpx2.AsyncClient(timeout=30)
        self.session: dict[str, str] = {}
        self.last = 0
        self.pids = set[int]()

    async def post(self, body: dict[str, Any]) -> httpx2.Response:
        return await self.web.post(self.url, json={"jsonrpc": "2.0", **body}, headers={**ACCEPT, **self.session})

    async def open(self) -> None:
        opened = await self.post({"id": 0, "method": "initialize", "params": HELLO})
        self.session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        assert (await self.post({"method": "notifications/initialized"})).status_code == 202

    async def call(self, tool: str, **arguments: Any) -> None:
        """Call a tool; every message of its answer has to arrive."""
        self.last += 1
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": self.last}}
        answer = await self.post({"id": self.last, "method": "tools/call", "params": params})
        assert answer.status_code == 200, answer.text
        if answer.headers["content-type"] == "application/json":
            messages = [answer.json()]
        else:
            events = SSEDecoder().feed(answer.content)
            messages = [json.loads(event.data) for event in events if event.data]
        *progress, response = messages
        assert [item["params"]["progress"] for item in progress] == [*range(1, arguments.get("steps", 0) + 1)]
        self.pids.add(int(response["result"]["content"][0]["text"]))

    async def load(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            await self.call("who")
            await self.call("count", steps=20)
            await asyncio.sleep(PAUSE)


@pytest.mark.edges("haproxy")
@pytest.mark.deadline(180)
@pytest.mark.parametrize("program", BALANCERS)
async def test_no_call_is_lost_in_a_rolling_restart(program: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = readable_by_all(tmp_path_factory, f"restart-{program}")
    with balanced(MANY, f"sqlite:///{folder}/store.db", program, folder) as running:
        callers, ended = [Caller(running) for _ in range(4)], asyncio.Event()
        for caller in callers:
            await caller.open()
        loads = [asyncio.create_task(caller.load(ended)) for caller in callers]
        first = {process.pid for process in running.servers.values()}
        for port in running.ports:
            assert await asyncio.to_thread(running.restart, port) == -15
            assert not any(load.done() for load in loads), [load.exception() for load in loads if load.done()]
        ended.set()
        await asyncio.gather(*loads)
        for caller in callers:
            await caller.web.aclose()
        pids = set.union(*(caller.pids for caller in callers))
        assert pids & first and len(pids) > len(first) + 1
