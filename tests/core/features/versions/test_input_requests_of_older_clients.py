"""Clients of older revisions over a server without sessions: their handlers answer the input requests of results."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, Tap, among, server_of, since

from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.protocol.models import validator

NEWEST = STATELESS[-1]
META = "io.modelcontextprotocol/"
FORM = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


def older(rev: Rev, **handlers: Any) -> Any:
    return type("Older", (rev.package.Client,), {name: staticmethod(handler) for name, handler in handlers.items()})


def asking(*questions: str) -> Any:
    """A server of the newest revision that asks these one after the other, and says what it was answered."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        answers_received: list[str] = []
        for question in questions:
            if question == "roots":
                answers_received += [root.uri for root in (await ctx.list_roots()).roots]
            elif question == "sample":
                message = validator(NEWEST.t.SamplingMessage)(
                    {"role": "user", "content": {"type": "text", "text": "?"}}
                )
                answer = await ctx.create_message(messages=[message], max_tokens=10)
                content = answer.content[0] if isinstance(answer.content, list) else answer.content
                answers_received.append(content.text)
            else:
                answer = await ctx.elicit(NEWEST.t.ElicitRequestFormParams.model_validate(FORM))
                answers_received.append(str(answer.content))
        return NEWEST.text("; ".join(answers_received))

    return server_of(NEWEST, call_tool=call_tool)


def answers(rev: Rev) -> dict[str, Any]:
    """Handlers of this revision; each is given and gives types of it."""

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        assert isinstance(ctx.state, rev.package.Client)
        return rev.t.ListRootsResult(roots=[rev.t.Root(uri="file:///here")])

    async def on_create_message(ctx: Any, params: Any) -> Any:
        assert isinstance(params, rev.t.CreateMessageRequestParams) and params.max_tokens == 10
        return rev.t.CreateMessageResult(role="assistant", model="m", content=rev.t.TextContent(text="said"))

    return {"on_list_roots": on_list_roots, "on_create_message": on_create_message}


@among(HANDSHAKE)
async def test_an_older_client_answers_and_asks_again_by_itself(rev: Rev) -> None:
    tap = Tap(asking("roots", "sample", "roots"))
    async with older(rev, **answers(rev))(tap, revisions="all", name="me", version="7") as client:
        result = await client.call_tool(name="x")
    assert isinstance(result, rev.t.CallToolResult)
    assert result.content[0].text == "file:///here; said; file:///here"
    assert tap.methods() == ["server/discover", *["tools/call"] * 4]
    for message in tap.sent:
        meta = message["params"]["_meta"]
        assert meta[f"{META}protocolVersion"] == NEWEST.id
        assert meta[f"{META}clientInfo"] == {"name": "me", "version": "7"}


@among(since("2025-06-18", HANDSHAKE))
async def test_an_older_client_fills_in_forms(rev: Rev) -> None:
    async def on_elicit(ctx: Any, params: Any) -> Any:
        assert params.message == FORM["message"]
        return rev.t.ElicitResult(action="accept", content={"name": "Ann"})

    async with older(rev, on_elicit=on_elicit).memory(asking("elicit"), revisions="all") as client:
        assert (await client.call_tool(name="x")).content[0].text == "{'name': 'Ann'}"


@among(HANDSHAKE)
async def test_an_older_client_is_not_asked_what_it_has_not_declared(rev: Rev) -> None:
    async with rev.package.Client.memory(asking("roots"), revisions="all") as client:
        with pytest.raises(RemoteJSONRPCError, match="client.roots"):
            await client.call_tool(name="x")


@among(HANDSHAKE)
async def test_a_handler_of_an_older_client_that_fails_fails_the_call_and_nothing_else(rev: Rev) -> None:
    async def on_list_roots(ctx: Any, params: Any) -> Any:
        raise ValueError("a bug of the client")

    async with older(rev, on_list_roots=on_list_roots).memory(asking("roots"), revisions="all") as client:
        for _ in range(2):
            with pytest.raises(ValueError, match="a bug of the client"):
                await client.call_tool(name="x")
