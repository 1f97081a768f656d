"""What the files of examples/deployment/ start serves, restarts and ends as their page describes it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.deployment.deployed_processes import ENDS, Deployed, compose_up
from support.deployment.deployment_files import (
    FOLDER,
    PASSWORD,
    SERVERS,
    container,
    container_environment,
    environments,
    expanded,
    image_command,
    unit,
)
from support.peers import driven, python_peer
from support.stores.balancers import lasting_ports, wait_until_ready

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="proxies and units of systemd need POSIX"),
]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
ACCEPT = {"accept": "application/json, text/event-stream"}
PAUSE = 0.01  # Seconds between two calls of a client: a processor has other things to do.


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    deployed = compose_up(tmp_path_factory.mktemp("compose"), environments()["compose"])
    yield deployed
    deployed.stop()


class Shopper:
    """A client with a session, which repeats no call."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.web = httpx2.AsyncClient(timeout=30)
        self.session: dict[str, str] = {}
        self.calls = 0

    async def post(self, body: dict[str, Any]) -> httpx2.Response:
        return await self.web.post(self.url, json={"jsonrpc": "2.0", **body}, headers={**ACCEPT, **self.session})

    async def open(self) -> None:
        opened = await self.post({"id": 0, "method": "initialize", "params": HELLO})
        self.session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        assert (await self.post({"method": "notifications/initialized"})).status_code == 202

    async def call(self) -> httpx2.Response:
        self.calls += 1
        params = {"name": "price", "arguments": {"article": "spoon"}}
        return await self.post({"id": self.calls, "method": "tools/call", "params": params})

    async def load(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            answer = await self.call()
            assert answer.status_code == 200 and '"result":250' in answer.text, answer.text
            await asyncio.sleep(PAUSE)


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError:
        return 0  # It does not listen.


async def until_status(url: str, expected: int) -> None:
    end = time.monotonic() + ENDS
    while await asyncio.to_thread(status_of, url) != expected:
        assert time.monotonic() < end, f"{url} does not answer {expected}"
        await asyncio.sleep(0.05)


# ---- compose -------------------------------------------------------------------------------------------------------


@pytest.mark.deadline(120)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_an_official_client_uses_the_servers_of_compose_as_one(composed: Deployed, mode: str) -> None:
    seen = driven(
        python_peer("mcp==2.3.0"),
        "deployment/shop_client.py",
        composed.url("nginx", "/mcp").replace("127.0.0.1", "localhost"),
        mode,
    )
    assert seen["prices"] == [{"result": 1999}] * 6 and seen["total"] == {"result": 12199}
    assert seen["progress"] in ([1.0, 2.0, 3.0], [1.0, 2.0])


@pytest.mark.exhaustive
@pytest.mark.deadline(120)
async def test_a_rolling_restart_of_compose_loses_no_call(composed: Deployed) -> None:
    url = composed.url("nginx", "/mcp").replace("127.0.0.1", "localhost")
    shoppers, ended = [Shopper(url) for _ in range(3)], asyncio.Event()
    for shopper in shoppers:
        await shopper.open()
    loads = [asyncio.create_task(shopper.load(ended)) for shopper in shoppers]
    for name in SERVERS:
        assert await asyncio.to_thread(composed.end, name) in (0, -signal.SIGTERM)
        composed.start_server(name, environments()["compose"], image_command(), "redis")
        await until_status(composed.url(name, "/readyz"), 200)
    ended.set()
    await asyncio.gather(*loads)
    assert all(shopper.calls > 3 for shopper in shoppers)


@pytest.mark.deadline(120)
async def test_a_session_goes_on_when_a_server_of_compose_is_killed(composed: Deployed) -> None:
    shopper = Shopper(composed.url("nginx", "/mcp").replace("127.0.0.1", "localhost"))
    await shopper.open()
    assert await asyncio.to_thread(composed.end, SERVERS[0], signal.SIGKILL) == -signal.SIGKILL
    try:
        for _ in range(6):  # Two rounds of nginx: one server refuses connections.
            assert '"result":250' in (await shopper.call()).text
    finally:
        composed.start_server(SERVERS[0], environments()["compose"], image_command(), "redis")
        await until_status(composed.url(SERVERS[0], "/readyz"), 200)


# ---- Kubernetes ----------------------------------------------------------------------------------------------------


@pytest.mark.deadline(120)
async def test_a_pod_is_ready_while_its_redis_answers_with_the_password(tmp_path: Path) -> None:
    redis, pod = container("StatefulSet", "shop-redis"), container("Deployment", "shop")
    secret = container_environment("StatefulSet", "shop-redis")
    words = [expanded(word, secret) for word in [*redis["command"], *redis["args"]]]
    deployed = Deployed(tmp_path, ["shop-redis", "pod"])
    ready, alive = (deployed.url("pod", pod[f"{name}Probe"]["httpGet"]["path"]) for name in ("readiness", "liveness"))
    try:
        deployed.start_redis("shop-redis", words)
        deployed.start_server("pod", environments()["kubernetes"], image_command(), "shop-redis")
        await asyncio.to_thread(wait_until_ready, ready)
        shopper = Shopper(deployed.url("pod", "/mcp"))
        shopper.web.headers["host"] = environments()["kubernetes"]["MCP_HOSTS"]
        await shopper.open()
        assert '"result":250' in (await shopper.call()).text
        assert PASSWORD in words
        deployed.end("shop-redis")
        await until_status(ready, 503)
        assert await asyncio.to_thread(status_of, alive) == 200  # A restart of the pod would not help.
        deployed.start_redis("shop-redis", words)
        await until_status(ready, 200)
        assert '"result":250' in (await shopper.call()).text  # The session was on the disk.
    finally:
        deployed.stop()


# ---- systemd -------------------------------------------------------------------------------------------------------


def children(pid: int) -> set[int]:
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the workers are counted in /proc")
@pytest.mark.deadline(120)
async def test_a_reload_by_systemd_replaces_all_workers_and_loses_no_call(tmp_path: Path) -> None:
    (port,) = lasting_ports(1)
    # What a file of `EnvironmentFile=` would set, and the place of the state.
    own = {"MCP_PORT": str(port), "MCP_WORKERS": "2", "MCP_STORE": f"sqlite:///{tmp_path}/store.db"}
    (command,), (reload,) = unit("ExecStart"), unit("ExecReload")
    program = re.sub(r"^\S+ /opt/mcp/", f"{sys.executable} {FOLDER}/", command).split()
    server = subprocess.Popen(program, env={**os.environ, **environments()["systemd"], **own})
    try:
        await asyncio.to_thread(wait_until_ready, f"http://127.0.0.1:{port}/readyz")
        while len(before := children(server.pid)) < 2:
            await asyncio.sleep(0.05)
        shopper, ended = Shopper(f"http://127.0.0.1:{port}/mcp"), asyncio.Event()
        shopper.web.headers["host"] = "mcp.example.com"
        await shopper.open()
        load = asyncio.create_task(shopper.load(ended))
        subprocess.run(reload.replace("$MAINPID", str(server.pid)).split(), check=True)
        end = time.monotonic() + ENDS
        while children(server.pid) & before or len(children(server.pid)) != 2:
            assert time.monotonic() < end and not load.done(), "the workers were not replaced"
            await asyncio.sleep(0.05)
        ended.set()
        await load
        await shopper.web.aclose()
        assert shopper.calls > 3
    finally:
        server.terminate()  # As KillMode=mixed: only the first process.
        assert await asyncio.to_thread(server.wait, ENDS) in (0, -signal.SIGTERM)
