"""Scopes and roles of a gateway: they hold for each message that names a thing of a server, and for its lists."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.auth.resource_server import PROTECTED, Authority, Endpoint, challenge, endpoint
from support.endpoints import Rev, among

from mcp_generated import App, Gateway, LocalError
from mcp_generated.auth import ResourceServer

pytestmark = pytest.mark.deadline(120)

SERVER = """
import sys
from mcp_generated import App

def noted():
    with open(sys.argv[1], "a") as log:
        log.write("asked\\n")
    return "secret"

app = App("crm")
app.tool(noted, name="find")
app.tool(noted, name="erase")
app.prompt(noted, name="plan")
app.resource("note://one", name="one")(noted)

@app.resource("all://{name}/b")
def all(name: str):
    return noted()

@app.completion
def complete(ref, argument, context):
    return [noted()]

app.run()
"""
ROLES = {"admin": {"claim": "groups", "value": "mcp-admins"}, "staff": {"claim": "realm_access.roles", "value": "s"}}
STAFF = {"realm_access": {"roles": ["s"]}}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


class Log:
    """What reached the server."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "log"
        self.file.touch()

    def settings(self, **table: Any) -> dict[str, Any]:
        entry = {"command": sys.executable, "args": ["-c", SERVER, str(self.file)]}
        return {"upstreams": {"crm": {**entry, **table}}}

    def taken(self) -> bool:
        """Whether the server was asked since the last time."""
        text = self.file.read_text()
        self.file.write_text("")
        return bool(text)


def protected(issuer: Authority) -> Callable[[str], ResourceServer]:
    return lambda url: ResourceServer(url, [issuer.name], roles=ROLES)


async def answer(at: Endpoint, token: str, method: str, params: dict[str, Any]) -> Any:
    named = params.get("name", params.get("uri"))
    headers = {"mcp-name": named} if at.rev.stateless and named is not None else {}
    return await at.post(at.rev.request(1, method, params), token, **headers)


def messages(rev: Rev) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each message that names a thing of the server."""
    argument = {"name": "name", "value": ""}
    yield "tools/call", {"name": "crm_find", "arguments": {}}
    yield "prompts/get", {"name": "crm_plan"}
    yield "resources/read", {"uri": "note://crm/one"}
    yield "resources/read", {"uri": "all://crm/a/b"}
    yield "completion/complete", {"ref": {"type": "ref/resource", "uri": "all://crm/{name}/b"}, "argument": argument}
    if not rev.stateless:
        yield "resources/subscribe", {"uri": "note://crm/one"}


LISTS = ("tools", "prompts", "resources", "resourceTemplates")


async def listed(at: Endpoint, token: str) -> set[str]:
    """The names and URIs that a token lists."""
    names: set[str] = set()
    for kind in LISTS:
        method = "resources/templates/list" if kind == "resourceTemplates" else f"{kind}/list"
        items = json.loads((await answer(at, token, method, {})).content)["result"][kind]
        names |= {item.get("uriTemplate", item.get("uri", item["name"])) for item in items}
    return names


@among(PROTECTED)
async def test_a_role_of_a_server_holds_for_lists_and_each_message(rev: Rev, issuer: Authority, tmp_path: Path) -> None:
    log = Log(tmp_path)
    gateway = Gateway(log.settings(scopes=["role:staff"], tools={"erase": {"scopes": ["role:admin"]}}))
    async with endpoint(rev, protected(issuer), gateway.app.server) as at:
        nobody = issuer.token(at.url, scope="role:staff role:admin", groups=["mcp-admins"])
        staff = issuer.token(at.url, **STAFF)
        both = issuer.token(at.url, groups=["mcp-admins"], **STAFF)
        await at.open(nobody)
        assert await listed(at, nobody) == set()
        for method, params in messages(rev):
            refused = await answer(at, nobody, method, params)
            error = json.loads(refused.content)["error"]
            assert "role:staff" in error["message"] and not log.taken(), (method, error)
            assert "www-authenticate" not in refused.headers
        open_to_staff = {"crm_find", "crm_plan", "note://crm/one", "all://crm/{name}/b"}
        assert await listed(at, staff) == open_to_staff
        for method, params in messages(rev):
            taken = json.loads((await answer(at, staff, method, params)).content)
            assert "result" in taken and (log.taken() or method == "resources/subscribe"), (method, taken)
        erase: dict[str, Any] = {"name": "crm_erase", "arguments": {}}
        error = json.loads((await answer(at, staff, "tools/call", erase)).content)["error"]
        assert "role:admin" in error["message"] and not log.taken()
        # What one user was not shown is no reason to refuse it to another, in the same second.
        assert "result" in json.loads((await answer(at, both, "tools/call", erase)).content)
        assert await listed(at, both) == {*open_to_staff, "crm_erase"}
        assert (await listed(at, nobody)) == set()


async def test_a_scope_of_a_server_is_asked_for_and_a_refusal_is_counted(issuer: Authority, tmp_path: Path) -> None:
    settings = Log(tmp_path).settings(scopes=["crm:read"])
    settings["gateway"] = {"audit": str(tmp_path / "audit")}
    gateway = Gateway(settings)
    async with endpoint(PROTECTED[-1], protected(issuer), gateway.app.server) as at:
        call: dict[str, Any] = {"name": "crm_find", "arguments": {}}
        refused = await answer(at, issuer.token(at.url), "tools/call", call)
        assert refused.status_code == 403 and challenge(refused)["scope"] == "crm:read"
        assert "result" in (await answer(at, issuer.token(at.url, scope="crm:read"), "tools/call", call)).json()
    assert 'mcp_gateway_refusals_total{upstream="crm"} 1' in gateway.metrics()
    outcomes = [json.loads(line)["outcome"] for line in (tmp_path / "audit").read_text().splitlines()]
    assert outcomes == ["refused", "done"]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"scopes": "role:admin"}, 'scopes is a list of scopes: write scopes = ["notes:write", "role:admin"]'),
        ({"scopes": ["a b"]}, "write scopes=['a', 'b']"),
        ({"tools": {"t": {"scopes": [1]}}}, "[upstreams.crm.tools.t] scopes is a list of scopes"),
        ({"roles": ["admin"]}, "has no key 'roles'"),
    ],
)
def test_wrong_scopes_are_refused_where_they_are_written(table: dict[str, Any], text: str) -> None:
    with pytest.raises(LocalError) as raised:
        Gateway({"upstreams": {"crm": {"command": "x", **table}}})
    assert text in str(raised.value)


# ---- the table of users ---------------------------------------------------------------------------------------------

RESOURCE = "http://127.0.0.1/mcp"


async def test_the_file_says_who_the_users_are_and_what_they_may_do(issuer: Authority, tmp_path: Path) -> None:
    settings = Log(tmp_path).settings(scopes=["role:admin"])
    settings["auth"] = {"resource": RESOURCE, "issuers": [issuer.name], "scopes": ["mcp"], "roles": ROLES}
    gateway = Gateway(settings)
    application = gateway.app.asgi(path="/mcp", auth=gateway.auth)
    transport = httpx2.ASGITransport(app=application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        at = Endpoint(RESOURCE, PROTECTED[-1], http)
        call: dict[str, Any] = {"name": "crm_find", "arguments": {}}
        assert (await at.call(None, "crm_find")).status_code == 401
        assert (await at.call(issuer.token(RESOURCE), "crm_find")).status_code == 403
        user = issuer.token(RESOURCE, scope="mcp")
        assert "role:admin" in (await answer(at, user, "tools/call", call)).json()["error"]["message"]
        admin = issuer.token(RESOURCE, scope="mcp", groups="mcp-admins")
        assert "result" in (await answer(at, admin, "tools/call", call)).json()
    await application.close()


def test_the_file_names_an_identity_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SECRET", "hidden text")
    table = {"resource": RESOURCE, "provider": "github", "client_id": "a", "client_secret": "${GITHUB_SECRET}"}
    roles = {"admin": {"claim": "login", "value": "ada"}}
    gateway = Gateway({"upstreams": {"crm": {"command": "x"}}, "auth": {**table, "roles": roles}})
    assert gateway.auth.issuers == ("https://github.com/login/oauth",) and gateway.auth.roles


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"resource": ""}, "has neither of provider and issuers"),
        ({"issuers": ["https://a.example"]}, 'write resource = "https://…/mcp"'),
        ({"resource": RESOURCE, "issuers": ["https://a.example"], "provider": "okta"}, "both of provider and issuers"),
        (
            {"resource": RESOURCE, "issuers": "https://a.example"},
            '[auth] issuers is a list of texts: write issuers = ["',
        ),
        ({"resource": RESOURCE, "issuers": ["https://a.example"], "domain": "a"}, "'domain' is a key of a provider"),
        ({"resource": RESOURCE, "provider": "auth1"}, "[auth] IdentityProvider(): there is no provider 'auth1'"),
        ({"resource": RESOURCE, "provider": "auth0"}, "domain is missing"),
        ({"resource": RESOURCE, "provider": "auth0", "domain": "a.b", "realm": "c"}, "'auth0' has no value 'realm'"),
        ({"resource": RESOURCE, "provider": "auth0", "domain": "${NOT_SET_ANYWHERE}"}, "NOT_SET_ANYWHERE"),
        ({"resource": RESOURCE, "provider": "clerk", "domain": "a.b"}, "write only_resource=True"),
        ({"resource": RESOURCE, "provider": "clerk", "domain": "a.b", "only_resource": 1}, "only_resource is true or"),
        ({"resource": RESOURCE, "issuers": ["https://a.example"], "roles": ["admin"]}, "[auth] roles is a table"),
        ({"resource": RESOURCE, "issuers": ["https://a.example"], "roles": {"a": "b"}}, "'a' has no rule of a claim"),
        ({"resource": RESOURCE, "issuers": ["https://a.example"], "scopes": ["role:a"]}, None),
    ],
)
def test_a_wrong_table_of_users_is_refused_where_it_is_written(table: dict[str, Any], text: str | None) -> None:
    settings: dict[str, Any] = {"upstreams": {"crm": {"command": "x"}}, "auth": table}
    if text is None:
        assert Gateway(settings).auth.scopes == ("role:a",), "without roles it is a scope like all others"
        return
    with pytest.raises(LocalError) as raised:
        Gateway(settings)
    assert text in str(raised.value)


def test_users_are_said_once_and_reach_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def run(app: App, transport: str, **keywords: Any) -> None:
        seen.append(keywords.get("auth"))

    monkeypatch.setattr(App, "run", run)
    table = {"resource": RESOURCE, "issuers": ["https://a.example"]}
    gateway = Gateway({"upstreams": {"crm": {"command": "x"}}, "auth": table})
    auth = ResourceServer(RESOURCE, ["https://a.example"])
    with pytest.raises(LocalError, match="one too many"):
        gateway.run("http", auth=auth)
    gateway.run("http")
    gateway.run()
    assert seen == [gateway.auth, None]
    without = Gateway({"upstreams": {"crm": {"command": "x"}}})
    without.run("http", auth=auth)
    assert seen[2] is auth and without.auth is None
