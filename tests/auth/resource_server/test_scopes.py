"""What a token may do: scopes of the endpoint, of tools, resources and prompts, and what handlers require."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.auth.resource_server import PROTECTED, Authority, Endpoint, challenge, endpoint
from support.endpoints import ALL_REVISIONS, INVALID_REQUEST, Rev, among, clause, server_of, wire_to

from mcp_generated import App, Context, tool
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_runtime.errors import LocalError, RemoteJSONRPCError
from mcp_runtime.session.interfaces import AuthenticatedUser

INSUFFICIENT_SCOPE = {"error": "insufficient_scope", "scope": "write"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


def protected(issuer: Authority, *scopes: str) -> Callable[[str], ResourceServer]:
    return lambda url: ResourceServer(url, [issuer.name], scopes=scopes, scopes_supported=["read"])


@among(PROTECTED)
@clause("2025-03-26/authorization/33", "draft/authorization/27")
async def test_a_token_without_the_scopes_of_the_endpoint_is_forbidden(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer, "read", "mcp")) as at:
        for scope in (None, "", "read", "mcp:read", "READ MCP"):
            answer = await at.first(issuer.token(at.url, scope=scope))
            params = challenge(answer)
            assert answer.status_code == 403 and params["error"] == "insufficient_scope"
            assert params["scope"] == "read mcp"
        assert not at.ran
        assert (await at.first(issuer.token(at.url, scope="mcp other read"))).status_code == 200


@among(PROTECTED)
@clause("2025-03-26/authorization/33", "draft/authorization/27")
async def test_a_tool_that_needs_more_is_forbidden_with_all_that_it_needs(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer, "read")) as at:
        less, more = issuer.token(at.url, scope="read"), issuer.token(at.url, scope="read write")
        await at.open(less)
        answer = await at.call(less, "write")
        params = challenge(answer)
        assert answer.status_code == 403 and params["error"] == "insufficient_scope"
        assert params["scope"] == "read write"
        error = json.loads(answer.content)["error"]
        assert (error["code"], error["data"]) == (INVALID_REQUEST, INSUFFICIENT_SCOPE)
        assert not at.ran
        # The same session goes on, with the token that the client stepped up to.
        assert (await at.call(less, "read")).status_code == 200
        assert (await at.call(more, "write")).status_code == 200
        assert [sorted(ctx.user.scopes) for ctx in at.ran] == [["read"], ["read", "write"]]


SCOPES_OF_A_CLIENT = ['admin", error="x', "admin\r\nx: y", "admin read", "a\\", "é", ""]


@among(PROTECTED)
@pytest.mark.parametrize("text", SCOPES_OF_A_CLIENT)
async def test_text_of_a_client_adds_nothing_to_a_challenge(rev: Rev, issuer: Authority, text: str) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        ctx.require_scopes(params.arguments["scope"])

    async with endpoint(rev, protected(issuer, "read"), server_of(rev, call_tool=call_tool)) as at:
        token = issuer.token(at.url, scope="read")
        await at.open(token)
        params = {"name": "x", "arguments": {"scope": text}}
        answer = await at.post(rev.request(1, "tools/call", params), token)
        assert "www-authenticate" not in answer.headers and "error" in json.loads(answer.content)


@among(PROTECTED)
async def test_once_an_answer_has_begun_the_missing_scope_is_an_error_in_it(rev: Rev, issuer: Authority) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        ctx.require_scopes("write")

    async with endpoint(rev, protected(issuer), server_of(rev, call_tool=call_tool)) as at:
        token = issuer.token(at.url, scope="read")
        await at.open(token)
        params = {"name": "x", "arguments": {}, "_meta": {"progressToken": 1}}
        answer = await at.post(rev.request(1, "tools/call", params), token)
        assert answer.status_code == 200 and "www-authenticate" not in answer.headers
        message = json.loads(answer.text.strip().rpartition("data: ")[2])
        assert message["error"]["data"] == INSUFFICIENT_SCOPE


async def test_in_a_batch_only_what_needs_the_scope_is_refused(issuer: Authority) -> None:
    rev = Rev("2025-03-26")
    async with endpoint(rev, protected(issuer)) as at:
        token = issuer.token(at.url, scope="read")
        await at.open(token)
        batch: Any = [rev.request(id, "tools/call", {"name": name}) for id, name in enumerate(("read", "write"))]
        answer = await at.post(batch, token)
        assert answer.status_code == 200
        responses = {response["id"]: response for response in json.loads(answer.content)}
        assert "result" in responses[0] and responses[1]["error"]["data"] == INSUFFICIENT_SCOPE and len(at.ran) == 1


async def test_a_client_that_takes_streams_alone_is_told_in_the_stream(issuer: Authority) -> None:
    async with endpoint(PROTECTED[-1], protected(issuer)) as at:
        answer = await at.call(issuer.token(at.url), "write", accept="text/event-stream")
        assert "insufficient_scope" in answer.text and not at.ran


# ---- changes -------------------------------------------------------------------------------------------------------


@among(PROTECTED)
async def test_changes_of_a_resource_are_told_to_those_alone_who_may_read_it(rev: Rev, issuer: Authority) -> None:
    app = notes({"resources": {"subscribe": True}})

    async with endpoint(rev, protected(issuer), app) as at:
        less, more = issuer.token(at.url, scope="read"), issuer.token(at.url, scope="write")
        await at.open(less)
        for uri in ("note://secret", "note://x"):
            method, params = ("resources/subscribe", {"uri": uri}) if not rev.stateless else listening(uri)
            answer = await send(at, method, params, less)
            assert "insufficient_scope" in answer.text
            assert answer.status_code == 403
            if not rev.stateless:
                assert "result" in json.loads((await send(at, method, params, more)).content)


def listening(uri: str) -> tuple[str, dict[str, Any]]:
    return "subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}


# ---- what an app declares --------------------------------------------------------------------------------------------


def notes(capabilities: dict[str, Any] | None = None) -> App:
    app = App("notes", capabilities=capabilities)

    @app.tool(scopes=["write"])
    def write(ctx: Context) -> str:
        assert ctx.user is not None
        return f"{ctx.user.subject} wrote"

    class Others:
        @tool(scopes=["write"])
        def erase(self) -> str:
            return "hidden"

    app.add_tools(Others())

    @app.tool()
    def read() -> str:
        return "read"

    @app.resource("note://secret", scopes=["write"])
    def secret() -> str:
        return "hidden"

    @app.resource("note://{name}", scopes=["write"])
    def note(name: str) -> str:
        return "hidden"

    @app.prompt(scopes=["write"])
    def plan(topic: str) -> str:
        return "hidden"

    @app.completion()
    def suggest(ref: Any, argument: Any) -> list[str]:
        return ["hidden"]

    return app


def outer() -> App:
    """An app with another one inside, and with middleware that gives everybody what somebody got before."""
    cached: dict[str, Any] = {}
    app = App("outer")
    app.mount(notes(), "notes")

    @app.middleware
    async def cache(name: str, ctx: Any, params: Any, go: Any) -> Any:
        key = params.model_dump_json()
        if key not in cached:
            cached[key] = await go(ctx, params)
        return cached[key]

    return app


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": "write", "arguments": {}}),
    ("tools/call", {"name": "erase", "arguments": {}}),
    ("resources/read", {"uri": "note://secret"}),
    ("resources/read", {"uri": "note://x"}),
    ("prompts/get", {"name": "plan", "arguments": {"topic": "x"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "topic", "value": ""}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "note://{name}"}, "argument": {"name": "name", "value": ""}},
    ),
]


def inside(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The params for the same thing where the app is mounted."""
    text = json.dumps(params).replace("note://", "note://notes/")
    for name in ("write", "erase", "plan"):
        text = text.replace(f'"{name}"', f'"notes_{name}"')
    return json.loads(text)  # type: ignore[no-any-return]


async def send(at: Endpoint, method: str, params: dict[str, Any], token: str) -> Any:
    named = params.get("name", params.get("uri"))
    headers = {"mcp-name": named} if at.rev.stateless and named is not None else {}
    return await at.post(at.rev.request(1, method, params), token, **headers)


@among(PROTECTED)
@pytest.mark.parametrize("build", [notes, outer])
async def test_what_an_app_declares_to_need_scopes_needs_them(
    rev: Rev, build: Callable[[], App], issuer: Authority
) -> None:
    async with endpoint(rev, protected(issuer), build(), real=False) as at:
        less, more = issuer.token(at.url, scope="read"), issuer.token(at.url, scope="write")
        await at.open(less)
        for method, plain in REQUESTS:
            params = inside(method, plain) if build is outer else plain
            answer = await send(at, method, params, less)
            assert answer.status_code == 403, (method, params, answer.text)
            assert challenge(answer)["scope"] == "write" and "hidden" not in answer.text
            answer = await send(at, method, params, more)
            assert answer.status_code == 200 and "error" not in json.loads(answer.content), answer.text
            assert (await send(at, method, params, less)).status_code == 403
        tool = "notes_read" if build is outer else "read"
        assert (await at.call(less, tool)).status_code == 200


async def test_over_stdio_and_in_memory_whoever_started_the_server_may_do_all() -> None:
    async with App.client_class().memory(seen_by_nobody().server) as client:
        assert (await client.call_tool(name="owner")).content[0].text == "None"


@among(ALL_REVISIONS)
@clause("2025-03-26/authorization/02", "draft/authorization/02")
async def test_stdio_has_no_authorization(rev: Rev) -> None:
    users: list[object] = []

    async def call_tool(ctx: Any, params: Any) -> Any:
        ctx.require_scopes("anything")
        users.append(ctx.user)
        return rev.text("done")

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        answer = await wire.request(rev.request(1, "tools/call", {"name": "x"}))
        assert answer["result"]["content"] and users == [None]


def seen_by_nobody() -> App:
    app = App("x")

    @app.tool(scopes=["write"])
    def owner(ctx: Context) -> str:
        return str(ctx.user)

    return app


@among(PROTECTED)
async def test_over_http_without_protection_nobody_has_a_scope(rev: Rev) -> None:
    from support.http.asgi_client import web

    async with web(rev, seen_by_nobody().server) as client:
        answer = await client.answered(body=rev.request(1, "tools/call", {"name": "owner", "arguments": {}}))
        assert answer.json["error"]["data"] == INSUFFICIENT_SCOPE


@pytest.mark.parametrize("scope", ["", "two words", 'quo"ted', "back\\slash", "ümlaut", "new\nline"])
def test_what_is_no_name_of_a_scope_is_refused_where_it_is_declared(scope: str) -> None:
    with pytest.raises(LocalError, match="not a valid scope"):
        App("x").tool("x", scopes=[scope])(lambda: None)
    with pytest.raises(LocalError, match="not a valid scope"):
        ResourceServer("https://a.example/mcp", ["https://b.example"], scopes=[scope])


def test_a_user_is_somebody() -> None:
    with pytest.raises(LocalError, match="subject"):
        AuthenticatedUser(None)
    keys = [
        AuthenticatedUser("a", "b").key,
        AuthenticatedUser("a", None).key,
        AuthenticatedUser("a", "b", issuer="c").key,
        AuthenticatedUser("ab").key,
        AuthenticatedUser(None, "a").key,
    ]
    assert len(set(keys)) == len(keys)


async def test_a_client_hears_from_a_refused_tool_what_it_lacks(issuer: Authority) -> None:
    from mcp_runtime.transports.http_client.connection import HTTPOptions

    async with endpoint(PROTECTED[-1], protected(issuer), notes()) as at:
        import httpx2

        headers = {"authorization": f"Bearer {issuer.token(at.url)}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            async with App.client_class().http(at.url, http=HTTPOptions(client=http)) as client:
                with pytest.raises(RemoteJSONRPCError, match="write") as raised:
                    await client.call_tool(name="write")
                assert raised.value.status == 403
