"""Verifiers of one's own, and what happens where a verifier fails: nobody is let in, and nothing is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest
from support.auth.resource_server import PROTECTED, Authority, challenge, endpoint
from support.endpoints import Rev, among, clause

from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_products.auth.resource_server.verifiers import IntrospectionVerifier
from mcp_runtime.session.interfaces import AuthenticatedUser


@pytest.fixture
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


class Own:
    """Knows one token; for another it raises with all it knows, as careless ones do."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        if token == "breaks":
            raise RuntimeError(f"cannot check {token}: password hunter2")
        if token == "hangs":
            await asyncio.Event().wait()
        return AuthenticatedUser("bob", scopes=frozenset({"a"})) if token == "good" else None


def own(url: str) -> ResourceServer:
    return ResourceServer(url, ["https://issuer.example"], verifier=Own())


@among(PROTECTED)
@clause("2025-03-26/authorization/24", "draft/authorization/20")
async def test_a_verifier_of_ones_own_decides(rev: Rev) -> None:
    async with endpoint(rev, own) as at:
        await at.open("good")
        answer = await at.call("good")
        assert "bob" in answer.text
        assert (await at.call("bad")).status_code == 401


@pytest.mark.parametrize("token", ["breaks", "hangs"])
async def test_a_verifier_that_fails_lets_nobody_in_and_tells_nobody_why(
    token: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_products.auth.resource_server.protection._VERIFY_TIMEOUT", 0.05)
    with caplog.at_level(logging.DEBUG):
        async with endpoint(PROTECTED[-1], own) as at:
            answer = await at.call(token)
    assert answer.status_code == 503 and not at.ran and "www-authenticate" not in answer.headers
    for text in (answer.text, caplog.text):
        assert "hunter2" not in text and "cannot check" not in text
    assert ("RuntimeError" if token == "breaks" else "TimeoutError") in caplog.text


async def test_an_issuer_that_is_down_is_no_reason_to_let_anybody_in_or_to_log_in_again(issuer: Authority) -> None:
    issuer.down = True
    at_issuer = f"{issuer.name}/introspect"
    asking = lambda url: IntrospectionVerifier(at_issuer, client_id="resource", client_secret="s&cret", audience=url)
    introspecting = lambda url: ResourceServer(url, [issuer.name], verifier=asking(url))
    for resource_server in (lambda url: ResourceServer(url, [issuer.name]), introspecting):
        async with endpoint(PROTECTED[-1], resource_server) as at:
            answer = await at.call(issuer.token(at.url))
            assert answer.status_code == 503 and "www-authenticate" not in answer.headers and not at.ran


def secret_tokens(issuer: Authority, url: str) -> list[str]:
    return [issuer.token(url), issuer.token(url, exp=1), issuer.token("https://other.example"), "hunter2hunter2"]


async def test_no_token_reaches_a_log_or_a_handler(issuer: Authority, caplog: pytest.LogCaptureFixture) -> None:
    resource_server: Callable[[str], ResourceServer] = lambda url: ResourceServer(url, [issuer.name], scopes=["x"])
    with caplog.at_level(logging.DEBUG):
        async with endpoint(PROTECTED[-1], resource_server) as at:
            tokens = [*secret_tokens(issuer, at.url), issuer.token(at.url, scope="x")]
            answers = [await at.call(token) for token in tokens]
            assert [answer.status_code for answer in answers] == [403, 401, 401, 401, 200]
            assert challenge(answers[0])["error"] == "insufficient_scope"
            [ctx] = at.ran
    assert "token was rejected" in caplog.text
    signatures = [token.rpartition(".")[2] for token in tokens]
    seen = "".join(
        str(vars(value))
        for value in (ctx, ctx.channel, ctx.received, ctx.connection_state)
        if hasattr(value, "__dict__")
    )
    seen += repr(ctx.user) + str(ctx.user.claims) + caplog.text + "".join(answer.text for answer in answers)
    assert not [signature for signature in signatures if signature in seen]
