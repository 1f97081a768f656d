"""Our client through a proxy that cuts its connections anywhere: what was said is heard once, and in order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among, server_of, since
from support.http.sockets import Proxy, listening, proxied

from mcp_runtime.session.requests import RequestOptions

# From this revision on the first event comes at once, so that a call can be resumed wherever it is cut after it.
PRIMED = since("2025-11-25", HANDSHAKE)
FIRST = 600  # Bytes in which the head and the first event are.
STEPS = 25


@pytest.mark.edges("0-")
@pytest.mark.long
@among(PRIMED)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.clause(
    "2025-03-26/transports/22", "2025-03-26/transports/31", "draft/transports/22", "draft/transports/31"
)
async def test_calls_cut_in_hundreds_of_places_are_heard_whole_and_once(rev: Rev, seed: int) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        for step in range(STEPS):
            await ctx.progress(step + 1, message="ü\u2028€" * (step % 5))
            await asyncio.sleep(0)
        return rev.text(params.name)

    chance = random.Random(seed)
    async with listening(server_of(rev, call_tool=call_tool).asgi(path="/mcp")) as port:
        proxy = Proxy(port)
        async with proxied(proxy) as url, rev.package.Client.http(url) as client:

            async def one(number: int) -> None:
                values: list[float] = []
                options = RequestOptions(on_progress=lambda progress: values.append(progress.progress))
                result = await client.call_tool(name=str(number), options=options)
                assert result.content[0].text == str(number) and values == list(range(1, STEPS + 1))

            proxy.allowed = lambda: chance.randrange(FIRST, 2500)
            await asyncio.gather(*(one(number) for number in range(76)))
            assert proxy.cuts >= 170
            proxy.allowed = lambda: None


@pytest.mark.long
@among(since("2025-03-26", HANDSHAKE))
async def test_the_standing_stream_is_cut_and_nothing_is_lost_or_doubled(rev: Rev) -> None:
    chance = random.Random(str(rev))
    server = server_of(rev, capabilities={"resources": {"subscribe": True}})
    uris = [f"x://{number}/{'ü' * (number % 7)}" for number in range(60)]
    received: list[str] = []
    first, enough = asyncio.Event(), asyncio.Event()

    async def on_resource_updated(self: Any, ctx: Any, params: Any) -> None:
        received.append(str(params.uri))
        first.set()
        if len(received) >= len(uris):
            enough.set()

    async with listening(server.asgi(path="/mcp")) as port:
        proxy = Proxy(port)
        async with proxied(proxy) as url:
            client_class = type("Hearing", (rev.package.Client,), {"on_resource_updated": on_resource_updated})
            async with client_class.http(url) as client:
                for uri in uris:
                    await client.subscribe(uri=uri)
                # Before an event has come, nobody could say after which one a stream is to go on.
                await server.notify_resource_updated(uri=uris[0])
                await first.wait()
                proxy.allowed = lambda: chance.randrange(FIRST, 3000)
                proxy.idle = 0.2
                proxy.cut()
                for uri in uris[1:]:
                    await server.notify_resource_updated(uri=uri)
                    await asyncio.sleep(0)
                await enough.wait()
                proxy.allowed = lambda: None
                proxy.idle = None
        assert received == uris and proxy.cuts
