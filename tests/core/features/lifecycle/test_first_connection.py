"""A first conversation: a server and a client of one revision, in memory and over standard input and output."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any

import pytest
from support.project import ROOT

from mcp_generated.v2025_03_26 import Client, Context, Server
from mcp_generated.v2025_03_26 import types as t
from mcp_runtime.errors import (
    ConnectionClosedError,
    InvalidMessageError,
    InvalidResponseError,
    JSONRPCError,
    ProtocolViolationError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.session.requests import RequestOptions

ECHO = [sys.executable, str(ROOT / "examples" / "echo" / "server.py"), "stdio"]
DEADLINE = 20.0


class Tools(Server):
    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="echo", input_schema=t.ToolInputSchema())])

    def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        match params.name:
            case "fail":
                raise ValueError("a secret of the server")
            case "refuse":
                raise JSONRPCError(-32000, "not today", {"why": "closed"})
            case "wrong":
                return t.ListToolsResult(tools=[])  # type: ignore[return-value]
            case name:
                return t.CallToolResult(content=[t.TextContent(text=name)])


def within_deadline(conversation: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(conversation, DEADLINE))


def server() -> Tools:
    return Tools(name="tools", version="1", instructions="Use them.")


def test_a_client_initializes_pings_lists_and_calls() -> None:
    async def conversation() -> None:
        async with Client.memory(server()) as client:
            assert isinstance(client.server, t.InitializeResult)
            assert client.server.capabilities == t.ServerCapabilities(tools=t.ServerCapabilitiesTools())
            assert client.server.instructions == "Use them."
            assert await client.ping() == t.EmptyResult()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
            result = await client.call_tool(name="hello")
            assert result == t.CallToolResult(content=[t.TextContent(text="hello")])

    within_deadline(conversation())


@pytest.mark.parametrize(
    ("tool", "code", "message"),
    [("refuse", -32000, "not today"), ("fail", -32603, "internal error"), ("wrong", -32603, "internal error")],
)
def test_a_handler_that_fails_ends_one_call_and_tells_no_secret(tool: str, code: int, message: str) -> None:
    async def conversation() -> None:
        async with Client.memory(server()) as client:
            with pytest.raises(RemoteJSONRPCError) as caught:
                await client.call_tool(name=tool)
            assert (caught.value.code, caught.value.message) == (code, message)
            assert await client.ping()

    within_deadline(conversation())


def test_what_was_not_declared_cannot_be_asked() -> None:
    async def conversation() -> None:
        async with Client.memory(server()) as client:
            with pytest.raises(
                ProtocolViolationError, match="'prompts/list' in 2025-03-26 needs the capability 'server.prompts'"
            ):
                await client.list_prompts()

    within_deadline(conversation())


def test_what_does_not_fit_the_schema_is_not_sent() -> None:
    async def conversation() -> None:
        async with Client.memory(server()) as client:
            with pytest.raises(InvalidMessageError, match="'tools/call' in 2025-03-26: params: name: Input should be"):
                await client.call_tool(name=7)  # type: ignore[arg-type]

    within_deadline(conversation())


def test_without_a_connection_there_is_an_error() -> None:
    async def conversation() -> None:
        with pytest.raises(ConnectionClosedError):
            await Client.memory(server()).ping()

    within_deadline(conversation())


class Liar(Tools):
    """Answers with the wrong shape, past every type."""

    def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        return t.CallToolResult.model_construct(content="bad")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_wrong_answer_is_an_error_of_the_peer() -> None:
    async def conversation() -> None:
        async with Client.memory(Liar(name="liar", version="1")) as client:
            with pytest.raises(
                InvalidResponseError, match="'tools/call' in 2025-03-26: .*content: Input should be a valid list"
            ):
                await client.call_tool(name="x")

    within_deadline(conversation())


class Asker(Tools):
    """Asks back."""

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        roots = (await ctx.list_roots()).roots
        return t.CallToolResult(content=[t.TextContent(text=root.uri) for root in roots])


class Rooted(Client):
    async def on_list_roots(self, ctx: object, params: t.RequestParams) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri="file:///here")])


def test_a_handler_can_ask_the_client_that_declares_it_by_overriding() -> None:
    async def conversation() -> None:
        async with Rooted.memory(Asker(name="asker", version="1")) as client:
            assert (await client.call_tool(name="x")).content == [t.TextContent(text="file:///here")]
        async with Client.memory(Asker(name="asker", version="1")) as client:
            with pytest.raises(RemoteJSONRPCError, match="needs the capability 'client.roots'"):
                await client.call_tool(name="x")

    within_deadline(conversation())


def test_the_echo_example_serves_over_standard_input_and_output() -> None:
    async def conversation() -> None:
        async with Client.stdio(*ECHO) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "slow"]
            slow = asyncio.create_task(client.call_tool(name="slow", arguments={"seconds": 0.3}))
            quick = await client.call_tool(name="echo", arguments={"text": "héllo\n\u2028"})
            assert quick.content == [t.TextContent(text="héllo\n\u2028")] and not slow.done()
            assert (await slow).content == [t.TextContent(text="waited 0.3 s")]
            with pytest.raises(RequestTimeoutError, match="no response within 0.1 s"):
                await client.call_tool(name="slow", arguments={"seconds": 60}, options=RequestOptions(timeout=0.1))

    within_deadline(conversation())


def test_a_server_that_cannot_start_or_dies_is_a_clear_error() -> None:
    async def conversation() -> None:
        with pytest.raises(ConnectionClosedError, match="'/no/such/program' cannot be started"):
            async with Client.stdio("/no/such/program"):
                pass
        with pytest.raises(ConnectionClosedError):
            async with Client.stdio(sys.executable, "-c", "pass"):
                pass

    within_deadline(conversation())


@pytest.mark.long
def test_raw_lines_get_the_answers_json_rpc_asks_for() -> None:
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "3", "method": "tools/call", "params": {"name": 5}},
        {"jsonrpc": "2.0", "id": 4, "method": "no/such"},
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}},
    ]
    sent = "\n".join([*map(json.dumps, lines), "not json", ""])
    done = subprocess.run(ECHO, input=sent, capture_output=True, text=True, timeout=DEADLINE, check=True)
    answers = {answer.get("id"): answer for answer in map(json.loads, done.stdout.splitlines())}
    codes = {id: answer["error"]["code"] for id, answer in answers.items() if "error" in answer}
    assert codes == {1: -32600, "3": -32602, 4: -32601, None: -32700}
    assert answers[2]["result"]["protocolVersion"] == "2025-03-26"
    assert answers[5]["result"] == {"content": [{"type": "text", "text": "x"}]}
    assert "name: Input should be a valid string" in answers["3"]["error"]["message"]
