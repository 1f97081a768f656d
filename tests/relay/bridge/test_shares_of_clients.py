"""Slow calls of one client, a user or an address, leave connections to others, at a bridge and at a gateway."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from support.feature_cells.bridge.bridge_processes import bridge_command, listening, with_our_packages
from support.http.sockets import listening as listening_app

from mcp_generated import Gateway
from mcp_generated.auth import AuthenticatedUser, ResourceServer

NEW, META = "2026-07-28", "io.modelcontextprotocol/"
SERVER = """
import asyncio
from mcp_generated import App

app = App("slow")
go = asyncio.Event()

@app.tool
async def slow() -> str:
    await asyncio.sleep(100)
    return "slow"

@app.tool
async def quick() -> str:
    return "quick"

app.run(revisions=["2025-06-18"])
"""
KINDS = pytest.mark.parametrize("kind", ["bridge", "gateway"])
LIMIT = 4


class Verifier:
    """Knows the tokens of users: their names."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token."""
        return AuthenticatedUser(token, issuer="https://auth.example")


@asynccontextmanager
async def endpoint(kind: str, limit: int, auth: Any = None) -> AsyncIterator[str]:
    """Serve the slow server by way of a bridge or of a gateway."""
    command = with_our_packages(sys.executable, "-c", SERVER)
    if kind == "bridge":
        options = ("--http", "127.0.0.1:0", "--connections", str(limit))
        yield listening(bridge_command(*command, options=options)) + "/mcp"
        return
    entry = {"command": command[0], "args": command[1:], "connections": limit, "prefix": ""}
    async with listening_app(Gateway({"upstreams": {"slow": entry}}).app.asgi(auth=auth)) as port:
        yield f"http://127.0.0.1:{port}/mcp"


class Caller:
    """A client with an address, or with a user, that may answer questions: each of its calls needs a connection."""

    def __init__(self, url: str, address: str = "127.0.0.1", user: str | None = None) -> None:
        self._url = url
        self._user = {} if user is None else {"authorization": f"Bearer {user}"}
        transport = httpx2.AsyncHTTPTransport(local_address=address, limits=httpx2.Limits(max_connections=None))
        self.web = httpx2.AsyncClient(transport=transport, timeout=60)

    async def call(self, tool: str, capabilities: dict[str, Any]) -> dict[str, Any]:
        """Return the response of a tool."""
        meta = {f"{META}protocolVersion": NEW, f"{META}clientCapabilities": capabilities}
        params = {"name": tool, "arguments": {}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": NEW, **self._user}
        headers |= {"mcp-method": "tools/call", "mcp-name": tool}
        response = await self.web.post(self._url, json=message, headers=headers)
        return response.json()  # type: ignore[no-any-return]


def capabilities(number: int, same: bool) -> dict[str, Any]:
    """Return capabilities of a client that answers questions; a client chooses what it declares."""
    return {"elicitation": {}, **({} if same else {"experimental": {f"x{number}": {}}})}


@pytest.mark.long
@KINDS
@pytest.mark.parametrize("same", [True, False], ids=["the same capabilities", "others for each call"])
@pytest.mark.deadline(60)
async def test_slow_calls_of_one_address_leave_connections_to_another(kind: str, same: bool) -> None:
    async with endpoint(kind, LIMIT) as url:
        greedy, other = Caller(url, "127.0.0.1"), Caller(url, "127.0.0.2")
        async with greedy.web, other.web, asyncio.timeout(30):
            slow = [asyncio.create_task(greedy.call("slow", capabilities(n, same))) for n in range(3 * LIMIT)]
            await other.call("quick", {"elicitation": {}})
            for _ in range(3):
                answer = await other.call("quick", {"elicitation": {}})
                assert answer["result"]["content"][0]["text"] == "quick"
            assert not any(task.done() for task in slow)
            for task in slow:
                task.cancel()


@pytest.mark.long
@pytest.mark.deadline(60)
async def test_users_behind_one_address_have_shares_of_their_own() -> None:
    auth = ResourceServer("http://127.0.0.1/mcp", ["https://auth.example"], verifier=Verifier())
    async with endpoint("gateway", LIMIT, auth) as url:
        greedy, other = Caller(url, user="greedy"), Caller(url, user="ada")
        async with greedy.web, other.web, asyncio.timeout(30):
            slow = [asyncio.create_task(greedy.call("slow", {"elicitation": {}})) for _ in range(3 * LIMIT)]
            answer = await other.call("quick", {"elicitation": {}})
            assert answer["result"]["content"][0]["text"] == "quick"
            for task in slow:
                task.cancel()


@pytest.mark.long
@KINDS
@pytest.mark.deadline(60)
async def test_connections_of_a_client_that_has_gone_are_for_others_at_once(kind: str) -> None:
    async with endpoint(kind, 2) as url:
        gone, other = Caller(url, "127.0.0.1"), Caller(url, "127.0.0.1")
        async with other.web, asyncio.timeout(40):
            async with gone.web:
                slow = [asyncio.create_task(gone.call("slow", {"elicitation": {}})) for _ in range(6)]
                await asyncio.sleep(0)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(1):
                        await asyncio.gather(*slow)
            answer = await other.call("quick", {"elicitation": {}})
            assert answer["result"]["content"][0]["text"] == "quick"
