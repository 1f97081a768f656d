"""A request to listen waits without a task, and everything around its handler goes on when it ends."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from support.other_servers.held_streams import settled, until
from support.other_servers.recorded_connections import RecordedEndpoint, unchunked
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mcp_generated import App
from mcp_generated.providers import Provider
from mcp_products import fast as fast_paths
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.transports.http_server.app import HTTPLimits

KINDS = ("uvicorn", "ours")
HELD = pytest.mark.skipif(not fast_paths.ENABLED, reason="uvicorn has a task for each request")
VERSION = "2026-07-28"
CHANGED = b"notifications/tools/list_changed"
ACKNOWLEDGED = b"notifications/subscriptions/acknowledged"
META = "io.modelcontextprotocol/"


def listen(accept: str = "application/json, text/event-stream", filter: Any = None) -> bytes:
    """Return a request to listen, as a client writes it."""
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    params = {"notifications": {"toolsListChanged": True} if filter is None else filter, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params}).encode()
    lines = [
        "POST /mcp HTTP/1.1",
        "host: localhost",
        f"accept: {accept}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        f"mcp-protocol-version: {VERSION}",
        "mcp-method: subscriptions/listen",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Endpoint(RecordedEndpoint):
    """A server with a client that listens."""

    def __init__(self, kind: str, app: App) -> None:
        super().__init__(app.asgi(path="/mcp", limits=HTTPLimits(keep_alive=100.0, max_subscriptions_per_address=9)))
        self.app = app
        self.kind = kind

    async def listen(self) -> tuple[Any, Any, Any]:
        """Open a stream, and wait until it is acknowledged."""
        connection, transport, state = self.connect(self.kind)
        connection.data_received(listen())
        await until(lambda: ACKNOWLEDGED in transport.written)
        await settled()
        return connection, transport, state

    @property
    def handler(self) -> Any:
        """What serves requests of the version."""
        return self.asgi._stateless[VERSION]


@asynccontextmanager
async def served(kind: str = "ours", provider: Provider | None = None, **settings: Any) -> AsyncIterator[Endpoint]:
    app = App("held", **settings)

    @app.tool
    def echo(text: str) -> str:
        return text

    if provider is not None:
        app.add_provider(provider)
    async with Endpoint(kind, app) as endpoint:
        yield endpoint


def requests() -> int:
    gc.collect()
    return sum(isinstance(item, RequestResponseCycle) for item in gc.get_objects())


@pytest.mark.long
@HELD
async def test_a_request_that_listens_has_neither_a_task_nor_an_object_of_uvicorn() -> None:
    async with served() as endpoint:
        connection, _, _ = await endpoint.listen()
        connection.connection_lost(None)
        await until(lambda: not endpoint.handler.running_count)
        tasks, before = len(asyncio.all_tasks()), requests()
        clients = [await endpoint.listen() for _ in range(3)]
        assert len(asyncio.all_tasks()) == tasks and requests() == before
        assert endpoint.handler.running_count == 3
        for number in range(1, 3):
            await endpoint.app.server.notify_tool_list_changed()
            await settled()
            assert [transport.written.count(CHANGED) for _, transport, _ in clients] == [number] * 3
            assert len(asyncio.all_tasks()) == tasks
        for connection, _, _ in clients:
            connection.connection_lost(None)
        await until(lambda: not endpoint.handler.running_count)
        assert not endpoint.asgi._keep_alive.waiting_count


async def bytes_of(kind: str) -> tuple[bytes, bytes, bool]:
    async with served(kind) as endpoint:
        connection, transport, _ = await endpoint.listen()
        for _ in range(3):
            await endpoint.app.server.notify_tool_list_changed()
            await settled()
        await endpoint.asgi.close()
        await until(lambda: transport.written.endswith(b"0\r\n\r\n"))
        connection.connection_lost(None)
        head, body = unchunked(transport.written.removesuffix(b"0\r\n\r\n"))
        return head, body, transport.closed


async def test_a_client_gets_of_a_held_request_what_it_gets_of_uvicorn() -> None:
    expected, got = [await bytes_of(kind) for kind in KINDS]
    assert got == expected
    assert got[1].count(CHANGED) == 3
    assert b'"resultType":"complete"' in got[1].rsplit(b"data: ", 1)[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("while_sending", [False, True])
async def test_a_client_that_goes_is_subscribed_no_more(kind: str, while_sending: bool) -> None:
    async with served(kind) as endpoint:
        connection, transport, state = await endpoint.listen()
        if while_sending:
            connection.pause_writing()
            await endpoint.app.server.notify_tool_list_changed()
            await settled()
        connection.connection_lost(None)
        await until(lambda: not endpoint.handler.running_count and not state.tasks)
        before = len(transport.writes)
        await endpoint.app.server.notify_tool_list_changed()
        await settled()
        assert len(transport.writes) == before
        for _ in range(12):  # Its place among the streams of its address is free.
            connection, transport, state = await endpoint.listen()
            connection.connection_lost(None)
            await until(lambda state=state: not endpoint.handler.running_count and not state.tasks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "text/event-stream"])
async def test_a_request_that_is_refused_has_its_error(kind: str, accept: str) -> None:
    many = {"resourceSubscriptions": [f"note://{number}" for number in range(10_001)]}
    async with served(kind) as endpoint:
        connection, transport, state = endpoint.connect(kind)
        connection.data_received(listen(accept, many))
        await until(lambda: state.total_requests == 1 and not state.tasks)
        assert b"a client subscribes to at most 10000 URIs" in transport.written
        assert not endpoint.handler.running_count
        connection.connection_lost(None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("goes", [False, True])
async def test_what_is_around_the_handler_goes_on_in_its_own_context(kind: str, goes: bool) -> None:
    ended, variable = list[object](), ContextVar("variable", default="outer")

    class Watching(Provider):
        async def handle_lifecycle(
            self, name: str, ctx: Any, params: Any, prefixes: tuple[str, ...], call_next: Callable[..., Any]
        ) -> Any:
            if name != "subscriptions_listen":
                return await call_next(ctx, params)
            token = variable.set("inner")
            try:
                return await call_next(ctx, params)
            except BaseException as error:
                ended.append(type(error))
                raise
            finally:
                ended.append(variable.get())
                variable.reset(token)
                await asyncio.sleep(0)
                ended.append(variable.get())

    async with served(kind, Watching()) as endpoint:
        connection, transport, _ = await endpoint.listen()
        if not goes:
            await endpoint.asgi.close()
            await until(lambda: transport.written.endswith(b"0\r\n\r\n"))
            assert b'"resultType":"complete"' in transport.written
        connection.connection_lost(None)
        await until(lambda: not endpoint.handler.running_count)
        assert ended == [*([asyncio.CancelledError] if goes else []), "inner", "outer"]


@pytest.mark.parametrize("kind", KINDS)
async def test_middleware_with_a_deadline_ends_a_stream(kind: str) -> None:
    due = asyncio.Event()

    class Deadline:
        async def __call__(self, context: Any, call_next: Any) -> Any:
            if context.method != "subscriptions/listen":
                return await call_next(context)
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(None) as deadline:
                    waiting = loop.create_task(due.wait())
                    waiting.add_done_callback(lambda _: deadline.reschedule(loop.time()))
                    return await call_next(context)
            except TimeoutError:
                raise JSONRPCError(-32000, "it was open for long enough") from None

    async with served(kind, middleware=[Deadline()]) as endpoint:
        connection, transport, _ = await endpoint.listen()
        due.set()
        await until(lambda: transport.written.endswith(b"0\r\n\r\n"))
        assert b"it was open for long enough" in transport.written
        await until(lambda: not endpoint.handler.running_count)
        connection.connection_lost(None)
