"""Progress of a call: it comes with the token of the call, grows, ends with the call, and may give it more time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clock import LoopClock, settle
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INVALID_PARAMS,
    Rev,
    Tap,
    among,
    before,
    clause,
    client_of,
    raw_server,
    server_of,
    since,
    wire_to,
)

from mcp_runtime.errors import RequestTimeoutError
from mcp_runtime.session.requests import Progress, RequestOptions


def progress_of(token: Any, progress: float) -> dict[str, Any]:
    params = {"progressToken": token, "progress": progress}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def steps(rev: Rev, *values: float) -> Any:
    """A server whose tool reports these values."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        for value in values:
            await ctx.progress(value, 3, f"step {value}")
        return rev.text("done")

    return server_of(rev, call_tool=call_tool)


@clause("2024-11-05/progress/04", "2025-03-26/progress/05", "draft/progress/05")
@among(since("2025-03-26"))
async def test_the_callback_of_a_call_gets_its_progress(rev: Rev) -> None:
    seen: list[Progress] = []
    tap = Tap(steps(rev, 1, 2.5))
    async with client_of(rev, tap) as client:
        assert await client.call_tool(name="x", options=RequestOptions(on_progress=seen.append))
    assert seen == [Progress(1, 3, "step 1"), Progress(2.5, 3, "step 2.5")]
    token = tap.sent[-1]["params"]["_meta"]["progressToken"]
    tokens = [m["params"]["progressToken"] for m in tap.received if m.get("method") == "notifications/progress"]
    assert tokens == [token, token]


@among(before("2025-03-26"))
async def test_the_first_revision_has_progress_without_a_message(rev: Rev) -> None:
    seen: list[Progress] = []
    async with client_of(rev, steps(rev, 1)) as client:
        await client.call_tool(name="x", options=RequestOptions(on_progress=seen.append))
    assert seen == [Progress(1, 3, None)]
    assert "message" not in rev.t.ProgressNotificationParams.model_fields


@clause("2024-11-05/progress/04", "2025-03-26/progress/05", "draft/progress/05")
@among(ALL_REVISIONS)
async def test_nothing_is_reported_to_who_did_not_ask_for_it(rev: Rev) -> None:
    tap = Tap(steps(rev, 1, 2))
    async with client_of(rev, tap) as client:
        await client.call_tool(name="x")
    assert not [message for message in tap.received if "method" in message]


@clause("2024-11-05/progress/01", "2025-03-26/progress/01", "draft/progress/01")
@among(ALL_REVISIONS)
async def test_a_token_is_a_string_or_an_integer_and_comes_back_as_it_was(rev: Rev) -> None:
    async with wire_to(steps(rev, 1), opened=rev) as wire:
        for id, token in enumerate(["7", 7, "", "ü"]):
            wire.send(rev.request(id, "tools/call", {"name": "x", "_meta": {"progressToken": token}}))
            progress_token = (await wire.receive())["params"]["progressToken"]
            assert progress_token == token and type(progress_token) is type(token)
            assert "result" in await wire.receive()


@clause("2024-11-05/progress/01", "2025-03-26/progress/01", "draft/progress/01")
@among(ALL_REVISIONS)
async def test_a_token_of_another_type_is_refused_or_at_least_not_used(rev: Rev) -> None:
    """The params of tools/call name no token before 2025-11-25, so that anything may stand there."""
    async with wire_to(steps(rev, 1), opened=rev) as wire:
        for id, token in enumerate([True, 1.5, {}, [1]]):
            answer = await wire.request(rev.request(id, "tools/call", {"name": "x", "_meta": {"progressToken": token}}))
            if rev.id >= "2025-11-25":
                assert answer["error"]["code"] == INVALID_PARAMS
            else:
                assert answer["result"]["content"][0]["text"] == "done"


@clause("2024-11-05/progress/02", "2025-03-26/progress/02", "draft/progress/02")
@among(ALL_REVISIONS)
async def test_calls_that_are_open_together_have_different_tokens(rev: Rev) -> None:
    met = asyncio.Barrier(5)

    async def call_tool(ctx: Any, params: Any) -> Any:
        await met.wait()
        await ctx.progress(params.arguments["n"])
        return rev.text("done")

    seen: dict[int, list[float]] = {n: [] for n in range(5)}
    tap = Tap(server_of(rev, call_tool=call_tool))

    def watching(n: int) -> RequestOptions:
        return RequestOptions(on_progress=lambda progress: seen[n].append(progress.progress))

    async with client_of(rev, tap) as client:
        await asyncio.gather(*(client.call_tool(name="x", arguments={"n": n}, options=watching(n)) for n in range(5)))
    calls = [message for message in tap.sent if message.get("method") == "tools/call"]
    assert len({call["params"]["_meta"]["progressToken"] for call in calls}) == 5
    assert seen == {n: [n] for n in range(5)}


async def calling(rev: Rev, options: RequestOptions) -> tuple[Any, Any, asyncio.Task[Any], Any]:
    """A raw server, a client with an open call of it, the call, and the request as it came."""
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    task = asyncio.create_task(client.call_tool(name="x", options=options))
    return wire, client, task, await wire.receive()


@among(HANDSHAKE)
async def test_progress_that_does_not_grow_is_dropped(rev: Rev) -> None:
    seen: list[float] = []
    wire, client, task, request = await calling(rev, RequestOptions(on_progress=lambda p: seen.append(p.progress)))
    token = request["params"]["_meta"]["progressToken"]
    wire.send(*(progress_of(token, value) for value in (1, 1, 0.5, 2, -3, 2.5)))
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}})
    await task
    assert seen == [1, 2, 2.5]
    await client.close()


@clause("2024-11-05/progress/06", "2025-03-26/progress/07", "draft/progress/07")
@among(HANDSHAKE)
async def test_progress_of_an_unknown_or_answered_call_is_dropped(rev: Rev) -> None:
    seen: list[float] = []
    wire, client, task, request = await calling(rev, RequestOptions(on_progress=lambda p: seen.append(p.progress)))
    token = request["params"]["_meta"]["progressToken"]
    wire.send(progress_of("unknown", 1), progress_of(str(token), 2), progress_of(token, 3))
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}}, progress_of(token, 4))
    await task
    ping = asyncio.create_task(client.ping())
    wire.send({"jsonrpc": "2.0", "id": (await wire.receive())["id"], "result": {}})
    await ping
    assert seen == [3]
    await client.close()


@among(ALL_REVISIONS)
async def test_a_callback_that_fails_ends_nothing(rev: Rev) -> None:
    def failing(progress: Progress) -> None:
        raise ValueError("a bug of the caller")

    async with client_of(rev, steps(rev, 1, 2)) as client:
        assert await client.call_tool(name="x", options=RequestOptions(on_progress=failing))


@among(HANDSHAKE)
async def test_the_client_reports_progress_of_what_the_server_asks(rev: Rev) -> None:
    seen: list[float] = []

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        await ctx.progress(0.5)
        return rev.t.ListRootsResult(roots=[])

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.list_roots(options=RequestOptions(on_progress=lambda progress: seen.append(progress.progress)))
        return rev.text("done")

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        await client.call_tool(name="x")
    assert seen == [0.5]


class Reporting:
    """A tool that reports progress once a second, by the clock of the loop, so many times or for ever."""

    def __init__(self, rev: Rev, reports: int | None) -> None:
        self.server = server_of(rev, call_tool=self.call_tool)
        self._rev = rev
        self._reports = reports
        self._clock = LoopClock()
        self._arrived = asyncio.Event()

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        number = 0
        while self._reports is None or number < self._reports:
            number += 1
            self._arrived.clear()
            await ctx.progress(number)
            await self._arrived.wait()
            self._clock.forward(1)
            await settle()
        return self._rev.text("done")

    def on_progress(self, progress: Progress) -> None:
        self._arrived.set()


@pytest.mark.deadline(600)  # By a clock that is set forward.
@among(ALL_REVISIONS)
async def test_progress_starts_the_timeout_again_only_under_a_ceiling(rev: Rev) -> None:
    tool = Reporting(rev, 10)
    async with client_of(rev, tool.server) as client:
        with pytest.raises(RequestTimeoutError):
            await client.call_tool(name="x", options=RequestOptions(timeout=5, on_progress=tool.on_progress))
        options = RequestOptions(timeout=5, max_timeout=300, on_progress=tool.on_progress)
        assert (await client.call_tool(name="x", options=options)).content[0].text == "done"


@pytest.mark.deadline(600)  # By a clock that is set forward.
@clause("2025-03-26/lifecycle/22", "draft/lifecycle/22")
@among(ALL_REVISIONS)
async def test_a_ceiling_holds_however_much_progress_there_is(rev: Rev) -> None:
    tool = Reporting(rev, None)
    async with client_of(rev, tool.server) as client:
        with pytest.raises(RequestTimeoutError):
            options = RequestOptions(timeout=10, max_timeout=20, on_progress=tool.on_progress)
            await client.call_tool(name="x", options=options)


@clause("2024-11-05/progress/03", "2025-03-26/progress/03", "draft/progress/03")
@among(ALL_REVISIONS)
async def test_progress_that_does_not_grow_is_not_even_sent(rev: Rev) -> None:
    tap = Tap(steps(rev, 1, 1, 0.5, 2))
    async with client_of(rev, tap) as client:
        await client.call_tool(name="x", options=RequestOptions(on_progress=lambda progress: None))
    values = [m["params"]["progress"] for m in tap.received if m.get("method") == "notifications/progress"]
    assert values == [1, 2]


@clause("2024-11-05/progress/05", "2025-03-26/progress/06", "draft/progress/06")
@clause("2024-11-05/progress/08", "2025-03-26/progress/09", "draft/progress/09")
@among(ALL_REVISIONS)
async def test_nothing_is_sent_once_the_call_has_its_answer_or_was_cancelled(rev: Rev) -> None:
    contexts: list[Any] = []
    waiting = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        contexts.append(ctx)
        await ctx.progress(1)
        if params.name == "slow":
            waiting.set()
            await asyncio.Event().wait()
        return rev.text("done")

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        wire.send(rev.request(1, "tools/call", {"name": "x", "_meta": {"progressToken": "t"}}))
        assert [(await wire.receive()).get("method") for _ in range(2)] == ["notifications/progress", None]
        wire.send(rev.request(2, "tools/call", {"name": "slow", "_meta": {"progressToken": "u"}}))
        assert (await wire.receive())["params"]["progressToken"] == "u"
        await waiting.wait()
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        assert (await wire.request(rev.request(3, "nobody/knows")))["error"]
        for ctx in contexts:
            await ctx.progress(2)
        assert (await wire.request(rev.request(4, "nobody/knows")))["error"]
