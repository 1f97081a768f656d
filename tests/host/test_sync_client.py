"""The synchronous twin of the client: the same calls, for code without an event loop, and no thread stays behind."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, client_of, raw_server, server_of

from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, RemoteJSONRPCError, RequestTimeoutError
from mcp_runtime.session.requests import RequestOptions


def served(rev: Rev) -> Any:
    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "refuse":
            raise JSONRPCError(-32000, "not today")
        return rev.text(params.name)

    async def list_tools(ctx: Any, params: Any) -> Any:
        names, following = (["a", "b"], "more") if params.cursor is None else (["c"], None)
        tools = [rev.t.Tool(name=name, input_schema=rev.t.ToolInputSchema()) for name in names]
        return rev.t.ListToolsResult(tools=tools, next_cursor=following)

    return server_of(rev, call_tool=call_tool, list_tools=list_tools)


def loops() -> list[str]:
    """The threads that clients run in."""
    return [thread.name for thread in threading.enumerate() if thread.name == "mcp client"]


@among(ALL_REVISIONS)
def test_it_calls_and_pages_and_leaves_no_thread(rev: Rev) -> None:
    with rev.package.SyncClient.memory(served(rev)) as client:
        assert loops() == ["mcp client"]
        assert client.call_tool(name="x", options=RequestOptions(timeout=5)).content[0].text == "x"
        assert [tool.name for tool in client.iter_tools()] == ["a", "b", "c"]
        assert [tool.name for tool in client.list_tools(cursor="more").tools] == ["c"]
    assert loops() == []


@among(ALL_REVISIONS)
def test_its_errors_are_those_of_the_asynchronous_one(rev: Rev) -> None:
    with rev.package.SyncClient.memory(served(rev)) as client:
        with pytest.raises(RemoteJSONRPCError, match="not today"):
            client.call_tool(name="refuse")
        assert client.call_tool(name="x")
    with pytest.raises(ConnectionClosedError):
        client.call_tool(name="x")
    assert loops() == []


@among(HANDSHAKE)
def test_an_opening_that_fails_leaves_no_thread_either(rev: Rev) -> None:
    async def connect() -> Any:
        return await raw_server()[1]()

    inner = client_of(rev, connect, connect_options=RequestOptions(timeout=0.01))
    with pytest.raises(RequestTimeoutError):
        rev.package.SyncClient(inner).__enter__()
    assert loops() == []


@among(HANDSHAKE)
def test_a_client_with_handlers_answers_while_its_caller_waits(rev: Rev) -> None:
    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return rev.t.ListRootsResult(roots=[rev.t.Root(uri="file:///a")])

    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text((await ctx.list_roots()).roots[0].uri)

    inner = client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots)
    with rev.package.SyncClient(inner) as client:
        assert client.call_tool(name="x").content[0].text == "file:///a"


@among(ALL_REVISIONS)
def test_it_has_every_call_of_the_asynchronous_one(rev: Rev) -> None:
    base = set(dir(rev.package.Client.__mro__[1]))
    calls = {name for name in dir(rev.package.Client) if not name.startswith(("on_", "_")) and name not in base}
    assert calls - {"revision"} <= set(dir(rev.package.SyncClient))
