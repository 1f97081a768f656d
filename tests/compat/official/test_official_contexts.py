"""The context of functions and of low-level handlers has what the contexts of the official SDK have."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among

from mcp_generated import App, Context, RequestContext
from mcp_generated.compat import (
    FastMCP,
    Image,
    McpError,
    MCPServer,
    Server,
    ServerRequestContext,
    create_connected_server_and_client_session,
    types,
)
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t
from mcp_products.versions.adapters import server_candidates


def client_of(rev: Rev, app: Any, **settings: Any) -> Any:
    """Return a client of one revision."""
    return rev.package.Client.memory(*server_candidates(app.server, [rev.id]), **settings)


@among(ALL_REVISIONS)
async def test_what_the_client_has_declared_has_attributes(rev: Rev) -> None:
    app = App("shop")
    declared: list[Any] = []

    @app.tool
    def look(ctx: Context) -> str:
        for capabilities in (ctx.client_capabilities, ctx.session.client_capabilities):
            declared.append((bool(capabilities.roots), capabilities.sampling))
        declared.append(ctx.session.client_params.clientInfo.name)
        return ""

    async with client_of(rev, app, name="seen", capabilities={"roots": {}}) as client:
        await client.call_tool("look")
    assert declared == [(True, None), (True, None), "seen"]


@pytest.mark.parametrize("server_class", [App, FastMCP, MCPServer])
async def test_closing_streams_may_be_awaited_and_does_nothing_without_them(server_class: Any) -> None:
    app = server_class("shop")

    @app.tool()
    async def close(ctx: Context) -> str:
        await ctx.close_sse_stream()
        ctx.close_sse_stream()
        await ctx.close_standalone_sse_stream()
        await ctx.request_context.close_sse_stream()
        await ctx.request_context.close_standalone_sse_stream()
        return "closed"

    assert (await app.call_tool("close")).content[0].text == "closed"


async def test_a_function_may_return_input_requests_itself_and_gets_the_responses() -> None:
    app = App("shop")
    rounds: list[Any] = []

    @app.tool
    async def order(ctx: Context) -> Any:
        rounds.append((ctx.request_state, ctx.input_responses is None))
        if ctx.input_responses is None:
            schema = {"type": "object", "properties": {"size": {"type": "string"}}}
            params = {"message": "Which size?", "requestedSchema": schema}
            requests: Any = {"size": {"method": "elicitation/create", "params": params}}
            return t.InputRequiredResult(input_requests=requests, request_state="one")
        return ctx.input_responses["size"].content["size"]

    class Shopper(Client):
        async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
            return t.ElicitResult(action="accept", content={"size": "large"})

    async with Shopper.memory(app.server) as client:
        result: Any = await client.call_tool("order")
    assert result.content[0].text == "large"
    assert rounds == [(None, True), ("one", False)]


async def test_a_url_with_a_new_id_in_every_round_is_asked_for_once() -> None:
    app = App("shop")
    ids: list[str] = []

    @app.tool
    async def pay(ctx: Context) -> str:
        ids.append(f"id-{len(ids)}")
        return (await ctx.elicit_url("Pay?", "https://pay.example/1", ids[-1])).action

    class Payer(Client):
        async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
            return t.ElicitResult(action="accept")

    async with Payer.memory(app.server, capabilities={"elicitation": {"url": {}}}) as client:
        result: Any = await client.call_tool("pay")
    assert result.content[0].text == "accept" and ids == ["id-0", "id-1"]


async def test_all_request_contexts_are_of_one_class() -> None:
    contexts: list[Any] = []
    high, low = FastMCP("high"), Server[Any, Any]("low")
    middle = MCPServer("middle")

    async def record(ctx: Any, call_next: Any) -> Any:
        contexts.append(ctx)
        return await call_next(ctx)

    middle.middleware.append(record)

    @high.tool()
    async def one(ctx: Context) -> str:
        contexts.append(ctx.request_context)
        return ""

    @middle.tool()
    async def two() -> str:
        return ""

    @low.call_tool()
    async def three(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        contexts.append(low.request_context)
        return []

    for server in (high, middle, low):
        async with create_connected_server_and_client_session(server) as session:
            await session.call_tool({high: "one", middle: "two"}.get(server, "three"), {})
    assert len(contexts) >= 3 and RequestContext is ServerRequestContext
    assert all(isinstance(context, RequestContext) for context in contexts)


async def test_a_refused_request_of_a_session_raises_the_error_of_the_official_sdk() -> None:
    async def refuse(context: Any, params: Any) -> Any:
        return types.ErrorData(code=-1, message="no model")

    high, low = FastMCP("high"), Server[Any, Any]("low")
    message = types.SamplingMessage(role="user", content=types.TextContent(text="q"))

    async def sampled(session: Any) -> str:
        try:
            await session.create_message([message], max_tokens=5)
        except McpError as error:
            return f"{error.error.code} {error.error.message}"
        return "no error"

    @high.tool()
    async def one(ctx: Context) -> str:
        return await sampled(ctx.session)

    @low.call_tool()
    async def call(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        return [types.TextContent(type="text", text=await sampled(low.request_context.session))]

    for server in (high, low):
        async with create_connected_server_and_client_session(server, sampling_callback=refuse) as session:
            assert (await session.call_tool("one", {})).content[0].text == "-1 no model"


@among(HANDSHAKE)
async def test_a_function_over_a_handshake_has_no_input_responses(rev: Rev) -> None:
    app = App("shop")

    @app.tool
    def look(ctx: Context) -> str:
        return f"{ctx.input_responses} {ctx.request_state}"

    async with client_of(rev, app) as client:
        assert (await client.call_tool("look")).content[0].text == "None None"


async def test_a_file_that_cannot_be_read_is_the_error_of_the_tool() -> None:
    shown, official = App("shop", tool_errors=(OSError,)), FastMCP("shop")
    for app in (shown, official):

        @app.tool()
        def picture() -> list[Image]:
            return [Image(path="missing.png")]

    assert "No such file" in (await shown.call_tool("picture")).content[0].text
    result = await official.call_tool("picture")
    assert result.is_error and result.content[0].text.startswith("Error executing tool picture: [Errno 2]")


async def test_a_prompt_without_a_docstring_has_an_empty_description() -> None:
    mcp = FastMCP("shop")

    @mcp.prompt()
    def question() -> str:
        return "What?"

    @mcp.prompt()
    def explained() -> str:
        """Ask why."""
        return "Why?"

    assert (await mcp.get_prompt("question")).description == ""
    assert (await mcp.get_prompt("explained")).description == "Ask why."
