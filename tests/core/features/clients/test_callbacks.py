"""The callbacks of a client: for the end of its connection, and for errors that no call raises."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, raw_server
from support.http.observed_clients import CELLS, observed_client, origin

from mcp_generated import App, ConnectionClosedError, Context, JSONRPCError, LocalError, MultiClient
from mcp_generated.v2026_07_28 import SyncClient


def echo() -> App:
    app = App("echo")

    @app.tool
    async def log(ctx: Context, text: str) -> str:
        await ctx.info(text)
        return text

    return app


@pytest.mark.long
@CELLS
@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
async def test_on_close_is_called_once_when_the_client_closes(transport: str, rev: Rev, is_async: bool) -> None:
    calls: list[Any] = []

    async def on_close(error: Any) -> None:
        await asyncio.sleep(0)
        calls.append(error)

    client = observed_client(transport, rev, on_close=on_close if is_async else calls.append)
    async with client:
        await client.list_tools()
        assert calls == []
    assert calls == [None]
    await client.close()
    async with client:
        await client.list_tools()
    assert calls == [None, None], "each connection has its end"


@pytest.mark.long
@among(ALL_REVISIONS)
async def test_on_close_has_the_error_if_the_server_ends(rev: Rev) -> None:
    ended: asyncio.Queue[Any] = asyncio.Queue()
    async with observed_client("stdio", rev, on_close=ended.put_nowait) as client:
        await client.call_tool("leave")
        error = await ended.get()
        assert isinstance(error, ConnectionClosedError) and str(error)
    assert ended.empty()


async def test_connect_with_all_revisions_calls_them_as_well() -> None:
    for revisions in ("all", ["2025-06-18"], ["2026-07-28"]):
        calls: list[Any] = []
        async with connect(echo(), revisions=revisions, on_close=calls.append) as client:
            await client.list_tools()
        assert calls == [None]


async def test_a_connection_that_was_never_open_has_no_end() -> None:
    calls: list[Any] = []
    with pytest.raises(ConnectionClosedError):
        async with connect(["false"], on_close=calls.append, on_error=calls.append):
            raise AssertionError("false is not a server")
    assert calls == []


@among(HANDSHAKE)
async def test_on_error_is_called_for_an_invalid_message_but_not_for_a_late_response(rev: Rev) -> None:
    errors: asyncio.Queue[Exception] = asyncio.Queue()
    wire, to_server = raw_server()
    client = rev.package.Client(to_server, on_error=errors.put_nowait)
    opening = asyncio.create_task(client.__aenter__())
    await wire.welcome(rev, {"tools": {}, "logging": {}})
    await opening
    call = asyncio.create_task(client.call_tool("x"))
    request = await wire.receive()
    call.cancel()
    await wire.receive()
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}})
    wire.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "loud"}})
    assert "'notifications/message': params" in str(await errors.get())
    wire.send(b"{no json")
    assert "not JSON" in str(await errors.get())
    await client.close()
    assert errors.empty()


@among(ALL_REVISIONS)
async def test_on_error_is_called_for_a_handler_that_fails_and_not_for_a_refusal(rev: Rev) -> None:
    errors: list[Exception] = []

    async def on_logging_message(ctx: Any, params: Any) -> None:
        raise OSError(params.data)

    async def on_elicit(ctx: Any, params: Any) -> Any:
        raise JSONRPCError(-32000, "the user is away")

    kind: Any = type(
        "C",
        (rev.package.Client,),
        {"on_logging_message": staticmethod(on_logging_message), "on_elicit": staticmethod(on_elicit)},
    )
    meta = {"io.modelcontextprotocol/logLevel": "info"} if rev.stateless else {}
    async with kind.memory(echo(), on_error=errors.append) as client:
        await client.call_tool("log", {"text": "the disk is full"}, meta=meta)
        while not errors:
            await asyncio.sleep(0)
    assert [(type(error), str(error)) for error in errors] == [(OSError, "the disk is full")]


async def test_a_callback_that_fails_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(error: Any) -> None:
        raise RuntimeError("a bug")

    async def fail_later(error: Any) -> None:
        raise RuntimeError("a bug")

    for callback in (fail, fail_later):
        async with connect(echo(), on_close=callback) as client:
            await client.list_tools()
    assert caplog.text.count("a callback of a client failed") == 2


def test_a_synchronous_client_calls_them_in_its_thread() -> None:
    calls: list[Any] = []
    with SyncClient.connect(echo(), on_close=lambda error: calls.append((error, threading.current_thread()))) as client:
        client.list_tools()
    [(error, thread)] = calls
    assert error is None and thread is not threading.main_thread()


async def test_a_client_of_several_servers_names_the_server() -> None:
    closed: list[Any] = []
    failed: list[Any] = []
    own: list[Any] = []
    async with MultiClient(
        {"echo": echo(), "own": connect(echo(), on_close=own.append), "none": ["false"]},
        on_close=lambda name, error: closed.append((name, error)),
        on_error=lambda name, error: failed.append((name, type(error))),
    ) as servers:
        assert set(servers.clients) == {"echo", "own"} and set(servers.errors) == {"none"}
    assert sorted(closed) == [("echo", None), ("own", None)] and own == [None]
    assert failed == [("none", ConnectionClosedError)]


async def test_a_configuration_takes_them_as_well() -> None:
    closed: list[Any] = []
    entries = {"mcpServers": {"http": {"url": f"{origin()}/mcp"}}}
    async with MultiClient.from_config(entries, on_close=lambda name, error: closed.append((name, error))) as servers:
        assert [*servers.clients] == ["http"]
    assert closed == [("http", None)]


def test_a_wrong_callback_is_refused() -> None:
    wrong: Any = {"on_close": "close"}
    with pytest.raises(LocalError, match="on_close must be a function of an error or None"):
        connect(echo(), **wrong)
    with pytest.raises(TypeError, match="no keyword argument 'on_closed'; did you mean 'on_close'"):
        connect(echo(), **{"on_closed": print})  # type: ignore[arg-type]
    with pytest.raises(LocalError, match="on_error must be a function"):
        MultiClient({}, **{"on_error": 5})  # type: ignore[arg-type]
