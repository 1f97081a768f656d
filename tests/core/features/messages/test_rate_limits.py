"""What comes too often: requests are refused, log messages and progress are left out."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, INTERNAL_ERROR, Rev, Tap, among, clause, client_of, server_of

from mcp_runtime.aio.rates import RateLimit, TokenBucket
from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

SLOW = RateLimit(per_second=0.001, burst=3)


def test_an_allowance_fills_up_again_as_time_goes_by() -> None:
    now = [0.0]
    allowance = TokenBucket(RateLimit(per_second=2, burst=3), lambda: now[0])
    assert [allowance.acquire() for _ in range(4)] == [0, 0, 0, 0.5]
    now[0] = 0.5
    assert [allowance.acquire() for _ in range(2)] == [0, 0.5]
    now[0] = 100.0
    assert [allowance.acquire() > 0 for _ in range(4)] == [False, False, False, True]


@clause("2024-11-05/tools/09", "2025-03-26/tools/10", "draft/tools/14")
@among(ALL_REVISIONS)
async def test_tools_can_be_called_as_often_as_the_server_says(rev: Rev) -> None:
    called: list[str] = []

    async def call_tool(ctx: Any, params: Any) -> Any:
        called.append(params.name)
        return rev.text("done")

    async with client_of(rev, server_of(rev, call_tool=call_tool, rates={"call_tool": SLOW})) as client:
        for _ in range(3):
            await client.call_tool(name="x")
        with pytest.raises(RemoteJSONRPCError, match="too many 'tools/call' requests") as caught:
            await client.call_tool(name="x")
    assert (caught.value.code, len(called)) == (INTERNAL_ERROR, 3)
    assert isinstance(caught.value.data, dict) and caught.value.data["retryAfter"] > 100


@among(HANDSHAKE)
async def test_one_client_that_calls_too_often_keeps_no_other_from_it(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text("done")

    server = server_of(rev, call_tool=call_tool, rates={"call_tool": RateLimit(0.001, burst=1)})
    async with client_of(rev, server) as one, client_of(rev, server) as other:
        await one.call_tool(name="x")
        await other.call_tool(name="x")
        with pytest.raises(RemoteJSONRPCError, match="too many"):
            await one.call_tool(name="x")


@clause("2024-11-05/completion/03", "2025-03-26/completion/08", "draft/completion/08")
@clause("2024-11-05/completion/09", "2025-03-26/completion/14", "draft/completion/14")
@among(ALL_REVISIONS)
async def test_completions_have_a_rate_without_being_told(rev: Rev) -> None:
    async def complete(ctx: Any, params: Any) -> Any:
        return rev.t.CompleteResult(completion=rev.t.Completion(values=[]))

    arguments = {"ref": rev.t.PromptReference(name="p"), "argument": rev.t.CompletionArgument(name="a", value="")}
    async with client_of(rev, server_of(rev, complete=complete)) as client:
        with pytest.raises(RemoteJSONRPCError, match="too many"):
            for _ in range(20_000):
                await client.complete(**arguments)


@clause("2024-11-05/logging/04", "2025-03-26/logging/04", "draft/logging/04")
@clause("2024-11-05/logging/11", "2025-03-26/logging/11", "draft/logging/11")
@among(ALL_REVISIONS)
async def test_a_flood_of_log_messages_is_thinned_out(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        ctx.connection_state.log_rate = TokenBucket(RateLimit(0.001, burst=5))
        for number in range(50):
            await ctx.log("info", number, "x")
        return rev.text("done")

    wants = RequestOptions(meta={"io.modelcontextprotocol/logLevel": "debug"} if rev.stateless else {})
    tap = Tap(server_of(rev, {"logging": {}}, call_tool=call_tool))
    async with client_of(rev, tap) as client:
        await client.call_tool(name="x", options=wants)
    numbers = [
        message["params"]["data"] for message in tap.received if message.get("method") == "notifications/message"
    ]
    assert numbers == [0, 1, 2, 3, 4]


@clause("2024-11-05/progress/07", "2025-03-26/progress/08", "draft/progress/08")
@among(ALL_REVISIONS)
async def test_a_flood_of_progress_is_thinned_out_and_its_end_is_told(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        for number in range(10_001):
            await ctx.progress(number, total=10_000)
        return rev.text("done")

    seen: list[float] = []
    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        await client.call_tool(
            name="x", options=RequestOptions(on_progress=lambda update: seen.append(update.progress))
        )
    assert seen[:200] == list(range(200)) and seen[-1] == 10_000 and len(seen) < 10_000
