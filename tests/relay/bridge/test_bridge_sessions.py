"""Sessions through a bridge: what passes as it is, what is lost, and how upstreams end, restart and are shared."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from support.feature_cells.bridge.raw_clients import a_bridge, running
from support.processes import kill, runs

from mcp_products.relay.bridge.__main__ import main
from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.bridge.state import ClientCall
from mcp_products.relay.upstream.target import Target, target_of_entry
from mcp_runtime.errors import ConnectionClosedError, LocalError

META = "io.modelcontextprotocol/"


async def test_unknown_methods_and_fields_pass_and_results_are_the_bytes_of_the_upstream() -> None:
    async with running(a_bridge()) as connect:
        client = await connect()
        opened = await client.initialize("2025-11-25")
        assert opened["result"]["capabilities"]["acme"] == {"x": 1}
        response = await client.request("acme/odd", {"deep": {"n": [1.5, None]}})
        received = json.dumps({"deep": {"n": [1.5, None]}}, sort_keys=True)
        assert b'"result":{ "number":1.50e2,  "b":[ ],"a":"\\u00e9" , "received":%s}' % received.encode() in response
        called = json.loads(await client.request("tools/call", {"name": "t", "acme": 1}))
        assert called["result"]["acmeField"] == {"passes": True}
        refused = json.loads(await client.request("acme/none"))
        assert refused["error"] == {"code": -32601, "message": "no such method", "data": {"acme": 1}}
        client.notify("notifications/acme", {"y": [2]})
        await client.call()
        assert {"jsonrpc": "2.0", "method": "notifications/acme/back", "params": {"y": [2]}} in client.notifications


@pytest.mark.parametrize("up", ["2024-11-05", "2025-06-18", "2026-07-28"])
async def test_unknown_methods_pass_between_all_revisions(up: str) -> None:
    async with running(a_bridge(up)) as connect:
        client = await connect()
        assert (await client.initialize("2025-11-25"))["result"]["protocolVersion"] == "2025-11-25"
        answer = json.loads(await client.request("acme/odd", {"deep": 1}))["result"]
        assert (answer["number"], answer["received"]["deep"]) == (150.0, 1)


async def test_a_loss_is_counted_each_time_and_logged_once_for_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    bridge = a_bridge("2025-11-25")
    with caplog.at_level(logging.WARNING, "mcp_runtime.bridge"):
        async with running(bridge) as connect:
            client = await connect()
            await client.initialize("2024-11-05")
            for _ in range(3):
                await client.call()
    counts = bridge.state.losses.counts
    assert set(counts.values()) == {3} and all(kind.startswith("tools/call") for kind in counts)
    assert len([record for record in caplog.records if record.name == "mcp_runtime.bridge"]) == len(counts) > 0


async def test_a_killed_upstream_fails_its_calls_at_once_and_the_next_call_works() -> None:
    async with running(a_bridge()) as connect:
        client = await connect()
        await client.initialize("2025-11-25")
        first = (await client.call())["pid"]
        waiting = asyncio.create_task(client.call(sleep=60))
        await asyncio.sleep(0.05)
        kill(first)
        error = (await waiting)["error"]
        how = "exit code 15" if sys.platform == "win32" else "signal 9"
        assert how in error["message"] and "standard error" not in error["message"]
        assert (await client.call(value=2))["value"] == 2
        assert (await client.call())["pid"] != first


async def test_an_upstream_that_cannot_start_is_an_error_of_the_request_that_needs_it() -> None:
    bridge = a_bridge("2025-11-25", "--fail")
    async with running(bridge) as connect:
        client = await connect()
        for _ in range(3):  # The third waits: the delay grows with the failures.
            error = (await client.initialize("2025-11-25"))["error"]
            assert "the upstream of the bridge failed" in error["message"] and "exit code 1" in error["message"]
            client = await connect()


async def test_an_idle_upstream_ends_and_the_next_call_starts_another() -> None:
    bridge = a_bridge(idle=0.2)
    async with running(bridge) as connect:
        client = await connect()
        await client.initialize("2025-11-25")
        first = (await client.call())["pid"]
        async with asyncio.timeout(20):
            while runs(first) and bridge.state.links:
                await asyncio.sleep(0.05)
        assert (await client.call())["pid"] != first


async def check_shared(sessions: int, processes: int) -> None:
    """Check that sessions share processes, and that each gets the responses to its own requests."""
    async with running(a_bridge(shared=processes)) as connect:
        clients = [await connect() for _ in range(sessions)]
        await asyncio.gather(*(client.initialize("2025-11-25") for client in clients))
        pids = set[int]()
        for number in range(2):
            calls = (client.call(value=[place, number]) for place, client in enumerate(clients))
            answers = await asyncio.gather(*calls)
            assert [answer["value"] for answer in answers] == [[place, number] for place in range(sessions)]
            pids |= {answer["pid"] for answer in answers}
        assert len(pids) == processes


async def test_sessions_share_processes_without_a_mix_up() -> None:
    await check_shared(40, 2)


@pytest.mark.long
@pytest.mark.deadline(120)
async def test_a_thousand_sessions_share_ten_processes_without_a_mix_up() -> None:
    await check_shared(1000, 10)


async def test_sessions_have_upstreams_of_their_own() -> None:
    async with running(a_bridge()) as connect:
        first, second = await connect(), await connect()
        for client in (first, second):
            await client.initialize("2025-11-25")
        assert (await first.call())["pid"] != (await second.call())["pid"]


async def test_requests_without_a_session_share_a_process() -> None:
    meta = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}
    async with running(a_bridge(is_single=True)) as connect:
        client = await connect()
        discovered = json.loads(await client.request("server/discover", {"_meta": meta}))["result"]
        assert (
            discovered["supportedVersions"] == ["2026-07-28"]
            and discovered["_meta"][f"{META}serverInfo"]["name"] == "raw"
        )
        answers = [
            json.loads(await client.request("tools/call", {"name": "t", "arguments": {"value": 1}, "_meta": meta}))
            for _ in range(2)
        ]
        texts = [json.loads(answer["result"]["content"][0]["text"]) for answer in answers]
        assert texts[0] == texts[1] and answers[0]["result"]["resultType"] == "complete"
        missing = json.loads(await client.request("tools/call", {"name": "t"}))
        assert missing["error"]["code"] == -32602 or missing["error"]["code"] == -32600


def test_an_entry_of_a_configuration_is_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    entry = {"command": "run", "args": ["-v"], "env": {"KEY": "${SECRET}"}, "cwd": "/tmp"}
    assert target_of_entry(entry) == Target(command=("run", "-v"), env={"KEY": "s"}, cwd="/tmp")
    url = {"url": "https://example.com/mcp", "headers": {"X-Key": "${SECRET}"}}
    assert target_of_entry(url) == Target(url="https://example.com/mcp", headers={"X-Key": "s"})
    for wrong in (Target(), Target(command=("x",), url="http://x"), Target(url="ftp://x")):
        with pytest.raises(LocalError, match="a bridge needs one target|http"):
            Bridge(wrong, "mcp_generated")


@pytest.mark.parametrize(
    ("words", "kind"),
    [(["--header", "A: b", "--", "python"], "URL"), (["--env", "A=b", "http://localhost/mcp"], "command")],
    ids=["header", "env"],
)
def test_options_of_the_other_kind_of_server_are_refused(
    words: list[str], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were ignored."""
    assert main(words) == 1
    assert f"{words[0]} is for a server with a {kind}: leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("entry", ["uvx server", {"command": "x", "env": [1]}, {"url": "http://x", "headers": 5}])
def test_a_wrong_entry_is_refused(entry: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry}}), encoding="utf-8")
    assert main(["--config", str(file), "--server", "one"]) == 1
    assert " an object" in capsys.readouterr().err


async def test_a_session_subscribes_to_as_much_as_at_a_server_and_no_more() -> None:
    """A bridge keeps the URIs itself, to subscribe again at a new upstream."""
    async with running(a_bridge()) as connect:
        client = await connect()
        await client.initialize("2025-11-25")
        uris = [f"note://{letter}" + letter * 300_000 for letter in "abcd"]

        async def is_refused(action: str, uri: str) -> bool:
            answer = json.loads(await client.request(f"resources/{action}", {"uri": uri}))
            return "a client subscribes to at most" in answer.get("error", {}).get("message", "")

        assert [await is_refused("subscribe", uri) for uri in uris] == [False, False, False, True]
        await is_refused("unsubscribe", uris[0])
        assert not await is_refused("subscribe", uris[3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["http://127.0.0.1:9/mcp", "server.py"], "'server.py' is after the URL"),
        (["--login", "--", "server.py"], "--login is for a server with a URL: leave it out"),
        (["--tokens", "tokens.json", "--", "server.py"], "--tokens is for a server with a URL: leave it out"),
        (["--http", ":0", "--path", "mcp", "--", "server.py"], "--path: 'mcp' must begin with a slash"),
    ],
)
def test_what_has_no_meaning_beside_the_target_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


async def test_a_notification_that_nobody_gets_is_no_failure_of_the_bridge(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Bridge(Target(command=(sys.executable, "-c", "")), "mcp_generated")) as connect:
        client = await connect()
        assert "the server ended with exit code 0" in (await client.initialize("2025-11-25"))["error"]["message"]
        client.notify("notifications/roots/list_changed", {})
        await client.request("ping")
    [line] = [record for record in caplog.records if "'notifications/roots/list_changed'" in record.getMessage()]
    assert line.exc_info is None and "is not passed: the upstream of the bridge failed" in line.getMessage()


async def test_progress_for_a_client_that_has_left_is_dropped() -> None:
    class Left:
        async def pass_notification(self, *_: object) -> None:
            raise ConnectionClosedError("the connection is closed")

    channel: Any = None
    left: Any = Left()
    assert await ClientCall(channel, 1, "tools/call").notify(left, "notifications/progress", {}) is None
