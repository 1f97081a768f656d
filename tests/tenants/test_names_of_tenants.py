"""A request names its tenant by its user, a claim, a header of a proxy or a function; wrong values are refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.endpoints import STATELESS, Rev, among
from support.http.asgi_client import web

from mcp_generated import App, Gateway, RateLimit
from mcp_generated.tenants import Claim, Header, Limits, TenantRequest, Tenants
from mcp_generated.v2026_07_28 import Server
from mcp_runtime.errors import LocalError
from mcp_runtime.session.interfaces import AuthenticatedUser, RequestAuth

ONE = Limits(calls=RateLimit(0.001, burst=1))
MESSAGE: Any = SimpleNamespace(row=SimpleNamespace(method="tools/call"))
USER = AuthenticatedUser("anna", "desk", claims={"org_id": "acme", "number": 7, "empty": ""})


def request(
    user: AuthenticatedUser | None = None, address: str | None = None, owner: object = None, **headers: str
) -> TenantRequest:
    """A request of a user from an address, with these headers."""
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = None if address is None else {"client": (address, 1), "headers": fields}
    auth = None if user is None and owner is None else RequestAuth(user, owner=owner)
    channel: Any = SimpleNamespace(auth=auth, scope=scope)
    return TenantRequest(channel, MESSAGE)


def test_a_function_sees_what_a_request_says_of_itself() -> None:
    seen = request(USER, "10.0.0.1", X_Tenant="acme")
    assert (seen.user, seen.owner, seen.claims["org_id"]) == (USER, USER.key, "acme")
    assert (seen.address, seen.headers["x-tenant"], seen.method) == ("10.0.0.1", "acme", "tools/call")
    bare = request()
    assert (bare.user, bare.owner, bare.claims, bare.address, bare.headers) == (None, "", {}, None, {})


def test_a_claim_of_the_token_is_the_tenant() -> None:
    assert Claim("org_id")(request(USER)) == "acme"
    assert Claim("number")(request(USER)) == "7"
    assert [Claim(name)(request(USER)) for name in ("empty", "other")] == [None, None]
    assert Claim("org_id")(request()) is None


@pytest.mark.parametrize(
    ("address", "named"),
    [("10.1.2.3", "acme"), ("192.168.0.1", None), ("2001:db8::1", "acme"), ("/run/socket", None), (None, None)],
)
def test_a_header_counts_from_a_trusted_proxy_only(address: str | None, named: str | None) -> None:
    header = Header("X-Tenant", proxies=["10.0.0.0/8", "2001:db8::/32"])
    assert header(request(None, address, X_Tenant="acme")) == named
    assert header(request(None, "10.1.2.3")) is None


@among(STATELESS)
async def test_a_client_without_a_tenant_is_one_of_its_own(rev: Rev) -> None:
    app = App("app", declare=["tools"], tenant=Tenants(by="user", limits=ONE))
    async with web(rev, app) as client:
        statuses = [
            (await client.answered(body=rev.request(id, "tools/list"), client=(address, 1))).status
            for id, address in enumerate(["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"])
        ]
    assert statuses == [200, 429, 200, 429]


@among(STATELESS)
async def test_users_and_headers_are_tenants_over_http(rev: Rev) -> None:
    by = Header("X-Tenant", proxies=["10.0.0.0/8"])
    app = App("app", declare=["tools"], tenant=Tenants(by=by, limits=ONE))
    async with web(rev, app) as client:
        statuses = [
            (
                await client.answered(
                    body=rev.request(id, "tools/list"), headers={"x-tenant": name}, client=("10.0.0.1", 1)
                )
            ).status
            for id, name in enumerate(["a", "b", "a", "b"])
        ]
    assert statuses == [200, 200, 429, 429]
    owned = App("app", declare=["tools"], tenant=Tenants(by="user", limits=ONE))
    async with web(rev, owned, owner=lambda scope: dict(scope["headers"])[b"x-key"].decode()) as client:
        statuses = [
            (await client.answered(body=rev.request(id, "tools/list"), headers={"x-key": key})).status
            for id, key in enumerate(["a", "b", "a", "b"])
        ]
    assert statuses == [200, 200, 429, 429]


@among(STATELESS)
async def test_a_function_that_returns_no_text_is_an_error(rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    by: Any = lambda request: 5
    app = App("app", declare=["tools"], tenant=Tenants(by=by, limits=ONE))
    async with web(rev, app) as client:
        answer = await client.answered(body=rev.request(1, "tools/list"))
    assert "error" in answer.json
    assert "by= must return a string or None for a request; it has returned 5" in caplog.text


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a word": (lambda: Tenants(by="tenant", limits=ONE), '"user", "client"'),
    "no function": (lambda: Tenants(by=5, limits=ONE), "a function of the request"),  # type: ignore[arg-type]
    "no limits": (lambda: Tenants(by="user", limits={"calls": 5}), "Limits(calls=RateLimit("),  # type: ignore[arg-type]
    "a cost": (lambda: Tenants(by="user", limits=ONE, costs={"a": -1}), '{"render": 5}'),
    "a number": (lambda: Limits(calls=5), "RateLimit(10, burst=50)"),  # type: ignore[arg-type]
    "a rate": (lambda: Limits(at_once=RateLimit(1, 1)), "a whole number from 1"),  # type: ignore[arg-type]
    "zero": (lambda: Limits(tasks=0), "a whole number from 1, or None"),
    "no network": (lambda: Header("X-Tenant", proxies=["localhost"]), 'write "10.0.0.0/8"'),
    "any proxy": (lambda: Header("X-Tenant", proxies=[]), 'write proxies=["10.0.0.0/8"]'),
    "one text": (lambda: Header("X-Tenant", proxies="10.0.0.0/8"), '["10.0.0.0/8"]'),
    "no claim": (lambda: Claim(""), "a string that is not empty"),
    "an app": (lambda: App("app", tenant="user"), "Tenants(by=…, limits=Limits(…))"),  # type: ignore[arg-type]
    "a server": (
        lambda: Server(name="a", version="1", tenant=ONE),  # type: ignore[arg-type]
        "Tenants(by=…, limits=Limits(…))",
    ),
    "a gateway": (
        lambda: Gateway({"upstreams": {"one": {"url": "http://127.0.0.1:9/mcp"}}}, tenant="user"),  # type: ignore[arg-type]
        "Tenants(by=…, limits=Limits(…))",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_with_what_to_write(name: str) -> None:
    make, remedy = WRONG[name]
    with pytest.raises(LocalError) as refused:
        make()
    assert remedy in str(refused.value)


def test_a_misspelt_limit_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match="did you mean 'calls'"):
        Limits(call=RateLimit(1, 1))  # type: ignore[call-arg]
