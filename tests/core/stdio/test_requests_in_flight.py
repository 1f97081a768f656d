"""However many requests are in flight, a session reads what follows: pings, cancellations and the end of the input."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among, client_of, server_of, wire_to
from support.raw_process import RawServer

AT_ONCE = 1024  # As runtime/mcp_runtime/session/handlers.py has it.
PROBES = {False: "ping", True: "server/discover"}
ENDS: dict[str, Callable[[RawServer], None]] = {
    "end of input": RawServer.close_input,
    "SIGTERM": lambda server: server.signal(signal.SIGTERM),
    "SIGINT": lambda server: server.signal(signal.SIGINT),
}


def fill(server: RawServer, count: int, tool: str = "hang") -> None:
    for number in range(count):
        server.call(f"call {number}", tool)


def cancel(server: RawServer, id: str) -> None:
    server.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})


@pytest.mark.long
@pytest.mark.parametrize("count", [AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
@among(ALL_REVISIONS)
def test_a_server_answers_a_ping_and_ends_with_its_input(rev: Rev, count: int) -> None:
    with RawServer(rev=rev) as server:
        fill(server, count)
        server.probe("probe")
        assert server.answer()["id"] == "probe"
        server.close_input()
        assert server.ends_within(2.0) == 0


@pytest.mark.long
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("tool", ["hang", "deaf"])
def test_a_server_ends_whatever_its_handlers_do(tool: str, end: str) -> None:
    with RawServer() as server:
        fill(server, 2 * AT_ONCE, tool)
        server.probe("probe")
        assert server.answer()["id"] == "probe"
        ENDS[end](server)
        assert server.ends_within(2.0) in (
            0,
            -signal.SIGTERM,
            -signal.SIGINT,
            128 + signal.SIGTERM,
            128 + signal.SIGINT,
        )


@pytest.mark.long
@among(ALL_REVISIONS)
def test_cancellations_make_room_and_take_waiting_requests_away(rev: Rev) -> None:
    with RawServer(rev=rev) as server:
        fill(server, AT_ONCE)
        for id in ("never", "first", "second"):
            server.call(id, "die" if id == "never" else "large", size=3)
        cancel(server, "never")
        cancel(server, "call 7")
        assert [server.answer()["id"] for _ in range(2)] == ["first", "second"]
        server.probe("probe")
        assert server.answer()["id"] == "probe"


@pytest.mark.long
@among(ALL_REVISIONS)
def test_requests_that_have_waited_begin_only_as_their_answers_are_read(rev: Rev) -> None:
    """200 answers of 256 KiB wait for handlers that are cancelled all at once; nobody reads meanwhile."""
    count, size = 200, 1 << 18
    with RawServer(rev=rev) as server:
        server.call("warm", "large", size=size)
        assert server.answer()["id"] == "warm"
        before = server.peak_memory
        fill(server, AT_ONCE)
        for number in range(count):
            server.call(number, "large", size=size)
        for number in range(count):  # They fit into a pipe: the server may read no more while nobody reads.
            cancel(server, f"call {number}")
        server.probe("probe")
        assert sorted(str(server.answer()["id"]) for _ in range(count + 1)) == sorted(
            [*map(str, range(count)), "probe"]
        )
        assert server.peak_memory - before < 32 * (1 << 20)


@pytest.mark.long
@among(ALL_REVISIONS)
def test_requests_that_wait_when_the_input_ends_are_answered(rev: Rev) -> None:
    with RawServer(rev=rev) as server:
        fill(server, AT_ONCE)
        for number in range(500):
            server.call(number, "echo")
        for number in range(AT_ONCE):
            cancel(server, f"call {number}")
        server.close_input()
        assert sorted(server.answer()["id"] for _ in range(500)) == list(range(500))
        assert server.ends_within(2.0) == 0


@among(ALL_REVISIONS)
async def test_requests_beyond_those_that_may_wait_are_refused_and_the_others_answered(
    rev: Rev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_runtime.session.handlers._MAX_RUNNING", 4)
    monkeypatch.setattr("mcp_runtime.session.handlers._MAX_WAITING", 3)
    go_on = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        await go_on.wait()
        return rev.text(params.name)

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        assert "result" in await wire.request(rev.request("probe", PROBES[rev.stateless]))
        wire.send(*(rev.request(number, "tools/call", {"name": f"{number}"}) for number in range(10)))
        refused = [await wire.receive() for _ in range(3)]
        assert [answer["id"] for answer in refused] == [7, 8, 9]
        assert all("wait for results" in answer["error"]["message"] for answer in refused)
        go_on.set()
        assert sorted([(await wire.receive())["id"] for _ in range(7)]) == list(range(7))
        wire.send(rev.request(7, "tools/call", {"name": "again"}))
        assert (await wire.receive())["result"]["content"][0]["text"] == "again"


@among(ALL_REVISIONS)
async def test_waiting_messages_are_bounded_by_their_bytes(rev: Rev, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_runtime.session.handlers._MAX_RUNNING", 1)
    monkeypatch.setattr("mcp_runtime.session.handlers._MAX_WAITING_BYTES", 10_000)
    go_on = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        await go_on.wait()
        return rev.text(params.name)

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        assert "result" in await wire.request(rev.request("probe", PROBES[rev.stateless]))
        names = ["first", "x" * 4_000, "y" * 4_000, "z" * 4_000, "last"]
        wire.send(*(rev.request(number, "tools/call", {"name": name}) for number, name in enumerate(names)))
        assert (await wire.receive())["error"] and not go_on.is_set()
        go_on.set()
        assert [(await wire.receive())["id"] for _ in range(4)] == [0, 1, 2, 4]


@among(ALL_REVISIONS)
async def test_clients_that_call_more_than_run_at_once_get_all_results(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        await asyncio.sleep(0)
        return rev.text(params.name)

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        results = await asyncio.gather(*(client.call_tool(name=f"{number}") for number in range(2 * AT_ONCE + 7)))
    assert [result.content[0].text for result in results] == [f"{number}" for number in range(2 * AT_ONCE + 7)]
