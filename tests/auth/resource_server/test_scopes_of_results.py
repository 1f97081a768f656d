"""A result has the scopes of the call that it is of: whoever reads it later, as a task or from a stream, needs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.auth.resource_server import Authority, challenge, endpoint
from support.endpoints import HANDSHAKE, STATELESS, Rev, among, since
from support.servers.jobs import SOON
from support.task_clients import CAPABILITIES

from mcp_generated import App, Context
from mcp_generated.middleware import AuthMiddleware, restrict_tag
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_runtime.http.sse import SSEDecoder

KINDS = ("scopes of the tool", "scopes that the handler requires", "scopes required in the task", "a middleware")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


def secretive(kind: str, let: asyncio.Event, **settings: Any) -> Any:
    """A server whose tool `secret` requires the scope `read` in this kind."""
    app = App("secretive", middleware=[AuthMiddleware(restrict_tag("secret", scopes=["read"]))])
    tool = app.tool(
        scopes=["read"] if kind == "scopes of the tool" else [], tags={"secret"} if kind == "a middleware" else set(),
        **settings,
    )  # fmt: skip

    @tool
    async def secret(ctx: Context) -> str:
        if kind == "scopes that the handler requires":
            ctx.require_scopes("read")
        await ctx.as_task()
        if kind == "scopes required in the task":
            ctx.require_scopes("read")
        await ctx.status("reading")
        await let.wait()
        return "the secret"

    return app.server


@among(STATELESS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_is_read_and_changed_with_the_scopes_of_its_call(rev: Rev, issuer: Authority, kind: str) -> None:
    let = asyncio.Event()
    server = secretive(kind, let, task=SOON)
    async with asyncio.timeout(30), endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), server) as at:
        meta = {**rev.meta(), "io.modelcontextprotocol/clientCapabilities": CAPABILITIES}
        full, narrow = issuer.token(at.url, scope="read"), issuer.token(at.url)

        async def send(token: str, method: str, named: str, **params: Any) -> Any:
            return await at.post(rev.request(1, method, {**params, "_meta": meta}), token, **{"mcp-name": named})

        created = await send(full, "tools/call", "secret", name="secret", arguments={})
        id: str = json.loads(created.content)["result"]["taskId"]
        while "reading" not in (await send(full, "tasks/get", id, taskId=id)).text:
            await asyncio.sleep(0)
        for method, more in {"tasks/get": {}, "tasks/update": {"inputResponses": {}}, "tasks/cancel": {}}.items():
            refused = await send(narrow, method, id, taskId=id, **more)
            assert refused.status_code == 403 and challenge(refused)["scope"] == "read", method
        let.set()
        while "the secret" not in (await send(full, "tasks/get", id, taskId=id)).text:
            await asyncio.sleep(0)
        refused = await send(narrow, "tasks/get", id, taskId=id)
        assert refused.status_code == 403 and "secret" not in refused.text


@among(STATELESS)
async def test_a_task_is_subscribed_to_with_the_scopes_of_its_call(rev: Rev, issuer: Authority) -> None:
    server = secretive(KINDS[0], asyncio.Event(), task=SOON)
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), server) as at:
        meta = {**rev.meta(), "io.modelcontextprotocol/clientCapabilities": CAPABILITIES}
        full, narrow = issuer.token(at.url, scope="read"), issuer.token(at.url)
        call = rev.request(1, "tools/call", {"name": "secret", "arguments": {}, "_meta": meta})
        id = json.loads((await at.post(call, full)).content)["result"]["taskId"]
        listen = rev.request(2, "subscriptions/listen", {"notifications": {"taskIds": [id]}, "_meta": meta})
        for token, accepted in ((full, [id]), (narrow, [])):
            head = {"mcp-method": "subscriptions/listen", "mcp-protocol-version": rev.id}
            head |= {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
            async with at.http.stream("POST", at.url, json=listen, headers=head) as stream:
                parts, events = SSEDecoder(), list[Any]()
                async for part in stream.aiter_raw():
                    events += parts.feed(part)
                    if events:
                        break
            assert json.loads(events[0].data)["params"]["notifications"].get("taskIds", []) == accepted


@among(since("2025-03-26", HANDSHAKE))
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[3]])
async def test_a_stream_is_resumed_with_the_scopes_of_its_call(rev: Rev, issuer: Authority, kind: str) -> None:
    let = asyncio.Event()
    let.set()
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), secretive(kind, let)) as at:
        full, narrow = issuer.token(at.url, scope="read"), issuer.token(at.url)
        await at.open(full)
        streamed = await at.call(full, "secret", accept="text/event-stream")
        first = next(iter(SSEDecoder().feed(streamed.content))).id.rpartition("-")[0] + "-0"
        for token, status in ((narrow, 403), (full, 200)):
            head = {"accept": "text/event-stream", "authorization": f"Bearer {token}", **at.session}
            answer = await at.http.get(at.url, headers={**head, "last-event-id": first})
            assert answer.status_code == status and ("the secret" in answer.text) == (status == 200)
            assert status == 200 or challenge(answer)["scope"] == "read"
