"""The rate of a gateway is one for each client: its user, or else its address, whatever sessions it opens."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.clients import connect
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.project import SERVERS
from support.stores.homes import place_of
from support.stores.shared_workers import workers

from mcp_generated import Gateway
from mcp_generated.auth import AuthenticatedUser, ResourceServer

pytestmark = pytest.mark.deadline(120)

WAYWARD = str(SERVERS / "wayward.py")
REVISIONS = [*HANDSHAKE[1:], *STATELESS]


class Verifier:
    """Knows every token: it is the name of its user."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        return AuthenticatedUser(token, issuer="https://auth.example")


def gateway(tmp_path: Path) -> Gateway:
    """A gateway with a server that may be called twice."""
    server = {"command": sys.executable, "args": [WAYWARD], "rate": 0.001}
    return Gateway({"upstreams": {"web": server}})


class Web:
    """HTTP requests to one gateway from several addresses."""

    def __init__(self, rev: Rev, app: Any) -> None:
        self.rev = rev
        self.app = app

    async def call(self, address: str, user: str | None = None, *, method: str = "tools/call", **params: Any) -> bool:
        """Open a session, where there are sessions, and request something; return whether it was allowed."""
        transport = httpx2.ASGITransport(app=self.app, client=(address, 5))
        headers = {"accept": "application/json, text/event-stream", "x-forwarded-for": f"10.9.9.{id(params) % 250}"}
        headers |= {} if user is None else {"authorization": f"Bearer {user}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as web:
            if self.rev.stateless:
                web.headers.update({"mcp-protocol-version": self.rev.id, "mcp-method": method})
                if isinstance(name := params.get("name", params.get("uri")), str):
                    web.headers["mcp-name"] = name
            else:
                await self._open(web)
            answer = await web.post("/mcp", json=self.rev.request(1, method, params))
        is_refused = "too many requests to 'web'" in answer.text
        assert is_refused or answer.status_code == 200, answer.text
        return not is_refused

    async def _open(self, web: httpx2.AsyncClient) -> None:
        info = {"protocolVersion": self.rev.id, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        answer = await web.post("/mcp", json=self.rev.request(0, "initialize", info))
        web.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        if self.rev.id >= "2025-06-18":
            web.headers["mcp-protocol-version"] = self.rev.id
        await web.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})


@asynccontextmanager
async def served(rev: Rev, tmp_path: Path, **settings: Any) -> AsyncIterator[Web]:
    """Yield the requests to a gateway."""
    own = gateway(tmp_path)
    app = own.app.asgi(path="/mcp", **settings)
    try:
        yield Web(rev, app)
    finally:
        await app.close()
        for upstream in own._provider.upstreams.values():
            await upstream.close()


CALL = {"name": "web_own"}


@among(REVISIONS)
async def test_an_address_is_one_client_and_another_has_its_own_rate(rev: Rev, tmp_path: Path) -> None:
    async with served(rev, tmp_path) as web:
        assert await web.call("127.0.0.1", **CALL)
        assert not await web.call("127.0.0.1", **CALL), "a new session is not a new client"
        assert await web.call("127.0.0.2", **CALL), "one client does not take the rate of all"
        assert not await web.call("127.0.0.2", **CALL)
        assert await web.call("2001:db8::1", **CALL)
        assert not await web.call("2001:db8::2", **CALL), "a client may have all addresses of a network"


@among(REVISIONS)
async def test_a_user_is_one_client_wherever_it_is(rev: Rev, tmp_path: Path) -> None:
    auth = ResourceServer("http://127.0.0.1/mcp", ["https://auth.example"], verifier=Verifier())
    async with served(rev, tmp_path, auth=auth) as web:
        assert await web.call("127.0.0.1", "ada", **CALL)
        assert not await web.call("127.0.0.2", "ada", **CALL)
        assert await web.call("127.0.0.2", "eve", **CALL)


@among(REVISIONS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "web_own"}),
        ("resources/read", {"uri": "note://web/own"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "web_own"}, "argument": {"name": "a", "value": ""}},
        ),
    ],
    ids=["prompt", "resource", "completion"],
)
async def test_each_kind_of_request_counts(rev: Rev, tmp_path: Path, method: str, params: Any) -> None:
    async with served(rev, tmp_path) as web:
        assert await web.call("127.0.0.1", method=method, **params)
        assert not await web.call("127.0.0.1", **CALL)


async def test_each_connection_without_an_address_is_a_client(tmp_path: Path) -> None:
    own = gateway(tmp_path)
    async with connect(own.app) as first, connect(own.app) as second:
        for client in (first, second):
            assert (await client.call_tool("web_own", {})).content[0].text == "called own"  # type: ignore[union-attr]
            with pytest.raises(Exception, match="too many requests to 'web'"):
                await client.call_tool("web_own", {})


@among(REVISIONS)
async def test_the_rate_holds_over_all_workers(rev: Rev, tmp_path: Path) -> None:
    gateways: list[Gateway] = []

    def make() -> Any:
        gateways.append(gateway(tmp_path))
        return gateways[-1].app

    outcomes: list[bool] = []
    async with workers(rev, make, place_of("sqlite", tmp_path), count=2) as client:
        for id in range(4):
            body = rev.request(id, "tools/call", {"name": "web_own", "arguments": {}})
            outcomes.append("too many requests to 'web'" not in (await client.answered(body=body)).content.decode())
    assert len(gateways) == 2 and outcomes == [True] + [False] * 3
