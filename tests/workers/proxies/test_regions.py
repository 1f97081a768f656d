"""Two regions, each with its store, behind a proxy that sends each session to its region; one of them is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.peers import clean, python_peer
from support.project import PEER_DRIVERS
from support.stores.regions import FILES, Regions, regions

from mcp_generated import HTTPOptions, RequestOptions
from mcp_generated.v2026_07_28 import Client
from mcp_runtime.errors import MCPError

pytestmark = [
    pytest.mark.long,
    pytest.mark.deadline(180),
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have no second loopback address by themselves"),
]
WITH_SESSIONS, WITHOUT = ["2025-11-25"], ["2026-07-28"]
OTHER = {"europe": "america", "america": "europe"}
CLIENTS = 12


def client_of(running: Regions, number: int = 0, versions: list[str] = WITH_SESSIONS, **settings: Any) -> Any:
    """A client; nginx finds the region by what is sent as its token."""
    headers = {"authorization": f"Bearer token-{number}"}
    return connect(running.url, revisions=versions, http=HTTPOptions(headers=headers), **settings)


async def region_of(client: Any) -> str:
    return str((await client.call_tool("where", {})).content[0].text)


@pytest.mark.parametrize("proxy", FILES)
async def test_a_session_stays_in_its_region(proxy: str, tmp_path: Path) -> None:
    with regions(proxy, tmp_path) as running:
        homes: list[str] = []
        for number in range(CLIENTS):
            async with client_of(running, number) as client:
                seen = {await region_of(client) for _ in range(6)}
                assert len(seen) == 1
                homes += seen
        assert {*homes} == {"europe", "america"}


@pytest.mark.parametrize("proxy", FILES)
async def test_clients_go_on_in_the_other_region_and_no_call_runs_twice(proxy: str, tmp_path: Path) -> None:
    with regions(proxy, tmp_path) as running:
        clients: dict[str, Any] = {}
        for number in range(CLIENTS):
            client = await client_of(running, number).__aenter__()
            clients.setdefault(await region_of(client), client)
        assert clients.keys() == OTHER.keys()

        async def kill(progress: Any) -> None:
            running.kill("europe")

        with pytest.raises(MCPError) as raised:
            await clients["europe"].call_tool("wait", {}, options=RequestOptions(on_progress=kill))
        assert "america" not in str(raised.value), "a call that has begun is not sent again"
        # A session that is lost is opened anew in the other region, by the client itself.
        assert await region_of(clients["europe"]) == "america"
        assert await region_of(clients["america"]) == "america", "it has noticed nothing"
        for client in clients.values():
            await client.__aexit__(None, None, None)


def asked_by(running: Regions) -> type[Client]:
    """A client whose user answers when Europe is gone."""

    class Asked(Client):
        async def on_elicit(self, ctx: Any, params: Any) -> Any:
            running.kill("europe")
            return {"action": "accept", "content": {"value": "blue"}}

    return Asked


@pytest.mark.parametrize("shared_keys", [True, False])
async def test_a_request_of_several_rounds_goes_on_in_another_region_if_they_share_keys(
    shared_keys: bool, tmp_path: Path
) -> None:
    with regions("haproxy", tmp_path, shared_keys=shared_keys) as running:
        async with client_of(running, versions=WITHOUT, client=asked_by(running)) as client:
            while await region_of(client) != "america":  # The next request goes to Europe.
                pass
            if shared_keys:
                assert (await client.call_tool("order", {})).content[0].text == "blue in america"
            else:
                with pytest.raises(MCPError, match="no key of this server decrypts the token"):
                    await client.call_tool("order", {})
            # Without sessions there is nothing that a client could lose.
            assert {await region_of(client) for _ in range(4)} == {"america"}


class Official:
    """The official client in a process of its own, which goes on step by step."""

    def __init__(self, url: str, mode: str) -> None:
        driver = str(PEER_DRIVERS / "region_client.py")
        command = [str(python_peer("mcp==2.3.0")), driver, url, mode]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean())

    def seen(self) -> dict[str, str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the client has ended"
        result: dict[str, str] = json.loads(line)
        return result

    def go_on(self) -> dict[str, str]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.seen()


@pytest.mark.parametrize(("mode", "has_session"), [("legacy", True), ("auto", False)])
def test_the_official_client_gets_an_error_for_a_lost_session_and_then_opens_another(
    mode: str, has_session: bool, tmp_path: Path
) -> None:
    with regions("haproxy", tmp_path) as running:
        client = Official(running.url, mode)
        try:
            first = client.seen()["region"]
            running.kill(first)
            second = client.go_on()
            if has_session:
                assert second["text"] == "there is no such session"
            else:
                assert second == {"region": OTHER[first]}
            assert client.go_on() == {"region": OTHER[first]}
            assert client.process.wait(60) == 0
        finally:
            client.process.kill()
            client.process.wait()
