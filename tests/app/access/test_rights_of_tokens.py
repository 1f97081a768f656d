"""What is kept for a user is kept by all that the token allows, not by the user alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.auth.resource_server import PROTECTED, Authority, endpoint
from support.endpoints import Rev, among

from mcp_generated import App, Context
from mcp_generated.auth import AuthenticatedUser
from mcp_generated.middleware import ResponseCachingMiddleware
from mcp_products.auth.resource_server.protection import ResourceServer

FIELDS: dict[str, Any] = {
    "client_id": "app", "scopes": frozenset({"a", "b"}), "issuer": "i", "claims": {"aud": ["x"], "iat": 1, "jti": "1"}
}  # fmt: skip
OTHERS: list[dict[str, Any]] = [
    {"client_id": "other"},
    {"scopes": frozenset({"a"})},
    {"issuer": "j"},
    {"dpop_thumbprint": "key"},
    *({"claims": {"aud": ["x"], **more}} for more in ({"act": {"sub": "robot"}}, {"acr": "2"}, {"tenant": 7})),
    {"claims": {"aud": ["y"]}},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_what_a_token_allows_is_its_key(other: dict[str, Any]) -> None:
    assert AuthenticatedUser("ann", **FIELDS).rights_key != AuthenticatedUser("ann", **{**FIELDS, **other}).rights_key


def test_a_renewed_token_and_other_values_that_are_no_json_have_a_key() -> None:
    renewed = {**FIELDS, "claims": {"jti": "2", "iat": 5, "exp": 9, "aud": ["x"]}, "expires_at": 9.0}
    assert AuthenticatedUser("ann", **FIELDS).rights_key == AuthenticatedUser("ann", **renewed).rights_key
    odd = AuthenticatedUser("ann", **{**FIELDS, "claims": {"set": frozenset({"a"})}})
    assert odd.rights_key != AuthenticatedUser("ann", **FIELDS).rights_key


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


@among(PROTECTED)
async def test_a_cached_result_is_for_tokens_that_allow_the_same(rev: Rev, issuer: Authority) -> None:
    app = App("app", middleware=[ResponseCachingMiddleware()])

    @app.tool
    def actor(ctx: Context) -> str:
        assert ctx.user is not None
        return f"for {ctx.user.claims.get('act')} with {sorted(ctx.user.scopes)}"

    def protection(url: str) -> ResourceServer:
        return ResourceServer(url, [issuer.name], scopes=(), scopes_supported=["admin"])

    async with endpoint(rev, protection, app, real=False) as at:
        claims: list[dict[str, Any]] = [{"scope": "use"}, {"scope": "use admin"}, {"scope": "use", "act": {"sub": "r"}}]
        await at.open(issuer.token(at.url, **claims[0]))
        texts: list[str] = []
        for more in [*claims, *claims]:
            body = at.rev.request(1, "tools/call", {"name": "actor", "arguments": {}})
            headers = {"mcp-name": "actor"} if rev.stateless else {}
            answer = await at.post(body, issuer.token(at.url, **more), **headers)
            texts.append(json.loads(answer.content)["result"]["content"][0]["text"])
    assert len({*texts}) == 3 and texts[:3] == texts[3:]
