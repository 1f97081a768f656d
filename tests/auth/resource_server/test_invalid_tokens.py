"""Tokens that are not good, shown to a protected endpoint over HTTP: none of them reaches a handler."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey
from support.auth.resource_server import PROTECTED, Authority, challenge, endpoint, unsigned
from support.endpoints import Rev, among, clause

from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_products.auth.resource_server.verifiers import JWTVerifier

NOW = int(time.time())
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
FOREIGN_KEY = ECKey.generate_key("P-256", {"kid": "stranger"})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    authority.published.append(RSA.as_dict(private=False))
    yield authority
    authority.close()


def protected(issuer: Authority, **more: Any) -> Callable[[str], ResourceServer]:
    return lambda url: ResourceServer(url, [issuer.name], **more)


@among(PROTECTED)
@clause("2025-03-26/authorization/24", "draft/authorization/20", "draft/authorization/44")
async def test_a_good_token_is_taken_and_the_handler_knows_whose_it_is(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer)) as at:
        token = issuer.token(at.url, scope="read more")
        await at.open(token)
        answer = await at.call(token)
        assert answer.status_code == 200 and "alice" in answer.text
        [ctx] = at.ran
        user = ctx.user
        assert (user.subject, user.client_id, user.scopes) == ("alice", "app", {"read", "more"})
        assert user.issuer == issuer.name and user.claims["aud"] == at.url


def good(issuer: Authority, url: str, **claims: Any) -> str:
    return issuer.token(url, **claims)


def with_public_key_as_secret(issuer: Authority, url: str) -> str:
    """HS256, with what everybody knows: the public key in the form that libraries read."""
    claims = {"iss": issuer.name, "sub": "mallory", "aud": url, "exp": NOW + 600}
    signed, _, _ = unsigned({"alg": "HS256", "kid": "rsa", "typ": "at+jwt"}, claims).rpartition(".")
    digest = hmac.digest(RSA.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def with_other_signature(issuer: Authority, url: str) -> str:
    one, two = issuer.token(url), issuer.token(url, sub="mallory")
    return ".".join([*two.split(".")[:2], one.split(".")[2]])


def brought(name: str) -> Callable[[Authority, str], str]:
    """The key that the token itself brings, or says where to find."""

    def forged(issuer: Authority, url: str) -> str:
        headers: dict[str, Any] = {
            "jwk": FOREIGN_KEY.as_dict(private=False),
            "jku": "http://127.0.0.1:9/keys",
            "x5u": "http://127.0.0.1:9/cert",
            "x5c": ["MIIB"],
        }
        return issuer.token(url, key=FOREIGN_KEY, head={name: headers[name]})

    return forged


BAD: dict[str, Callable[[Authority, str], str]] = {
    "for another audience": lambda a, u: good(a, "https://other.example/mcp"),
    "for an audience that begins like this one": lambda a, u: good(a, f"{u}/../admin"),
    "for several others": lambda a, u: good(a, ["https://a.example", "https://b.example"]),
    "for nobody": lambda a, u: good(a, None),
    "with an audience that is not text": lambda a, u: good(a, {"aud": u}),
    "expired": lambda a, u: good(a, u, exp=NOW - 3600),
    "without an end": lambda a, u: good(a, u, exp=None),
    "with an end that is text": lambda a, u: good(a, u, exp=str(NOW + 600)),
    "with an end that is true": lambda a, u: good(a, u, exp=True),
    "with an end beyond all numbers": lambda a, u: good(a, u, exp=10**400),
    "with an end in infinity": lambda a, u: good(a, u, exp=float("inf")),
    "with an end that is not a number": lambda a, u: good(a, u, exp=float("nan")),
    "not good yet": lambda a, u: good(a, u, nbf=NOW + 3600),
    "given in the future": lambda a, u: good(a, u, iat=NOW + 3600),
    "of another issuer": lambda a, u: good(a, u, iss="https://evil.example"),
    "of an issuer with two slashes more": lambda a, u: good(a, u, iss=f"{a.name}//"),
    "of an issuer with a path more": lambda a, u: good(a, u, iss=f"{a.name}/x"),
    "of no issuer": lambda a, u: good(a, u, iss=None),
    "of nobody": lambda a, u: good(a, u, sub=None, client_id=None),
    "not signed": lambda a, u: good(a, u, head={"alg": "none"}),
    "not signed, in capitals": lambda a, u: unsigned({"alg": "NONE", "typ": "JWT"}, {"iss": a.name, "aud": u}),
    "without its signature": lambda a, u: good(a, u).rpartition(".")[0] + ".",
    "with the signature of another": with_other_signature,
    "with the public key as a secret": with_public_key_as_secret,
    "signed by a stranger under a known kid": lambda a, u: good(a, u, key=FOREIGN_KEY),
    "signed by a stranger under no kid": lambda a, u: good(a, u, key=FOREIGN_KEY, head={"kid": None}),
    "signed by a stranger under an own kid": lambda a, u: good(a, u, key=FOREIGN_KEY, head={"kid": "stranger"}),
    "with the kid of a key of another kind": lambda a, u: good(a, u, head={"kid": "rsa"}),
    "with a path as kid": lambda a, u: good(a, u, key=FOREIGN_KEY, head={"kid": "../../../dev/null"}),
    "with a number as kid": lambda a, u: unsigned({"alg": "ES256", "kid": 1}, {"iss": a.name}),
    "with its own jwk": brought("jwk"),
    "with its own jku": brought("jku"),
    "with its own x5u": brought("x5u"),
    "with its own x5c": brought("x5c"),
    "with what has to be understood": lambda a, u: unsigned(
        {"alg": "ES256", "crit": ["b64"], "b64": False}, {"iss": a.name}
    ),
    "an ID token": lambda a, u: good(a, "app", head={"typ": "JWT"}),
    "a proof": lambda a, u: good(a, u, head={"typ": "dpop+jwt"}),
    "a logout token": lambda a, u: good(a, u, head={"typ": "logout+jwt"}),
    "bound to a certificate": lambda a, u: good(a, u, cnf={"x5t#S256": "abc"}),
    "bound to a key, shown as bearer": lambda a, u: good(a, u, cnf={"jkt": "abc"}),
    "an encrypted one": lambda a, u: "a.b.c.d.e",
    "no JWT at all": lambda a, u: "garbage",
    "with a header nested without end": lambda a, u: urlsafe_b64encode(b'{"alg":' + b"[" * 5999).decode() + ".e30.",
    "with an algorithm that is a list": lambda a, u: unsigned({"alg": ["ES256"]}, {"iss": a.name}),
    "too long": lambda a, u: good(a, u, junk="x" * 20_000),
}


@pytest.mark.parametrize("what", list(BAD))
@clause(
    *("2025-03-26/authorization/25", "2025-03-26/authorization/26", "2025-03-26/authorization/32"),
    *("draft/authorization/21", "draft/authorization/22", "draft/authorization/26", "draft/authorization/43"),
    *("draft/authorization/44", "draft/authorization/45", "draft/security/02"),
)
async def test_a_bad_token_is_refused_before_anything_runs(what: str, issuer: Authority) -> None:
    rev = PROTECTED[-1]
    async with endpoint(rev, protected(issuer), real=False) as at:
        token = BAD[what](issuer, at.url)
        answer = await at.call(token)
        assert answer.status_code == 401, answer.text
        assert challenge(answer)["error"] == "invalid_token"
        assert not at.ran
        # Why, and anything of the token, is told to nobody.
        assert token not in answer.text and token not in str(answer.headers)
        assert json.loads(answer.content)["error"]["message"] == "the access token or its proof is not valid"


@among(PROTECTED)
@clause("2025-03-26/authorization/10", "2025-03-26/authorization/32", "draft/authorization/26")
async def test_who_shows_no_token_is_asked_for_one(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer, scopes=["read"])) as at:
        for headers in ({}, {"authorization": "Basic YTpi"}):
            answer = await at.first(None, **headers)
            params = challenge(answer)
            assert answer.status_code == 401 and params["scope"] == "read" and "error" not in params
        for method in ("GET", "DELETE", "PUT"):
            assert (await at.http.request(method, at.url)).status_code == 401
        assert not at.ran


@among(PROTECTED)
@clause("2025-03-26/authorization/34", "draft/authorization/28")
async def test_credentials_of_a_wrong_form_are_a_bad_request(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer)) as at:
        token = issuer.token(at.url)
        for credentials in ("Bearer", "Bearer a b", f"Bearer {token}, Bearer {token}", "Bearer a,b", "Bearer \xe4"):
            answer = await at.first(None, authorization=credentials.encode("latin-1"))  # type: ignore[arg-type]
            assert answer.status_code == 400 and challenge(answer)["error"] == "invalid_request"
        twice = f"{at.url}?access_token={token}"
        answer = await at.http.post(twice, json={}, headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 400 and challenge(answer)["error"] == "invalid_request"


@clause("2025-03-26/authorization/23", "draft/authorization/19")
async def test_a_token_in_the_query_is_no_token(issuer: Authority) -> None:
    rev = PROTECTED[-1]
    async with endpoint(rev, protected(issuer)) as at:
        token = issuer.token(at.url)
        at.url += f"?access_token={token}"
        answer = await at.call(None)
        assert answer.status_code == 401 and token not in answer.text and not at.ran


def test_no_algorithm_with_a_shared_secret_can_be_allowed() -> None:
    from mcp_runtime.errors import LocalError

    for alg in ("none", "HS256", "HS512", "XX1"):
        with pytest.raises(LocalError, match=alg):
            JWTVerifier("https://a.example", audience="https://b.example", algorithms=["ES256", alg])
