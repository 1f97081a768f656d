"""What the function of a repeatable task has of its call: the same user, whichever worker runs it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import STATELESS
from support.stores.homes import place_of
from support.stores.repeatable_server import CAPABILITIES
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, Context, TaskOptions
from mcp_generated.auth import AuthenticatedUser
from mcp_products.extensions.tasks.store import TaskRecord
from mcp_products.workers.tasks.repeatable import RepeatableCall

pytest.importorskip("docket", reason="docket is not installed (pip install pydocket)")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="there is no Redis on Windows"),
]
REV = STATELESS[-1]
META = {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}


def record(owner: str) -> TaskRecord:
    times = {"created": 1.0, "updated": 1.0, "ttl": 60.0, "poll_interval": 1.0}
    return TaskRecord(id="1", owner=owner, status="working", scopes=("files:read",), **times)


def call(user: dict[str, Any] | None) -> RepeatableCall:
    params = {"name": "add", "arguments": {"a": [1, None, "ö"]}}
    return RepeatableCall(method="m", params=params, capabilities={}, client_info={"name": "c"}, user=user, retries=2)


def test_a_call_is_the_same_when_it_is_read_again() -> None:
    assert RepeatableCall.read(call(None).written()) == call(None)


def test_the_user_of_a_call_is_the_same_when_it_is_read_again() -> None:
    user = AuthenticatedUser(
        "ada", client_id="app", scopes=frozenset({"files:read"}), issuer="https://auth.example", claims={"roles": ["a"]}
    )
    fields = {name: getattr(user, name) for name in ("subject", "client_id", "issuer", "claims")}
    stored = RepeatableCall.read(call({**fields, "scopes": ["files:read"]}).written())
    auth = stored.auth(record(user.key))
    assert auth.user is not None and (auth.user.key, auth.user.claims) == (user.key, user.claims)
    assert (auth.owner_key, auth.checked_scopes) == (user.key, {"files:read"})
    auth.require_scopes(["files:read"])


def test_a_call_without_a_user_has_the_owner_of_its_task_and_no_scopes() -> None:
    auth = call(None).auth(record("owner:'alice'"))
    assert (auth.user, auth.owner_key) == (None, "owner:'alice'")
    with pytest.raises(Exception, match="needs the scopes: files:read"):
        auth.require_scopes(["files:read"])


def make_app() -> App:
    app = App("calls")

    @app.tool(task=TaskOptions(repeatable=True))
    async def who(ctx: Context, name: str) -> str:
        """What the function has of its call."""
        await ctx.progress(1, 2)
        await ctx.log("info", "is dropped")
        return f"{app.server.principal(ctx)} {ctx.client_info.get('name')} {sorted(ctx.capabilities)} {name}"

    return app


async def sent(client: Workers, at: int, method: str, user: str, **params: Any) -> dict[str, Any]:
    body = REV.request(1, method, {**params, "_meta": {**META, "progressToken": "p"}})
    headers = {"mcp-name": params.get("name", params.get("taskId")), "x-user": user}
    response: dict[str, Any] = (await client.answered(body=body, at=at, headers=headers)).json
    return response.get("result") or response["error"]


@pytest.mark.deadline(60)
async def test_a_function_has_the_owner_of_its_call_and_no_one_else_has_its_task(tmp_path: Path) -> None:
    def owner(scope: Any) -> str:
        return dict(scope["headers"]).get(b"x-user", b"alice").decode()

    async with workers(REV, make_app, place_of("redis", tmp_path), opened=str, owner=owner) as client:
        id = (await sent(client, 0, "tools/call", "alice", name="who", arguments={"name": "x"}))["taskId"]
        while (task := await sent(client, 1, "tasks/get", "alice", taskId=id))["status"] != "completed":
            await asyncio.sleep(0.02)
        text = task["result"]["content"][0]["text"]
        assert text.startswith("owner:'alice'") and text.endswith("['elicitation', 'extensions'] x"), text
        for at in range(3):
            assert "there is no task" in (await sent(client, at, "tasks/get", "mallory", taskId=id))["message"]
            assert "there is no task" in (await sent(client, at, "tasks/cancel", "mallory", taskId=id))["message"]
