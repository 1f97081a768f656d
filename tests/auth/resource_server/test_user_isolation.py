"""What belongs to a user stays with that user: sessions, their streams and answers, and state that was handed out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from support.auth.resource_server import BOTH, Authority, Endpoint, endpoint, others
from support.endpoints import HANDSHAKE, STATELESS, Rev, among, clause, server_of, since

from mcp_generated import App, Context
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_runtime.http.sse import SSEDecoder

SESSIONS = since("2025-03-26", HANDSHAKE)
NEWEST = SESSIONS[-1]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


@among(SESSIONS)
@clause("2025-03-26/transports/09", "draft/transports/09")
async def test_a_session_is_found_by_its_user_alone(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name])) as at:
        await at.open(issuer.token(at.url))
        for who, (token, status) in others(issuer, at.url).items():
            assert (await at.call(token)).status_code == status, who
            if status != 200:
                shown = {"authorization": f"Bearer {token}"} if token else {}
                head = {**at.session, **shown, "accept": "text/event-stream"}
                assert (await at.http.get(at.url, headers=head)).status_code == status, who
                assert (await at.http.delete(at.url, headers=head)).status_code == status, who
        assert [ctx.user.subject for ctx in at.ran] == ["alice"]


async def test_a_stream_is_resumed_by_its_user_alone_and_answers_come_from_nobody_else(issuer: Authority) -> None:
    rev = NEWEST
    answers: list[Any] = []

    async def call_tool(ctx: Any, params: Any) -> Any:
        answers.append(await ctx.list_roots())
        return rev.text("secret of alice")

    server = server_of(rev, call_tool=call_tool)
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), server) as at:
        alice, bob = issuer.token(at.url), issuer.token(at.url, sub="bob")
        hello = {"protocolVersion": rev.id, "capabilities": {"roots": {}}, "clientInfo": {"name": "a", "version": "1"}}
        opened = await at.post(rev.request(0, "initialize", hello), alice)
        at.session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": rev.id}
        await at.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, alice)
        head = {"accept": BOTH, **at.session, "authorization": f"Bearer {alice}"}
        call = rev.request(1, "tools/call", {"name": "x", "arguments": {}})
        async with at.http.stream("POST", at.url, json=call, headers=head) as stream:
            parts, read = SSEDecoder(), stream.aiter_raw()
            events: list[Any] = []
            while not any(event.data for event in events):
                events += parts.feed(await anext(read))
            request = json.loads(next(event.data for event in events if event.data))
            resuming = {"last-event-id": events[0].id, "accept": "text/event-stream"}
            stolen = await at.http.get(at.url, headers={**head, **resuming, "authorization": f"Bearer {bob}"})
            assert stolen.status_code == 404 and "secret" not in stolen.text
            forged = {"jsonrpc": "2.0", "id": request["id"], "result": {"roots": [{"uri": "file:///of/bob"}]}}
            assert (await at.post(forged, bob)).status_code == 404 and not answers
            honest = {"jsonrpc": "2.0", "id": request["id"], "result": {"roots": [{"uri": "file:///of/alice"}]}}
            assert (await at.post(honest, alice)).status_code == 202
            rest = b"".join([part async for part in read])
        assert b"secret of alice" in rest and answers[0].roots[0].uri == "file:///of/alice"


@among(STATELESS)
async def test_state_that_was_sealed_for_a_user_is_refused_from_another(rev: Rev, issuer: Authority) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        roots = await ctx.list_roots()
        return rev.text(f"{ctx.user.subject}: {roots.roots[0].uri}")

    server = server_of(rev, call_tool=call_tool)
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), server) as at:
        meta = {**rev.meta(), "io.modelcontextprotocol/clientCapabilities": {"roots": {}}}
        params: dict[str, Any] = {"name": "x", "arguments": {}, "_meta": meta}
        first = await at.post(rev.request(1, "tools/call", params), issuer.token(at.url))
        result = json.loads(first.content)["result"]
        [key] = result["inputRequests"]
        params |= {"requestState": result["requestState"], "inputResponses": {key: {"roots": [{"uri": "file:///a"}]}}}
        for who, (token, _) in others(issuer, at.url).items():
            answer = await at.post(rev.request(2, "tools/call", params), token)
            if who == "alice, with a new token":
                assert "alice: file:///a" in answer.text
            else:
                assert answer.status_code in (400, 401) and "file:///a" not in answer.text, who


@among(SESSIONS)
async def test_who_listens_is_let_go_when_the_token_ends(rev: Rev, issuer: Authority) -> None:
    """A token within the leeway of clocks is taken, and has ended: the stream does, too, before anything is on it."""
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name])) as at:
        lasting, ended = issuer.token(at.url), issuer.token(at.url, exp=int(time.time()) - 5)
        await at.open(lasting)
        head = {**at.session, "accept": "text/event-stream"}
        answer = await at.http.get(at.url, headers={**head, "authorization": f"Bearer {ended}"})
        assert answer.status_code == 200 and b"data: {" not in answer.content
        async with at.http.stream("GET", at.url, headers={**head, "authorization": f"Bearer {lasting}"}) as stream:
            late = await at.call(ended)  # What is asked with it within the leeway is still answered.
            assert stream.status_code == 200 and "alice" in late.text


@among(STATELESS)
async def test_who_listens_without_a_session_is_told_when_the_token_has_ended(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), server_of(rev)) as at:
        ended = issuer.token(at.url, exp=int(time.time()) - 5)
        answer = await at.post(rev.request(1, "subscriptions/listen", {"notifications": {}}), ended)
        messages = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        assert [message.get("method", "answer") for message in messages][-1] == "answer" and messages[-1]["result"]


async def test_requests_that_run_together_know_their_own_user(issuer: Authority) -> None:
    seen: list[tuple[str, str]] = []
    meeting = asyncio.Barrier(4)
    rev = STATELESS[-1]

    async def call_tool(ctx: Any, params: Any) -> Any:
        await meeting.wait()
        seen.append((params.name, ctx.user.subject))
        return rev.text(ctx.user.subject)

    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), server_of(rev, call_tool=call_tool)) as at:
        names = ["a", "b", "c", "d"]
        calls = [at.call(issuer.token(at.url, sub=name), name) for name in names]
        answers = await asyncio.gather(*calls)
        assert all(f'"text":"{name}"' in answer.text for name, answer in zip(names, answers, strict=True))
        assert sorted(seen) == [(name, name) for name in names]


# ---- the older pair of endpoints -------------------------------------------------------------------------------------


async def opened_sse(at: Endpoint, token: str | None) -> httpx2.Response:
    head = {"accept": "text/event-stream", **({"authorization": f"Bearer {token}"} if token else {})}
    request = at.http.build_request("GET", at.url.replace("/mcp", "/sse"), headers=head)
    return await at.http.send(request, stream=True)


async def test_the_older_pair_is_protected_as_well_and_bound_to_who_listens(issuer: Authority) -> None:
    rev = HANDSHAKE[0]
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name], scopes=["read"]), legacy_sse=True) as at:
        alice = issuer.token(at.url, scope="read")
        for token, status in ((None, 401), ("garbage", 401), (issuer.token(at.url), 403)):
            refused = await opened_sse(at, token)
            assert refused.status_code == status
            await refused.aclose()
        stream = await opened_sse(at, alice)
        parts, read = SSEDecoder(), stream.aiter_raw()

        async def event() -> Any:
            while not (events := list(parts.feed(await anext(read)))):
                pass
            return events[0]

        where = str(httpx2.URL(at.url).join((await event()).data.decode()))
        posted = {"content-type": "application/json"}

        async def post(message: Any, token: str | None) -> int:
            head = {**posted, **({"authorization": f"Bearer {token}"} if token else {})}
            return (await at.http.post(where, json=message, headers=head)).status_code

        hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        opening = rev.request(0, "initialize", hello)
        assert await post(opening, None) == 401
        assert await post(opening, issuer.token(at.url, sub="bob", scope="read")) == 404
        # What is posted is served as what the listening token may: one that may more, or less, opens its own.
        assert await post(opening, issuer.token(at.url, scope="read write")) == 404
        assert await post(opening, issuer.token(at.url, scope="read", jti="2")) == 202
        assert json.loads((await event()).data)["result"]["protocolVersion"] == rev.id
        await post({"jsonrpc": "2.0", "method": "notifications/initialized"}, alice)
        assert await post(rev.request(1, "tools/call", {"name": "write"}), alice) == 202
        assert json.loads((await event()).data)["error"]["data"]["scope"] == "write"
        assert await post(rev.request(2, "tools/call", {"name": "read"}), alice) == 202
        assert b"alice" in (await event()).data and not [ctx for ctx in at.ran if ctx.user.subject != "alice"]
        await stream.aclose()


# ---- tasks -----------------------------------------------------------------------------------------------------------


@among(STATELESS)
async def test_a_task_is_its_users_alone_and_begins_with_the_scopes_it_needs(rev: Rev, issuer: Authority) -> None:
    app, go = App("x"), asyncio.Event()

    @app.tool(task=True, scopes=["write"])
    async def slow(ctx: Context) -> str:
        await go.wait()
        assert ctx.user is not None
        return f"secret of {ctx.user.subject}"

    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), app) as at:
        knows = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        meta = {**rev.meta(), "io.modelcontextprotocol/clientCapabilities": knows}
        call = rev.request(1, "tools/call", {"name": "slow", "arguments": {}, "_meta": meta})
        assert (await at.post(call, issuer.token(at.url, scope="read"))).status_code == 403
        created = json.loads((await at.post(call, issuer.token(at.url, scope="write"))).content)["result"]
        go.set()
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            params = {
                "taskId": created["taskId"],
                "_meta": meta,
                **({"inputResponses": {}} if "update" in method else {}),
            }
            for who, (token, _) in others(issuer, at.url).items():
                answer = await at.post(rev.request(2, method, params), token, **{"mcp-name": created["taskId"]})
                if who == "alice, with a new token":
                    assert answer.status_code == 403, "the token has no scope `write`"
                else:
                    assert answer.status_code in (400, 401) and "secret" not in answer.text, (who, answer.text)
            wide = issuer.token(at.url, scope="more write", jti="3")
            answer = await at.post(rev.request(3, method, params), wide, **{"mcp-name": created["taskId"]})
            assert "result" in json.loads(answer.content), answer.text
