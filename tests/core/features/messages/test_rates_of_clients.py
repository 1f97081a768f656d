"""A client that calls too often is refused, and no other: clients are users, else sessions, else addresses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.http.asgi_client import Answer, Web

from mcp_generated import App, RateLimit

ALL_WITH_HTTP = [*HANDSHAKE[1:], *STATELESS]
SLOW = RateLimit(per_second=0.5, burst=2)


def limited() -> App:
    app = App("limited", rate_limits={"call_tool": SLOW})

    @app.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return app


@asynccontextmanager
async def served(rev: Rev, **settings: Any) -> AsyncIterator[Any]:
    """What opens a client with an address and a name."""
    app = limited().asgi(owner=lambda scope: scope.get("state", {}).get("name"), **settings)

    async def client(address: str | None = "192.0.2.1", name: str | None = None) -> Client:
        opened = Client(app, rev, address, name)
        if not rev.stateless:
            await opened.web.open()
        return opened

    try:
        yield client
    finally:
        await app.close()


class Client:
    """A client of one address, which is authenticated as the user of this name."""

    def __init__(self, app: Any, rev: Rev, address: str | None, name: str | None) -> None:
        async def addressed(scope: Any, receive: Any, send: Any) -> None:
            client = None if address is None else (address, 50_000)
            await app({**scope, "client": client, "state": {"name": name}}, receive, send)

        self.web = Web(addressed, rev)

    async def call(self) -> Answer:
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        return await self.web.answered(body=self.web.rev.request(1, "tools/call", call))

    async def is_refused(self) -> bool:
        """Return True if the next call is refused."""
        answer = await self.call()
        message = answer.json if answer.content.startswith(b"{") else answer.json_messages[-1]
        if "error" in message:
            assert "too many 'tools/call' requests" in message["error"]["message"]
            assert 0 < message["error"]["data"]["retryAfter"] <= 2
        return "error" in message

    async def exhaust(self) -> None:
        assert [await self.is_refused() for _ in range(3)] == [False, False, True]


@among(STATELESS)
async def test_without_users_and_sessions_each_address_has_its_rate(rev: Rev) -> None:
    async with served(rev) as client:
        await (await client("192.0.2.1")).exhaust()
        for address in ("192.0.2.2", "2001:db8:1::1", "2001:db8:2::1"):
            await (await client(address)).exhaust()
        for address in ("192.0.2.1", "::ffff:192.0.2.1", "2001:db8:1::2", "2001:db8:2:0:ffff::%eth0"):
            assert await (await client(address)).is_refused(), address
        await (await client(None)).exhaust()


@among(HANDSHAKE[1:])
async def test_without_users_a_new_session_of_an_address_has_the_rate_of_the_address(rev: Rev) -> None:
    async with served(rev) as client:
        for address in ("192.0.2.1", "192.0.2.2", None):
            await (await client(address)).exhaust()
            for _ in range(3):
                assert await (await client(address)).is_refused()


@among(HANDSHAKE[1:])
async def test_where_sessions_are_off_each_address_has_its_rate(rev: Rev) -> None:
    async with served(rev, stateless_http=True) as client:
        await (await client("192.0.2.1")).exhaust()
        assert await (await client("192.0.2.1")).is_refused()
        await (await client("192.0.2.2")).exhaust()


@among(ALL_WITH_HTTP)
async def test_a_user_has_one_rate_from_all_addresses_and_in_all_sessions(rev: Rev) -> None:
    async with served(rev) as client:
        await (await client("192.0.2.1", "ann")).exhaust()
        assert await (await client("192.0.2.2", "ann")).is_refused()
        await (await client("192.0.2.1", "bob")).exhaust()
        await (await client("192.0.2.1")).exhaust()


@among(ALL_WITH_HTTP)
async def test_a_client_that_is_refused_gets_the_time_to_wait_in_a_header(rev: Rev) -> None:
    async with served(rev, json_response=True) as client:
        one = await client()
        assert "retry-after" not in (await one.call()).headers
        await one.call()
        assert (await one.call()).headers["retry-after"] in ("1", "2")


async def test_the_table_of_rates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_runtime.server.limits._MAX_CLIENTS", 3)
    async with served(STATELESS[-1]) as client:
        await (await client("192.0.2.1")).exhaust()
        await (await client("192.0.2.2")).exhaust()
        for number in range(10, 20):
            await (await client(f"192.0.2.{number}")).call()
            assert await (await client("192.0.2.2")).is_refused()  # It is in use, and stays.
        await (await client("192.0.2.1")).exhaust()
