"""A server that borrows the client's model: asked through the client, which may say no."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    HANDSHAKE,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    STATELESS,
    Rev,
    Tap,
    among,
    clause,
    client_of,
    raw_server,
    server_of,
)

from mcp_runtime.errors import InvalidMessageError, JSONRPCError, ProtocolViolationError, RemoteJSONRPCError
from mcp_runtime.protocol.revision import InputRequest


def question(rev: Rev) -> dict[str, Any]:
    content = rev.t.TextContent(text="How is the weather?")
    return {"messages": [rev.t.SamplingMessage(role="user", content=content)], "max_tokens": 10}


def borrowing(rev: Rev) -> Any:
    """A server whose tool says what the model says."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        try:
            answer = await ctx.create_message(**question(rev), system_prompt="Be short.", temperature=0.5)
        except (RemoteJSONRPCError, ProtocolViolationError) as error:
            return rev.text(f"{type(error).__name__}: {error}")
        return rev.text(f"{answer.model}: {answer.content.text}")

    return server_of(rev, call_tool=call_tool)


@clause("2024-11-05/sampling/05", "2025-03-26/sampling/05", "draft/sampling/05")
@among(HANDSHAKE)
async def test_a_client_with_a_model_declares_it_and_is_asked(rev: Rev) -> None:
    requests: list[Any] = []

    async def on_create_message(ctx: Any, params: Any) -> Any:
        requests.append(params)
        return rev.t.CreateMessageResult(role="assistant", content=rev.t.TextContent(text="Fine."), model="m")

    tap = Tap(borrowing(rev))
    async with client_of(rev, tap, on_create_message=on_create_message) as client:
        assert (await client.call_tool(name="x")).content[0].text == "m: Fine."
    assert tap.sent[0]["params"]["capabilities"] == {"sampling": {}}
    [params] = requests
    assert (params.max_tokens, params.system_prompt, params.temperature) == (10, "Be short.", 0.5)
    assert params.messages[0].content.text == "How is the weather?"


@clause("2024-11-05/lifecycle/14", "2025-03-26/lifecycle/15", "draft/lifecycle/15")
@among(HANDSHAKE)
async def test_a_client_without_a_model_is_not_asked(rev: Rev) -> None:
    async with client_of(rev, borrowing(rev)) as client:
        text = (await client.call_tool(name="x")).content[0].text
    assert text.startswith(
        f"ProtocolViolationError: 'sampling/createMessage' in {rev} needs the capability 'client.sampling'"
    )


@clause("2024-11-05/sampling/06", "2025-03-26/sampling/06", "draft/sampling/06")
@among(HANDSHAKE)
async def test_a_user_who_says_no_is_an_error_for_the_server(rev: Rev) -> None:
    async def on_create_message(ctx: Any, params: Any) -> Any:
        raise JSONRPCError(-1, "User rejected sampling request")

    async with client_of(rev, borrowing(rev), on_create_message=on_create_message) as client:
        text = (await client.call_tool(name="x")).content[0].text
    assert text == "RemoteJSONRPCError: User rejected sampling request (code -1)"


@clause("2024-11-05/sampling/08", "2025-03-26/sampling/08", "draft/sampling/08")
@among(HANDSHAKE)
async def test_content_that_is_no_content_is_refused_on_both_sides(rev: Rev) -> None:
    async def on_create_message(ctx: Any, params: Any) -> Any:
        raise AssertionError("it is not to be asked")

    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, on_create_message=on_create_message).__aenter__())
    await wire.welcome(rev)
    client = await opening
    contents: list[Any] = [None, "text", {"type": "text"}, {"type": "smell"}, {"type": "image", "data": "AA=="}]
    for id, content in enumerate(contents):
        params = {"messages": [{"role": "user", "content": content}], "maxTokens": 1}
        answer = await wire.request(rev.request(id, "sampling/createMessage", params))
        assert answer["error"]["code"] == INVALID_PARAMS
    await client.close()

    async def call_tool(ctx: Any, params: Any) -> Any:
        with pytest.raises(InvalidMessageError, match="content"):
            await ctx.create_message(messages=[{"role": "user", "content": {"type": "smell"}}], max_tokens=1)
        return rev.text("refused")

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_create_message=on_create_message) as client:
        assert (await client.call_tool(name="x")).content[0].text == "refused"


@among(HANDSHAKE)
async def test_a_server_that_asks_all_the_same_is_told_that_there_is_no_model(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev)
    client = await opening
    params = {"messages": [], "maxTokens": 1}
    answer = await wire.request(rev.request(1, "sampling/createMessage", params))
    assert answer["error"]["code"] == METHOD_NOT_FOUND
    await client.close()


@among(STATELESS)
def test_without_sessions_a_model_is_asked_inside_results_only(rev: Rev) -> None:
    assert "sampling/createMessage" in {row.method for row in rev.revision.rows if isinstance(row, InputRequest)}
    assert "sampling/createMessage" not in rev.revision.table("server_to_client")
