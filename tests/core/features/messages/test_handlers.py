"""Handlers: coroutines or plain functions, what they know of their request, what they share, and what happens if they
fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INTERNAL_ERROR,
    Rev,
    among,
    clause,
    client_of,
    server_of,
    wire_to,
)

from mcp_runtime.aio.threads import WorkerThreads
from mcp_runtime.errors import InvalidResponseError, JSONRPCError, RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions


@among(ALL_REVISIONS)
async def test_a_plain_function_runs_in_a_worker_thread_and_blocks_nothing(rev: Rev) -> None:
    release, threads = threading.Event(), set[threading.Thread]()
    met = threading.Barrier(2)

    def call_tool(ctx: Any, params: Any) -> Any:
        threads.add(threading.current_thread())
        if params.name == "meet":
            met.wait(10)
        elif params.name == "block":
            assert release.wait(10)
        return rev.text(params.name)

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        blocked = asyncio.create_task(client.call_tool(name="block"))
        await asyncio.gather(client.call_tool(name="meet"), client.call_tool(name="meet"))
        assert not blocked.done()
        release.set()
        assert (await blocked).content[0].text == "block"
    assert threading.main_thread() not in threads and all(thread.daemon for thread in threads)


@among(HANDSHAKE)
async def test_a_plain_function_answers_for_the_client_too(rev: Rev) -> None:
    def on_list_roots(ctx: Any, params: Any) -> Any:
        return rev.t.ListRootsResult(roots=[rev.t.Root(uri="file:///a")])

    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text((await ctx.list_roots()).roots[0].uri)

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        assert (await client.call_tool(name="x")).content[0].text == "file:///a"


@clause("2024-11-05/prompts/09", "2025-03-26/prompts/10", "draft/prompts/10")
@clause("2024-11-05/resources/06", "2025-03-26/resources/06", "draft/resources/07")
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "coroutine"])
@pytest.mark.parametrize(
    ("handler", "params"),
    [("call_tool", {"name": "x"}), ("get_prompt", {"name": "x"}), ("read_resource", {"uri": "test://x"})],
)
@among(ALL_REVISIONS)
async def test_a_handler_that_fails_is_an_internal_error_without_its_secrets(
    rev: Rev, handler: str, params: dict[str, Any], plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(ctx: Any, params: Any) -> Any:
        raise ValueError("a secret of the server")

    async def failing_later(ctx: Any, params: Any) -> Any:
        raise ValueError("a secret of the server")

    async with client_of(rev, server_of(rev, **{handler: failing if plain else failing_later})) as client:
        for _ in range(2):
            with pytest.raises(RemoteJSONRPCError) as caught:
                await getattr(client, handler)(**params)
            assert caught.value.code == INTERNAL_ERROR and caught.value.data is None
            assert caught.value.message == "internal error"
    assert "a secret of the server" in caplog.text


@among(ALL_REVISIONS)
async def test_a_refusal_reaches_the_caller_as_it_was_raised(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        raise JSONRPCError(-32000, "not today", {"open": ["tomorrow"]})

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.call_tool(name="x")
    assert (caught.value.code, caught.value.message) == (-32000, "not today")
    assert caught.value.data == {"open": ["tomorrow"]}


@among(ALL_REVISIONS)
async def test_an_answer_of_the_wrong_type_is_an_internal_error(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return {"content": []}

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        with pytest.raises(RemoteJSONRPCError, match="internal error"):
            await client.call_tool(name="x")


@clause("2024-11-05/tools/13", "2025-03-26/tools/14", "draft/tools/18")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@among(ALL_REVISIONS)
async def test_a_result_that_does_not_fit_the_schema_never_reaches_the_caller(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.t.CallToolResult(content=[]).model_copy(update={"content": "roses"})

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        with pytest.raises(InvalidResponseError, match="'tools/call' in .*content"):
            await client.call_tool(name="x")


@among(ALL_REVISIONS)
async def test_what_the_lifespan_gives_is_shared_by_the_handlers_of_a_conversation(rev: Rev) -> None:
    happened: list[str] = []

    @asynccontextmanager
    async def lifespan(self: Any) -> AsyncGenerator[Any]:
        happened.append("opened")
        try:
            yield {"calls": 0}
        finally:
            happened.append("closed")

    async def call_tool(ctx: Any, params: Any) -> Any:
        ctx.state["calls"] += 1
        return rev.text(str(ctx.state["calls"]))

    server = server_of(rev, call_tool=call_tool)
    type(server).lifespan = lifespan
    for _ in range(2):
        async with client_of(rev, server) as client:
            assert [(await client.call_tool(name="x")).content[0].text for _ in range(2)] == ["1", "2"]
    assert happened == ["opened", "closed"] * 2


@among(ALL_REVISIONS)
async def test_a_handler_sees_the_metadata_and_the_id_of_its_request(rev: Rev) -> None:
    seen: list[Any] = []

    async def call_tool(ctx: Any, params: Any) -> Any:
        seen.append((ctx.request_id, ctx.meta.get("com.example/trace"), ctx.meta.get("progressToken")))
        return rev.text("x")

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        await client.call_tool(name="x", options=RequestOptions(meta={"com.example/trace": {"id": 7}}))
        await client.call_tool(name="x")
    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        meta = {"progressToken": "t", "com.example/trace": None}
        await wire.request(rev.request("raw", "tools/call", {"name": "x", "_meta": meta}))
    assert [row[1:] for row in seen] == [({"id": 7}, None), (None, None), (None, "t")]
    assert seen[2][0] == "raw"


@among(ALL_REVISIONS)
async def test_when_the_client_leaves_its_handlers_are_cancelled(rev: Rev) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        wire.send(rev.request(1, "tools/call", {"name": "x"}))
        await started.wait()
    assert ended.is_set()


async def test_what_comes_together_does_not_queue_for_the_one_thread_that_is_idle() -> None:
    workers, met = WorkerThreads(), threading.Barrier(3)
    await workers.run(threading.current_thread)
    places = await asyncio.gather(*(workers.run(met.wait, 10) for _ in range(3)))
    assert sorted(places) == [0, 1, 2]  # The barrier let three threads pass at the same time.


@pytest.mark.parametrize(
    ("code", "stateless"),
    [
        (-32000, -32000),
        (-32002, -32602),
        (-32019, -32019),
        (-32021, -32021),
        (-32042, -32603),
        (-32099, -32603),
        (7, 7),
    ],
)
@among(ALL_REVISIONS)
async def test_a_code_that_the_specification_keeps_for_itself_is_not_sent(rev: Rev, code: int, stateless: int) -> None:
    """Without sessions; 2025-11-25 and before leave all of them to servers."""

    def call_tool(ctx: Any, params: Any) -> Any:
        raise JSONRPCError(code, "why", {"more": 1})

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        with pytest.raises(RemoteJSONRPCError) as refused:
            await client.call_tool(name="x")
    assert refused.value.code == (stateless if rev.stateless else code)
    assert (refused.value.message, refused.value.data) == ("why", {"more": 1})
