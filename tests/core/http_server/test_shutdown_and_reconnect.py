"""Servers that end and come back, clients that go, and proxies in between that buffer, or drop what is silent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, among, server_of, since
from support.http.sockets import Caller, Proxy, listening, proxied
from support.processes import free_port

from mcp_products.hosting.run import listen
from mcp_runtime.errors import MCPError
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.transports.http_client.connection import HTTPOptions
from mcp_runtime.transports.http_server.app import HTTPLimits

parsers = pytest.mark.parametrize("http", ["h11", "httptools"])

SERVER = """
import asyncio, sys
from mcp_generated.v2026_07_28 import Server, types as t
class Slow(Server):
    async def list_tools(self, ctx, params):
        return t.ListToolsResult(tools=[], ttl_ms=0, cache_scope="private")
    async def call_tool(self, ctx, params):
        await ctx.progress(1)
        if params.name == "stuck":
            print("stuck", flush=True)
            await asyncio.Event().wait()
        return t.CallToolResult(content=[t.TextContent(text=params.name * (1_000_000 if params.name == "big" else 1))])
server = Slow(name="slow", version="1", capabilities={"tools": {"listChanged": True}})
server.run("http", port=int(sys.argv[1]), legacy_sse=True)
"""


@asynccontextmanager
async def process(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server in a process of its own, which listens already."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(port), stdout=asyncio.subprocess.PIPE, env=env
    )
    try:
        async with asyncio.timeout(15):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except ConnectionError:
                    await asyncio.sleep(0.05)
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def line(started: asyncio.subprocess.Process) -> bytes:
    assert started.stdout is not None
    return await started.stdout.readline()


@pytest.mark.long
@among(since("2025-03-26"))
async def test_a_client_goes_on_with_a_server_that_was_killed_and_started_again(rev: Rev) -> None:
    port = free_port()
    async with process(port) as first:
        client = rev.package.Client.http(f"http://127.0.0.1:{port}/mcp")
        await client.__aenter__()
        try:
            assert (await client.call_tool(name="one")).content[0].text == "one"
            stuck = asyncio.create_task(client.call_tool(name="stuck"))
            assert await line(first) == b"stuck\n"
            first.kill()
            await first.wait()
            async with process(port):
                with pytest.raises(MCPError):
                    await stuck
                assert (await client.call_tool(name="two")).content[0].text == "two"
                await client.__aexit__(None, None, None)
        finally:
            await client.close()


@pytest.mark.long
async def test_a_server_that_is_told_to_end_does_so_whatever_is_open() -> None:
    port = free_port()
    session, stateless = HANDSHAKE[-1], STATELESS[-1]
    async with process(port) as server, httpx2.AsyncClient(timeout=None) as web:
        url = f"http://127.0.0.1:{port}/mcp"
        shaken, single = Caller(session, url, web), Caller(stateless, url, web)
        await shaken.open(url)
        listen = stateless.request("sub", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        stuck = {"name": "stuck", "_meta": {"progressToken": "t"}}
        plain = stateless.request(3, "tools/call", {"name": "stuck"})
        named = {"mcp-method": "tools/call", "mcp-name": "stuck"}
        requests = [
            ("GET", shaken, None, {}),
            ("GET", Caller(HANDSHAKE[0], f"http://127.0.0.1:{port}/sse", web), None, {}),
            ("POST", shaken, session.request(1, "tools/call", stuck), {}),
            ("POST", single, stateless.request(1, "tools/call", stuck), named),
            ("POST", single, listen, {"mcp-method": "subscriptions/listen"}),
        ]
        open_, reading = [], []
        for method, caller, body, more in requests:
            request = web.build_request(method, caller.url, json=body, headers=caller.headers | more)
            answer = await web.send(request, stream=True)
            assert answer.status_code == 200, await answer.aread()
            open_.append(answer)
        for answer in open_:
            reading.append(asyncio.create_task(answer.aread()))
        for caller, request in ((shaken, session.request(2, "tools/call", {"name": "stuck"})), (single, plain)):
            reading.append(asyncio.create_task(web.post(url, json=request, headers=caller.headers | named)))
        assert [await line(server) for _ in range(4)] == [b"stuck\n"] * 4
        big = web.build_request(
            "POST",
            url,
            json=stateless.request(4, "tools/call", {"name": "big"}),
            headers=single.headers | {**named, "mcp-name": "big"},
        )
        reading.append(asyncio.create_task(web.send(big, stream=True)))  # Its body is never read.
        await asyncio.wait(reading[-1:])
        began = time.perf_counter()
        server.send_signal(signal.SIGTERM)
        await asyncio.wait_for(server.wait(), 10)
        print(f"the server ended {time.perf_counter() - began:.2f} s after it was told to")
        ended = await asyncio.gather(*reading, return_exceptions=True)
        assert b'"id":"sub"' in ended[4], "who listens is told of the end"


@among(since("2025-03-26"))
async def test_a_client_that_goes_in_the_middle_of_a_stream_leaves_the_server_well(rev: Rev) -> None:
    started, go, cancelled, done = (asyncio.Event() for _ in range(4))

    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "leave":
            await ctx.progress(1)
            started.set()
            try:
                await go.wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            for step in range(50):
                await ctx.progress(2 + step)
            done.set()
        return rev.text(params.name)

    async with listening(server_of(rev, call_tool=call_tool).asgi(path="/mcp")) as port:
        proxy = Proxy(port)
        async with proxied(proxy) as url:
            async with rev.package.Client.http(f"http://127.0.0.1:{port}/mcp") as staying:
                going = rev.package.Client.http(url)
                await going.__aenter__()
                progressed = asyncio.Event()
                options = RequestOptions(on_progress=lambda _: progressed.set())
                call = asyncio.create_task(going.call_tool(name="leave", options=options))
                await asyncio.gather(started.wait(), progressed.wait())
                await going.close()
                proxy.cut()
                with pytest.raises(MCPError):
                    await call
                if rev.stateless:
                    await cancelled.wait()
                else:
                    go.set()
                assert (await staying.call_tool(name="stay")).content[0].text == "stay"


def at(url: str, rev: Rev) -> str:
    """Where a client of a revision goes: the first has the older pair of endpoints alone."""
    return url if rev.revision.http.streamable else url.replace("/mcp", "/sse")


@among(ALL_REVISIONS)
@parsers
@pytest.mark.transport_rule("2026-07-28/14")
async def test_a_proxy_that_drops_silent_connections_finds_none(rev: Rev, http: str) -> None:
    """Neither the stream of a call nor the standing one is silent as long as the proxy waits for it."""
    go = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        await go.wait()
        return rev.text("late")

    app = server_of(rev, call_tool=call_tool).asgi(path="/mcp", limits=HTTPLimits(keep_alive=0.05), legacy_sse=True)
    async with listening(app, http=http) as port:
        proxy = Proxy(port)
        async with proxied(proxy) as url, rev.package.Client.http(at(url, rev)) as client:
            proxy.idle = 2.0
            progressed = asyncio.Event()
            call = asyncio.create_task(
                client.call_tool(name="x", options=RequestOptions(on_progress=lambda _: progressed.set()))
            )
            await progressed.wait()
            before = proxy.passed
            while proxy.passed < before + 60:
                await asyncio.sleep(0.05)
            go.set()
            assert (await call).content[0].text == "late" and proxy.cuts == 0
            proxy.idle = None


@among(since("2025-11-25", HANDSHAKE))
@parsers
async def test_a_call_survives_a_proxy_that_drops_its_silent_stream(rev: Rev, http: str) -> None:
    go = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        await go.wait()
        return rev.text("late")

    async with listening(server_of(rev, call_tool=call_tool).asgi(path="/mcp"), http=http) as port:
        proxy = Proxy(port)
        async with proxied(proxy) as url, rev.package.Client.http(url) as client:
            progressed = asyncio.Event()
            proxy.idle = 0.2
            options = RequestOptions(on_progress=lambda _: progressed.set())
            call = asyncio.create_task(client.call_tool(name="x", options=options))
            await progressed.wait()
            while proxy.cuts < 2:
                await asyncio.sleep(0.05)
            proxy.idle = None
            go.set()
            assert (await call).content[0].text == "late"


@among(since("2025-03-26"))
@parsers
async def test_a_proxy_that_buffers_gives_all_of_an_answer_at_its_end(rev: Rev, http: str) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        for step in range(3):
            await ctx.progress(step + 1)
        return rev.text("done")

    async with listening(server_of(rev, call_tool=call_tool).asgi(path="/mcp"), http=http) as port:
        proxy, values = Proxy(port, buffers=True), list[float]()
        reach = HTTPOptions(headers={"connection": "close"})  # This proxy knows the end of an answer by that alone.
        async with proxied(proxy) as url, rev.package.Client.http(url, http=reach) as client:
            options = RequestOptions(on_progress=lambda progress: values.append(progress.progress))
            assert (await client.call_tool(name="x", options=options)).content[0].text == "done"
            assert values == [1, 2, 3]


@among(since("2025-03-26"))
@parsers
@pytest.mark.transport_rule("2026-07-28/13")
async def test_proxies_are_asked_not_to_buffer_and_not_to_keep_a_stream(rev: Rev, http: str) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        return rev.text("done")

    async with listening(server_of(rev, call_tool=call_tool).asgi(path="/mcp"), http=http) as port:
        async with httpx2.AsyncClient(timeout=15) as web:
            url = f"http://127.0.0.1:{port}/mcp"
            caller = Caller(rev, url, web)
            if not rev.stateless:
                await caller.open(url)
            body = rev.request(1, "tools/call", {"name": "x", "_meta": {"progressToken": "t"}})
            named = {"mcp-method": "tools/call", "mcp-name": "x"} if rev.stateless else {}
            answer = await web.post(url, json=body, headers=caller.headers | named)
            assert (answer.headers["x-accel-buffering"], answer.headers["cache-control"]) == ("no", "no-store")


async def test_what_a_server_accepts_sends_each_part_at_once() -> None:
    """A body that waits for the acknowledgement of its head comes 40 ms late, with each answer."""
    with listen("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()) as client:
        accepted, _ = bound.accept()
        with accepted:
            assert client and accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@among(ALL_REVISIONS[-1:])
@pytest.mark.clause("2024-11-05/transports/06", "2025-03-26/transports/08", "draft/transports/08")
@pytest.mark.transport_rule("2026-07-28/03")
async def test_a_server_listens_on_the_loopback_where_nothing_else_is_said(rev: Rev) -> None:
    port = free_port()
    async with process(port):
        with socket.socket() as other:
            other.settimeout(5)
            assert other.connect_ex(("127.0.0.2", port)) != 0
