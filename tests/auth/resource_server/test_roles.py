"""Roles by claim: what a token says of its user gives scopes that nobody can request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.auth.resource_server import PROTECTED, Authority, Endpoint, challenge, endpoint
from support.endpoints import HANDSHAKE, INVALID_REQUEST, STATELESS, Rev, among, since
from support.servers.jobs import SOON
from support.task_clients import CAPABILITIES

from mcp_generated import App, Context
from mcp_generated.auth import AuthenticatedUser, ResourceServer
from mcp_generated.middleware import AuthMiddleware, own_scopes
from mcp_products.auth.resource_server.roles import Roles, claim_at
from mcp_runtime.errors import LocalError
from mcp_runtime.http.sse import SSEDecoder

ADMINS = {"admin": {"claim": "groups", "value": "mcp-admins"}}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


def scopes_of(rule: Any, claims: dict[str, Any], *scopes: str) -> list[str]:
    """The scopes of a user of a token with these claims, where there is one role."""
    user = AuthenticatedUser("alice", scopes=frozenset(scopes), claims=claims)
    return sorted(Roles({"admin": rule}).granted(user).scopes)


NAMESPACED = "https://example.com/roles"
RULES: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [  # A rule, claims that give the role, claims that do not.
    (ADMINS["admin"], {"groups": ["x", "mcp-admins"]}, {"groups": ["mcp-admins2", "MCP-ADMINS", ["mcp-admins"]]}),
    (ADMINS["admin"], {"groups": "mcp-admins"}, {"groups": "x mcp-admins"}),
    (ADMINS["admin"], {"groups": ["mcp-admins"]}, {"groups": {"mcp-admins": True}}),
    (ADMINS["admin"], {"groups": ["mcp-admins"]}, {"Groups": ["mcp-admins"], "roles": ["mcp-admins"]}),
    ({"claim": "groups", "value": ["a", "b"]}, {"groups": ["b"]}, {"groups": ["c"]}),
    ({"claim": "realm_access.roles", "value": "r"}, {"realm_access": {"roles": ["r"]}}, {"realm_access": ["r"]}),
    ({"claim": NAMESPACED, "value": "r"}, {NAMESPACED: ["r"]}, {"https://example": {"com/roles": ["s"]}}),
    (
        {"claim": ["resource_access", "my.client", "roles"], "value": "r"},
        {"resource_access": {"my.client": {"roles": ["r"]}}},
        {"resource_access": {"my": {"client": {"roles": ["r"]}}}},
    ),
    ({"claim": "a.b", "value": "r"}, {"a.b": "r", "a": {"b": "s"}}, {"a.b": "s", "a": {"b": "r"}}),
    ({"claim": "staff", "value": True}, {"staff": True}, {"staff": 1}),
    ({"claim": "level", "value": 1}, {"level": 1}, {"level": True}),
]


@pytest.mark.parametrize(("rule", "gives", "not_given"), RULES)
def test_a_claim_gives_a_role_by_one_exact_value(rule: Any, gives: dict[str, Any], not_given: dict[str, Any]) -> None:
    assert scopes_of(rule, gives) == ["role:admin"]
    assert scopes_of(rule, not_given) == [] and scopes_of(rule, {}) == []


def test_a_token_has_no_role_by_its_own_scopes() -> None:
    held = scopes_of(ADMINS["admin"], {"groups": ["x"]}, "read", "role:admin", "role:other")
    assert held == ["read"]
    kept = Roles({}).granted(AuthenticatedUser("alice", scopes=frozenset({"role:admin"}))).scopes
    assert kept == {"role:admin"}, "without rules of roles, it is a scope like all others"


def test_a_path_does_not_lead_into_texts_and_lists() -> None:
    assert claim_at({"a": "b"}, "a.b") is None
    assert claim_at({"a": [{"b": 1}]}, "a.b") is None
    assert claim_at({}, "a.b.c") is None


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        ({"admin": "mcp-admins"}, 'write roles={"admin": {"claim": "groups", "value": "mcp-admins"}}'),
        ({"admin": {"claim": "groups"}}, "a claim and a value"),
        ({"admin": {"claim": "groups", "values": "x"}}, "a claim and a value"),
        ({"admin": {"claim": "", "value": "x"}}, 'write {"claim": "realm_access.roles", …}'),
        ({"admin": {"claim": ["a", 1], "value": "x"}}, 'write {"claim": "realm_access.roles", …}'),
        ({"admin": {"claim": "groups", "value": ""}}, "a text, a number or a list of them"),
        ({"admin": {"claim": "groups", "value": []}}, "a text, a number or a list of them"),
        ({"admin": {"claim": "groups", "value": None}}, "a text, a number or a list of them"),
        ({"the admin": ADMINS["admin"]}, "'the admin' is not a name of a role"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_where_it_is_written(roles: Any, text: str) -> None:
    with pytest.raises(LocalError) as raised:
        ResourceServer("https://a.example/mcp", ["https://b.example"], roles=roles)
    assert text in str(raised.value)


def test_an_endpoint_that_needs_an_unknown_role_is_refused() -> None:
    with pytest.raises(LocalError, match="'role:admn' is the scope of a role that no rule defines"):
        ResourceServer("https://a.example/mcp", ["https://b.example"], scopes=["role:admn"], roles=ADMINS)


# ---- an app ---------------------------------------------------------------------------------------------------------


def example() -> App:
    """An app with one of each thing for those with a role, which lists leave out for others."""
    app = App("app", middleware=[AuthMiddleware(own_scopes)])
    admin = ["role:admin"]

    @app.tool(scopes=admin)
    def erase() -> str:
        return "secret"

    @app.prompt(scopes=admin)
    def plan(about: str) -> str:
        return "secret"

    @app.resource("notes://secret", scopes=admin)
    def secret() -> str:
        return "secret"

    @app.resource("all://{name}/secret", scopes=admin)
    def template(name: str) -> str:
        return "secret"

    @app.completion
    def complete(ref: Any, argument: Any, context: Any) -> list[str]:
        return ["secret"]

    @app.tool
    def shown() -> str:
        return "text"

    return app


def protected(issuer: Authority, *scopes: str) -> Callable[[str], ResourceServer]:
    return lambda url: ResourceServer(url, [issuer.name], scopes=scopes, roles=ADMINS)


async def answer(at: Endpoint, token: str, method: str, **params: Any) -> Any:
    named = params.get("name", params.get("uri"))
    headers = {"mcp-name": named} if at.rev.stateless and named is not None else {}
    return await at.post(at.rev.request(1, method, params), token, **headers)


def messages(rev: Rev) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each message that names a thing of the example."""
    argument = {"name": "about", "value": ""}
    yield "tools/call", {"name": "erase", "arguments": {}}
    yield "prompts/get", {"name": "plan", "arguments": {"about": "x"}}
    yield "resources/read", {"uri": "notes://secret"}
    yield "resources/read", {"uri": "all://a/secret"}
    yield "completion/complete", {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": argument}
    ref = {"type": "ref/resource", "uri": "all://{name}/secret"}
    yield "completion/complete", {"ref": ref, "argument": {**argument, "name": "name"}}


LISTS = {"tools/list": ("tools", "name"), "prompts/list": ("prompts", "name"), "resources/list": ("resources", "uri")}
LISTS["resources/templates/list"] = ("resourceTemplates", "uriTemplate")


@among(PROTECTED)
async def test_a_role_holds_for_each_message_that_names_a_thing(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer), example().server) as at:
        claims: dict[str, Any] = {"scope": "role:admin", "groups": ["others"]}
        user, admin = issuer.token(at.url, **claims), issuer.token(at.url, groups=["mcp-admins"])
        for token, shows in ((user, False), (admin, True)):
            at.session.clear()
            await at.open(token)
            for method, (items, field) in LISTS.items():
                listed = json.loads((await answer(at, token, method)).content)["result"][items]
                names = {item[field] for item in listed} - {"shown"}
                assert bool(names) == shows, (method, names)
            for method, params in messages(rev):
                response = await answer(at, token, method, **params)
                assert (b"secret" in response.content.replace(b"/secret", b"")) == shows, (method, response.content)
                assert ("error" in json.loads(response.content)) != shows
                assert "www-authenticate" not in response.headers, "no login gives a role"


@among(PROTECTED)
async def test_an_endpoint_may_need_a_role_that_no_client_is_told_to_request(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer, "read", "role:admin")) as at:
        assert challenge(await at.first(None))["scope"] == "read"
        refused = await at.first(issuer.token(at.url, scope="read"))
        assert refused.status_code == 403 and "www-authenticate" not in refused.headers
        lacking = challenge(await at.first(issuer.token(at.url, groups="mcp-admins")))
        assert lacking["error"] == "insufficient_scope" and lacking["scope"] == "read"
        assert (await at.first(issuer.token(at.url, scope="read", groups="mcp-admins"))).status_code == 200
        document = json.loads(
            ResourceServer(at.url, [issuer.name], scopes=["a", "role:admin"], roles=ADMINS).document()
        )
        assert document["scopes_supported"] == ["a"]


@among(PROTECTED)
async def test_a_role_that_was_taken_away_reads_no_more(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer), example().server) as at:
        admin, later = issuer.token(at.url, groups=["mcp-admins"]), issuer.token(at.url, groups=[])
        await at.open(admin)
        assert "result" in json.loads((await at.call(admin, "erase")).content)
        error = json.loads((await at.call(later, "erase")).content)["error"]
        assert error["code"] == INVALID_REQUEST and "role:admin" in error["message"]


# ---- results that are read later ------------------------------------------------------------------------------------


def later(let: asyncio.Event, **settings: Any) -> Any:
    """A server whose tool needs a role, and ends when it is let."""
    app = App("later")

    @app.tool(scopes=["role:admin"], **settings)
    async def secret(ctx: Context) -> str:
        await ctx.status("reading")
        await let.wait()
        return "the secret"

    return app.server


@among(STATELESS)
async def test_a_task_is_read_and_changed_with_the_role_of_its_call(rev: Rev, issuer: Authority) -> None:
    let = asyncio.Event()
    async with asyncio.timeout(30), endpoint(rev, protected(issuer), later(let, task=SOON)) as at:
        meta = {**rev.meta(), "io.modelcontextprotocol/clientCapabilities": CAPABILITIES}
        admin, later_on = issuer.token(at.url, groups=["mcp-admins"]), issuer.token(at.url, scope="role:admin")

        async def send(token: str, method: str, named: str, **params: Any) -> Any:
            return await at.post(rev.request(1, method, {**params, "_meta": meta}), token, **{"mcp-name": named})

        created = await send(admin, "tools/call", "secret", name="secret", arguments={})
        id: str = json.loads(created.content)["result"]["taskId"]
        for method, more in {"tasks/get": {}, "tasks/update": {"inputResponses": {}}, "tasks/cancel": {}}.items():
            refused = await send(later_on, method, id, taskId=id, **more)
            assert "role:admin" in json.loads(refused.content)["error"]["message"], method
            assert "www-authenticate" not in refused.headers
        let.set()
        while "the secret" not in (await send(admin, "tasks/get", id, taskId=id)).text:
            await asyncio.sleep(0)
        assert "the secret" not in (await send(later_on, "tasks/get", id, taskId=id)).text


@among(since("2025-03-26", HANDSHAKE))
async def test_a_stream_is_resumed_with_the_role_of_its_call(rev: Rev, issuer: Authority) -> None:
    let = asyncio.Event()
    let.set()
    async with endpoint(rev, protected(issuer), later(let)) as at:
        admin, later_on = issuer.token(at.url, groups=["mcp-admins"]), issuer.token(at.url, groups=["others"])
        await at.open(admin)
        streamed = await at.call(admin, "secret", accept="text/event-stream")
        first = next(iter(SSEDecoder().feed(streamed.content))).id.rpartition("-")[0] + "-0"
        for token, is_shown in ((later_on, False), (admin, True)):
            head = {"accept": "text/event-stream", "authorization": f"Bearer {token}", **at.session}
            answer = await at.http.get(at.url, headers={**head, "last-event-id": first})
            assert (answer.status_code == 200) == is_shown and ("the secret" in answer.text) == is_shown
            assert "www-authenticate" not in answer.headers
