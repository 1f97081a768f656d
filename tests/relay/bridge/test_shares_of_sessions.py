"""Sessions of one client leave connections to the others, at a bridge, a gateway and a proxy; what is too much is
refused."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from support.clients import connect
from support.feature_cells.bridge.bridge_processes import bridge_command, listening, with_our_packages
from support.http.raw_sessions import Session
from support.http.sockets import listening as listening_app

from mcp_generated import App, Gateway
from mcp_generated.auth import AuthenticatedUser, ResourceServer
from mcp_products.relay.upstream.target import ClientConnector

LIMIT = 4
SERVER = """
from mcp_generated import App

app = App("one")

@app.tool
def pid() -> int:
    import os
    return os.getpid()

app.run(revisions=["2025-06-18"])
"""
KINDS = pytest.mark.parametrize("kind", ["bridge", "gateway", "proxy", "configuration"])
FRONTS = pytest.mark.parametrize("front", ["2025-03-26", "2025-11-25"])
PID = "tools/call", {"name": "pid", "arguments": {}}
SETTINGS = {
    "bridge": "--session-connections",
    **dict.fromkeys(("gateway", "proxy", "configuration"), "session_connections"),
}


class Verifier:
    """Knows the tokens of users: their names."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token."""
        return AuthenticatedUser(token, issuer="https://auth.example")


@asynccontextmanager
async def endpoint(kind: str, auth: Any = None) -> AsyncGenerator[str]:
    """Serve the server by way of a bridge, of a gateway, or of a proxy."""
    command = with_our_packages(sys.executable, "-c", SERVER)
    if kind == "bridge":
        options = ("--http", "127.0.0.1:0", "--session-connections", str(LIMIT))
        yield listening(bridge_command(*command, options=options)) + "/mcp"
        return
    entry = {"command": command[0], "args": command[1:]}
    if kind == "gateway":
        app = Gateway({"upstreams": {"one": {**entry, "session_connections": LIMIT, "prefix": ""}}}).app
    else:
        target: Any = command if kind == "proxy" else {"mcpServers": {"one": entry}}
        app = App.proxy(target, session_connections=LIMIT)
    async with listening_app(app.asgi(auth=auth)) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def is_refused(answer: dict[str, Any], kind: str) -> bool:
    """Return True for a refusal that names the limit, and the setting that raises it."""
    message = answer.get("error", {}).get("message", "")
    return f"of {LIMIT}," in message and f"set {SETTINGS[kind]} to a higher number" in message


@pytest.mark.edges("2025-03-26-bridge", "2025-11-25-gateway")
@pytest.mark.long
@KINDS
@FRONTS
@pytest.mark.deadline(120)
async def test_sessions_of_one_address_leave_processes_to_another(kind: str, front: str) -> None:
    async with endpoint(kind) as url, AsyncExitStack() as stack:
        greedy = [Session(url, front, "127.0.0.1") for _ in range(2 * LIMIT)]
        others = [Session(url, front, f"127.0.0.{number}") for number in (2, 3)]
        for session in (*greedy, *others):
            await stack.enter_async_context(session.web)
        answers = [await session.call(*PID) for session in greedy]
        served = [answer for answer in answers if "result" in answer]
        assert len(served) == LIMIT // 2
        assert all(is_refused(answer, kind) for answer in answers if answer not in served), answers
        for other in others:
            assert "result" in await other.call(*PID)
        again = await greedy[0].request(*PID)
        assert again["result"]["content"] == answers[0]["result"]["content"], "the sessions that are open go on"


async def called_once(url: str) -> dict[str, Any]:
    """Return the answer to the only call of a session, which ends."""
    session = Session(url, "2025-11-25")
    async with session.web:
        answer = await session.call(*PID)
        await session.end()
    return answer


@pytest.mark.edges("bridge", "configuration")
@pytest.mark.long
@KINDS
@pytest.mark.deadline(120)
async def test_a_session_that_ends_gives_its_place_back(kind: str) -> None:
    async with endpoint(kind) as url, asyncio.timeout(100):
        for _ in range(LIMIT + 1):
            while is_refused(answer := await called_once(url), kind):  # The process before it has not ended yet.
                await asyncio.sleep(0.02)
            assert "result" in answer


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gateway", "proxy"])
@pytest.mark.deadline(120)
async def test_users_behind_one_address_have_shares_of_their_own(kind: str) -> None:
    auth = ResourceServer("http://127.0.0.1/mcp", ["https://auth.example"], verifier=Verifier())
    async with endpoint(kind, auth) as url, AsyncExitStack() as stack:
        greedy = [Session(url, "2025-11-25", user="greedy") for _ in range(LIMIT)]
        other = Session(url, "2025-11-25", user="ada")
        for session in (*greedy, other):
            await stack.enter_async_context(session.web)
        answers = [await session.call(*PID) for session in greedy]
        assert ["result" in answer for answer in answers] == [True, True, False, False]
        assert "result" in await other.call(*PID)


@pytest.mark.long
@pytest.mark.deadline(60)
async def test_a_refused_session_does_not_make_the_server_look_ill() -> None:
    command = with_our_packages(sys.executable, "-c", SERVER)
    entry = {"command": command[0], "args": command[1:], "session_connections": 1, "prefix": ""}
    gateway = Gateway({"upstreams": {"one": entry}})
    async with listening_app(gateway.app.asgi()) as port, AsyncExitStack() as stack:
        sessions = [Session(f"http://127.0.0.1:{port}/mcp", "2025-11-25") for _ in range(2)]
        for session in sessions:
            await stack.enter_async_context(session.web)
        assert "result" in await sessions[0].call(*PID)
        answer = await sessions[1].call(*PID)
        assert "of all sessions are in use" in answer["error"]["message"]
        assert answer["error"]["data"]["retryAfter"] > 0
        assert gateway.health() == {"status": "ok", "upstreams": {"one": "ok"}, "circuits": {"one": "closed"}}


def test_the_default_is_that_of_the_target() -> None:
    processes: list[Any] = [["server"], "server --fast", {"command": "server"}, connect(["server"])]
    others: list[Any] = ["http://127.0.0.1:1/mcp", {"url": "http://127.0.0.1:1/mcp"}, App("inner")]
    assert [_factory(target).session_connections for target in processes] == [256] * len(processes)
    assert [_factory(target).session_connections for target in others] == [10_000] * len(others)


def _factory(target: Any) -> ClientConnector:
    return ClientConnector(App("proxy").client_class(), target, "all", {})
