"""What a user needs is decided by the version that a request gets, not by the highest one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.auth.resource_server import PROTECTED, Authority, Endpoint, endpoint
from support.endpoints import Rev, among

from mcp_generated import App
from mcp_generated.compat import FastMCP
from mcp_generated.middleware import AuthMiddleware, require_scopes, restrict_tag
from mcp_generated.transforms import VersionFilter
from mcp_products.auth.resource_server.protection import ResourceServer


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


def by_scopes() -> App:
    app = App("app")
    app.add_tool(lambda: "1", "f", version="1", scopes=["admin"])
    app.add_tool(lambda: "2", "f", version="2", scopes=["write"])
    app.add_tool(lambda: "3", "f", version="3")
    return app


def by_tags() -> App:
    app = App(
        "app", middleware=[AuthMiddleware([restrict_tag("a", scopes=["admin"]), restrict_tag("w", scopes=["write"])])]
    )
    app.add_tool(lambda: "1", "f", version="1", tags={"a"})
    app.add_tool(lambda: "2", "f", version="2", tags={"w"})
    app.add_tool(lambda: "3", "f", version="3")
    return app


def by_checks() -> App:
    app = FastMCP("app")
    for version, scope in (("1", "admin"), ("2", "write")):
        app.tool("f", version=version, auth=require_scopes(scope))(lambda: "text")
    app.add_tool(lambda: "3", "f", version="3")
    return app


def mounted() -> App:
    app = App("outer")
    app.mount(by_scopes())
    return app


async def status(at: Endpoint, token: str, version: str | None) -> int:
    """Return the status of a call, and 403 for an error that denies it."""
    meta = {} if version is None else {"fastmcp": {"version": version}}
    message = at.rev.request(1, "tools/call", {"name": "f", "arguments": {}})
    message["params"]["_meta"] = {**message["params"].get("_meta", {}), **meta}
    headers = {"mcp-name": "f"} if at.rev.stateless else {}
    answer = await at.post(message, token, **headers)
    if answer.status_code == 200 and "error" in json.loads(answer.content):
        return 403
    return answer.status_code


def protection(issuer: Authority) -> Any:
    return lambda url: ResourceServer(url, [issuer.name], scopes=())


@among(PROTECTED)
@pytest.mark.parametrize("make", [by_scopes, by_tags, by_checks, mounted])
async def test_a_call_needs_the_scopes_of_its_version(rev: Rev, issuer: Authority, make: Any) -> None:
    async with endpoint(rev, protection(issuer), make(), real=False) as at:
        tokens = {scope: issuer.token(at.url, scope=scope) for scope in ("other", "write", "admin")}
        await at.open(tokens["other"])
        for version, allowed in (("1", {"admin"}), ("2", {"write"}), ("3", {*tokens}), (None, {*tokens})):
            statuses = {scope: await status(at, token, version) for scope, token in tokens.items()}
            assert statuses == {scope: 200 if scope in allowed else 403 for scope in tokens}, version


@among(PROTECTED)
@pytest.mark.parametrize("make", [by_scopes, by_tags, by_checks, mounted])
async def test_a_call_through_a_filter_needs_the_scopes_of_its_version(rev: Rev, issuer: Authority, make: Any) -> None:
    app = make()
    app.add_transform(VersionFilter(version_lt="3"))
    async with endpoint(rev, protection(issuer), app, real=False) as at:
        tokens = {scope: issuer.token(at.url, scope=scope) for scope in ("other", "write", "admin")}
        await at.open(tokens["other"])
        statuses = {scope: await status(at, token, None) for scope, token in tokens.items()}
        assert statuses == {"other": 403, "write": 200, "admin": 403}
