"""A client that is reset at any wait of its request costs the others nothing: at a server, a bridge and a gateway.

The request is driven step by step, and cancelled, or its client leaves, at its first wait, at its second, and so on,
while others run. All of them use what the first one happened to open or to read.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.cancelled_steps import MANY
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.http.asgi_client import Web
from support.http.leaving_client import LeavingClient, is_answered, left_at
from support.matrices import long_after
from support.project import ROOT

from mcp_generated import App, Gateway
from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.bridge.state import BridgeSettings
from mcp_products.relay.upstream.target import Target
from mcp_runtime.transports.http_server.app import MCPASGIApp

ECHO = [sys.executable, str(ROOT / "examples/echo/server.py"), "stdio"]
KINDS = pytest.mark.parametrize("kind", ["server", "bridge", "bridge with shared connections", "gateway"])
WAYS = pytest.mark.parametrize("way", long_after(1, ["cancelled", "disconnected"]))


def application(kind: str) -> Any:
    """Return the ASGI application of an endpoint to the echo."""
    if kind == "gateway":
        return Gateway({"upstreams": {"echo": {"command": ECHO[0], "args": ECHO[1:], "prefix": ""}}}).app.asgi()
    if kind == "server":
        app = App("echo")

        @app.tool
        async def echo(text: str) -> str:
            await asyncio.sleep(0)
            return text

        return app.asgi()
    settings = BridgeSettings(shared=0 if kind == "bridge" else 1)
    return MCPASGIApp(Bridge(Target(command=tuple(ECHO)), "mcp_generated", settings).services())


@asynccontextmanager
async def serving(kind: str) -> AsyncIterator[Any]:
    app = application(kind)
    try:
        yield app
    finally:
        await app.close()


@WAYS
@KINDS
@among([HANDSHAKE[-1], *STATELESS])
@pytest.mark.deadline(120)
async def test_a_request_that_is_left_at_any_wait_leaves_the_endpoint_well(kind: str, rev: Rev, way: str) -> None:
    async with serving(kind) as app:
        session = await opened(app, rev)
        for number in range(1, MANY):
            leaving = asyncio.create_task(left_at(number, LeavingClient(app, rev, session, 0), way))
            beside = asyncio.create_task(is_answered(app, rev, session, 2 * number))
            was_left = await leaving
            assert await beside, f"beside one that was left at its wait {number}"
            assert await is_answered(app, rev, session, 2 * number + 1), f"after one that was left at {number}"
            if not was_left:
                break
        assert 2 <= number < MANY - 1


@pytest.mark.edges("gateway-cancelled", "bridge-disconnected")
@pytest.mark.long
@WAYS
@KINDS
@among(STATELESS)
@pytest.mark.deadline(600)
async def test_the_first_request_of_all_may_be_left_at_any_wait(kind: str, rev: Rev, way: str) -> None:
    for number in range(1, MANY):
        async with serving(kind) as app:
            leaving = asyncio.create_task(left_at(number, LeavingClient(app, rev, None, 0), way))
            beside = asyncio.create_task(is_answered(app, rev, None, 1))
            was_left = await leaving
            assert await beside and await is_answered(app, rev, None, 2), f"after one that was left at {number}"
        if not was_left:
            return


async def opened(app: Any, rev: Rev) -> str | None:
    """Return the session of a client; None where there are none."""
    if rev.stateless:
        return None
    web = Web(app, rev)
    await web.open()
    return web.session
