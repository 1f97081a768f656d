"""Users whom Starlette's middleware has authenticated own their sessions, state and tasks by what tells them apart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among, server_of
from support.http.asgi_client import Web
from support.servers.jobs import Seen, jobs
from support.task_clients import CAPABILITIES

from mcp_generated import LocalError

META = "io.modelcontextprotocol/clientCapabilities"


class Base:
    """A user as Starlette's base class has it."""

    is_authenticated = True
    display_name = "Al"

    @property
    def identity(self) -> str:
        raise NotImplementedError


class Named(Base):
    """A user as Starlette's `SimpleUser`."""

    def __init__(self, username: str) -> None:
        self.username = username


USERS = {
    "identity": lambda name: SimpleNamespace(is_authenticated=True, identity=name, display_name="Al"),
    "a number": lambda name: SimpleNamespace(is_authenticated=True, identity=len(name), display_name="Al"),
    "username": Named,
}
by = pytest.mark.parametrize("kind", USERS)


@by
@among(STATELESS)
async def test_a_sealed_state_serves_the_user_alone_whom_it_was_sealed_for(rev: Rev, kind: str) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text((await ctx.list_roots()).roots[0].uri)

    web = Web(app := server_of(rev, call_tool=call_tool).asgi(), rev)
    alice, bob = USERS[kind]("alice"), USERS[kind]("bob")
    params: dict[str, Any] = {"name": "x", "arguments": {}, "_meta": {**rev.meta(), META: {"roots": {}}}}
    first = (await web.answered(body=rev.request(1, "tools/call", params), user=alice)).json["result"]
    [key] = first["inputRequests"]
    params |= {"requestState": first["requestState"], "inputResponses": {key: {"roots": [{"uri": "file:///a"}]}}}
    for user in (bob, None):
        refused = await web.answered(body=rev.request(2, "tools/call", params), user=user)
        assert "requestState" in refused.json["error"]["message"]
    accepted = await web.answered(body=rev.request(3, "tools/call", params), user=USERS[kind]("alice"))
    assert b"file:///a" in accepted.content
    await app.close()


@by
@among(STATELESS)
async def test_a_task_is_found_by_the_user_alone_who_made_it(rev: Rev, kind: str) -> None:
    web = Web(app := jobs(Seen()).server.asgi(revisions=[rev.id]), rev)
    alice, bob = USERS[kind]("alice"), USERS[kind]("bob")
    meta = {"_meta": {**rev.meta(), META: CAPABILITIES}}
    call = rev.request(1, "tools/call", {"name": "wait", "arguments": {}, **meta})
    id = (await web.answered(body=call, user=alice)).json["result"]["taskId"]
    for method, more in {"tasks/get": {}, "tasks/update": {"inputResponses": {}}, "tasks/cancel": {}}.items():
        message = rev.request(2, method, {"taskId": id, **more, **meta})
        for user in (bob, None):
            refused = await web.answered(body=message, headers={"mcp-name": id}, user=user)
            assert "there is no task" in refused.json["error"]["message"], method
        answer = await web.answered(body=message, headers={"mcp-name": id}, user=USERS[kind]("alice"))
        assert "result" in answer.json, method
    await app.close()


@by
@among(HANDSHAKE[1:])
async def test_a_session_is_found_by_the_user_alone_who_opened_it(rev: Rev, kind: str) -> None:
    web = Web(app := server_of(rev).asgi(), rev)
    hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    opened = await web.answered(body=rev.request(0, "initialize", hello), user=USERS[kind]("alice"))
    web.session = opened.headers["mcp-session-id"]
    for user, status in ((USERS[kind]("bob"), 404), (None, 404), (USERS[kind]("alice"), 200)):
        assert (await web.answered(body=rev.request(1, "ping"), user=user)).status == status
    await app.close()


@among([HANDSHAKE[-1], *STATELESS])
async def test_users_whom_nothing_tells_apart_are_refused(rev: Rev) -> None:
    web = Web(app := server_of(rev).asgi(), rev)
    with pytest.raises(LocalError, match="Base has no `identity`"):
        await web.answered(body=rev.request(1, "ping"), user=Base())
    await app.close()
