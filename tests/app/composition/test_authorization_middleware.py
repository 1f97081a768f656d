"""Middleware that decides by the user what is listed and served, and rules of visibility for users."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.auth.resource_server import PROTECTED, Authority, Endpoint, challenge, endpoint
from support.endpoints import Rev, among

from mcp_generated import App, Context
from mcp_generated.middleware import AccessRequest, AuthMiddleware, require_scopes, restrict_tag
from mcp_products.auth.resource_server.protection import ResourceServer


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


def example(*checks: Any) -> App:
    app = App("app", middleware=[AuthMiddleware(check) for check in checks])

    @app.tool(tags={"read"})
    def read() -> str:
        return "hidden text"

    @app.tool(tags={"admin"})
    def erase() -> str:
        return "hidden text"

    @app.tool(tags={"switch"})
    async def switch(ctx: Context, name: str) -> str:
        await ctx.disable_components(names={name})
        return "done"

    @app.resource("notes://{name}", tags={"admin"})
    def note(name: str) -> str:
        return "hidden text"

    @app.prompt(tags={"admin"})
    def plan() -> str:
        return "hidden text"

    return app


async def send_request(at: Endpoint, token: str, method: str, **params: Any) -> Any:
    """The response to a request."""
    named = params.get("name", params.get("uri"))
    headers = {"mcp-name": named} if at.rev.stateless and named is not None else {}
    return await at.post(at.rev.request(1, method, params), token, **headers)


async def listed(at: Endpoint, token: str) -> list[str]:
    """The tools that a token lists."""
    answer = await send_request(at, token, "tools/list")
    return [tool["name"] for tool in json.loads(answer.content)["result"]["tools"]]


def protection(issuer: Authority) -> Any:
    return lambda url: ResourceServer(url, [issuer.name], scopes=(), scopes_supported=["read"])


def proxied(*checks: Any) -> App:
    return App.proxy(example(), middleware=[AuthMiddleware(check) for check in checks])


def mounted(*checks: Any) -> App:
    app = App("outer", middleware=[AuthMiddleware(check) for check in checks])
    app.mount(App.proxy(example()))
    return app


@among(PROTECTED)
@pytest.mark.parametrize("make", [example, proxied, mounted])
async def test_what_a_user_may_not_use_is_neither_listed_nor_served(
    rev: Rev, issuer: Authority, make: Callable[..., App]
) -> None:
    app = make([require_scopes("use"), restrict_tag("admin", scopes=["admin"])])
    async with endpoint(rev, protection(issuer), app, real=False) as at:
        nothing, use, admin = (issuer.token(at.url, scope=scope) for scope in ("x", "use", "use admin"))
        await at.open(use)
        assert await listed(at, nothing) == []
        assert await listed(at, use) == ["read", "switch"]
        assert await listed(at, admin) == ["read", "erase", "switch"]
        requests: list[tuple[str, dict[str, Any]]] = [
            ("tools/call", {"name": "erase", "arguments": {}}),
            ("resources/read", {"uri": "notes://x"}),
            ("prompts/get", {"name": "plan"}),
        ]
        for method, params in requests:
            for token, scope in ((use, "admin"), (nothing, "admin use")):
                answer = await send_request(at, token, method, **params)
                assert answer.status_code == 403 and "hidden" not in answer.text
                assert {*challenge(answer)["scope"].split()} == {*scope.split()}
            answer = await send_request(at, admin, method, **params)
            assert answer.status_code == 200 and "hidden text" in answer.text


@among(PROTECTED)
async def test_a_check_is_any_function_of_the_user_and_the_component(rev: Rev, issuer: Authority) -> None:
    requests: list[AccessRequest] = []

    async def check(request: AccessRequest) -> bool:
        requests.append(request)
        return request.user is not None and request.kind == "tool" and "read" in request.tags

    async with endpoint(rev, protection(issuer), example(check), real=False) as at:
        token = issuer.token(at.url, scope="read")
        await at.open(token)
        assert await listed(at, token) == ["read"]
        answer = await send_request(at, token, "tools/call", name="erase", arguments={})
        assert "hidden" not in answer.text and "the tool 'erase' is not allowed for this user" in answer.text
        assert "hidden text" in (await send_request(at, token, "tools/call", name="read", arguments={})).text
        answer = await send_request(at, token, "resources/read", uri="notes://x")
        assert "not allowed" in answer.text and requests[-1].tags == {"admin"}


@among(PROTECTED)
async def test_the_rules_of_one_user_do_not_change_what_another_sees(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protection(issuer), example(), real=False) as at:
        ann, bob = (issuer.token(at.url, scope="read", sub=name) for name in ("ann", "bob"))
        await at.open(ann)
        answer = await send_request(at, ann, "tools/call", name="switch", arguments={"name": "erase"})
        assert "done" in answer.text
        assert await listed(at, ann) == ["read", "switch"]
        assert "unknown tool" in (await send_request(at, ann, "tools/call", name="erase", arguments={})).text
        if rev.stateless:
            assert await listed(at, bob) == ["read", "erase", "switch"]
