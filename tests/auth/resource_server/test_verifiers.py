"""Where verifiers get what they know: key sets that change, claims, and introspection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.errors import SecurityWarning
from joserfc.jwk import OctKey, RSAKey
from support.auth.resource_server import Authority
from support.endpoints import clause

from mcp_products.auth.http import AuthHTTPClient, AuthResponse, URLPolicy
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_products.auth.resource_server.verifiers import (
    AnyVerifier,
    ClaimRequirements,
    IntrospectionVerifier,
    InvalidClaimsError,
    JWTVerifier,
    read_key,
    read_user,
)
from mcp_runtime.errors import AuthorizationError, LocalError

HERE = "https://here.example/mcp"


class Clock:
    """A time that a test sets, from the real one on, as tokens are of the real one."""

    def __init__(self) -> None:
        self.now = time.time() + 2  # Tokens that are made in the next seconds are valid by then.

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


def jwt(issuer: Authority, **more: Any) -> JWTVerifier:
    return JWTVerifier(issuer.name, audience=HERE, **more)


# ---- key sets --------------------------------------------------------------------------------------------------------


async def test_keys_are_asked_for_once_and_again_when_one_is_new(issuer: Authority) -> None:
    clock = Clock()
    verifier = jwt(issuer, clock=clock)
    for _ in range(3):
        assert await verifier.verify(issuer.token(HERE))
    assert issuer.paths == ["/.well-known/oauth-authorization-server", "/keys"]
    # The issuer has a new key, and takes the old one back.
    new = issuer.new_key("two")
    issuer.published = [new.as_dict(private=False)]
    clock.now += 60
    assert await verifier.verify(issuer.token(HERE, key=new, head={"kid": "two"}))
    assert issuer.paths.count("/keys") == 2
    assert await verifier.verify(issuer.token(HERE)) is None
    assert issuer.paths.count("/keys") == 2


async def test_tokens_with_made_up_keys_cause_no_flood_of_requests(issuer: Authority) -> None:
    clock = Clock()
    verifier = jwt(issuer, clock=clock, jwks_uri=f"{issuer.name}/keys")
    assert await verifier.verify(issuer.token(HERE))
    clock.now += 60
    foreign_key = issuer.new_key("x")
    forged = [issuer.token(HERE, key=foreign_key, head={"kid": f"x{number}"}) for number in range(30)]
    assert not any(await asyncio.gather(*(verifier.verify(token) for token in forged)))
    assert issuer.paths.count("/keys") == 2
    assert await verifier.verify(issuer.token(HERE))


async def test_a_token_of_somebody_else_causes_no_request(issuer: Authority) -> None:
    other = Authority()
    both = ResourceServer(HERE, [issuer.name, other.name]).verifier
    assert await both.verify(other.token(HERE)) and not issuer.paths
    assert await both.verify(issuer.token(HERE)) and len(other.paths) == 2
    assert await both.verify(issuer.token(HERE, iss="https://third.example")) is None
    assert await both.verify(other.token(HERE, iss=issuer.name)) is None
    other.close()


async def test_many_first_tokens_at_once_cause_one_request(issuer: Authority) -> None:
    verifier = jwt(issuer, jwks_uri=f"{issuer.name}/keys")
    assert all(await asyncio.gather(*(verifier.verify(issuer.token(HERE)) for _ in range(20))))
    assert issuer.paths == ["/keys"]


async def test_keys_that_cannot_be_had_again_are_used_for_a_while(issuer: Authority) -> None:
    clock = Clock()
    verifier = jwt(issuer, clock=clock)
    assert await verifier.verify(issuer.token(HERE))
    issuer.down = True
    clock.now += 2 * 3600
    assert await verifier.verify(issuer.token(HERE, exp=clock.now + 60))
    clock.now += 25 * 3600
    with pytest.raises(AuthorizationError):
        await verifier.verify(issuer.token(HERE, exp=clock.now + 60))
    issuer.down = False
    clock.now += 60
    assert await verifier.verify(issuer.token(HERE, exp=clock.now + 60))


async def test_an_issuer_that_does_not_answer_delays_nobody_whose_key_is_known(
    issuer: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_products.auth.resource_server.verifiers._PATIENCE", 0.01)
    asked: list[str] = []

    async def silent(url: str, headers: object = None) -> AuthResponse:
        asked.append(url)
        await asyncio.Event().wait()
        raise AssertionError

    clock = Clock()
    verifier = jwt(issuer, clock=clock, jwks_uri=f"{issuer.name}/keys")
    assert await verifier.verify(issuer.token(HERE))
    monkeypatch.setattr(AuthHTTPClient, "get", lambda self, url: silent(url))
    clock.now += 2 * 3600
    tokens = [issuer.token(HERE, exp=clock.now + 60, jti=str(number)) for number in range(5)]
    assert all([await verifier.verify(token) for token in tokens]) and len(asked) == 1
    unknown = asyncio.create_task(verifier.verify(issuer.token(HERE, head={"kid": "two"})))
    done, _ = await asyncio.wait([unknown], timeout=0.05)
    assert not done, "only the issuer can say"
    unknown.cancel()


async def test_clocks_may_differ_a_little(issuer: Authority) -> None:
    clock = Clock()
    verifier = jwt(issuer, clock=clock)
    token = issuer.token(HERE, iat=clock.now, nbf=clock.now, exp=clock.now + 100)
    for shift, is_good in ((-31, False), (-29, True), (0, True), (129, True), (131, False)):
        clock.now += shift
        assert (await verifier.verify(token) is not None) is is_good, shift
        clock.now -= shift


async def test_metadata_of_another_issuer_gives_no_keys(issuer: Authority) -> None:
    other = Authority()
    try:
        with pytest.raises(AuthorizationError):
            await JWTVerifier(f"{issuer.name}/tenant", audience=HERE).verify(
                issuer.token(HERE, iss=f"{issuer.name}/tenant"),
            )
        assert "/keys" not in issuer.paths
    finally:
        other.close()


async def test_keys_are_not_fetched_from_where_the_policy_does_not_reach(issuer: Authority) -> None:
    verifier = JWTVerifier("https://issuer.example", audience=HERE, jwks_uri=f"{issuer.name}/keys", policy=URLPolicy())
    with pytest.raises(AuthorizationError, match="this machine"):
        await verifier.verify(issuer.token(HERE, iss="https://issuer.example"))
    assert not issuer.paths


def test_only_public_keys_for_signatures_are_taken_from_a_set() -> None:
    key = Authority.new_key("one")
    public: dict[str, Any] = key.as_dict(private=False)
    assert read_key(public) is not None
    with pytest.warns(SecurityWarning):
        weak = RSAKey.generate_key(1024)
    bad: list[object] = [
        key.as_dict(private=True),
        OctKey.generate_key(256).as_dict(),
        weak.as_dict(private=False),
        {**public, "use": "enc"},
        {**public, "key_ops": ["sign"]},
        {**public, "key_ops": "verify"},
        {**public, "kid": 1},
        {**public, "x": "AAAA"},
        {**public, "crv": "P-1"},
        {"kty": "AKP"},
        {},
        None,
        "key",
    ]
    assert [read_key(document) for document in bad] == [None] * len(bad)


async def test_a_good_signature_is_good_for_a_minute_and_never_longer_than_its_token(issuer: Authority) -> None:
    clock = Clock()
    verifier = jwt(issuer, clock=clock, leeway=0)
    lasting, short = issuer.token(HERE), issuer.token(HERE, exp=int(clock.now) + 10)
    assert await verifier.verify(lasting) is await verifier.verify(lasting) and await verifier.verify(short)
    forged = lasting[:-8] + ("A" * 8 if lasting[-8:] != "A" * 8 else "B" * 8)
    assert await verifier.verify(forged) is None
    clock.now += 11
    assert await verifier.verify(short) is None
    clock.now += 50
    issuer.published = [issuer.new_key("two").as_dict(private=False)]
    assert await verifier.verify(issuer.token(HERE, head={"kid": "unknown"})) is None
    assert await verifier.verify(lasting) is None


async def test_a_key_is_used_for_its_own_algorithm_alone(issuer: Authority) -> None:
    key = RSAKey.generate_key(2048, {"kid": "rsa", "alg": "PS256"})
    issuer.published.append(key.as_dict(private=False))
    verifier = jwt(issuer)
    plain = RSAKey.import_key({name: value for name, value in key.as_dict(private=True).items() if name != "alg"})
    assert await verifier.verify(issuer.token(HERE, key=plain, head={"kid": "rsa", "alg": "PS256"}))
    assert await verifier.verify(issuer.token(HERE, key=plain, head={"kid": "rsa", "alg": "RS256"})) is None


async def test_a_token_that_names_no_key_is_tried_with_those_of_its_kind(issuer: Authority) -> None:
    assert await jwt(issuer).verify(issuer.token(HERE, head={"kid": None, "typ": None}))


async def test_scopes_are_read_in_the_forms_that_issuers_have(issuer: Authority) -> None:
    for claims in ({"scope": "a b"}, {"scope": ["a", "b"]}, {"scp": "a b"}, {"scp": ["a", "b"]}):
        user = await jwt(issuer).verify(issuer.token(HERE, **claims))
        assert user is not None and user.scopes == {"a", "b"}
    assert await jwt(issuer).verify(issuer.token(HERE, scope={"a": 1})) is None


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=8),
    st.just(HERE),
    st.lists(st.one_of(st.text(max_size=4), st.just(HERE), st.integers()), max_size=3),
    st.dictionaries(st.sampled_from(["jkt", "x"]), st.one_of(st.text(max_size=4), st.none()), max_size=2),
)
NAMES = ("iss", "aud", "exp", "nbf", "iat", "sub", "client_id", "azp", "scope", "scp", "cnf")
SOUND = {"iss": "https://a.example", "aud": HERE, "exp": 2000, "sub": "alice"}


@pytest.mark.long
@settings(max_examples=400)
@given(st.dictionaries(st.sampled_from(NAMES), ODD, max_size=4), st.booleans())
def test_whatever_a_token_says_it_is_taken_only_by_the_rules(overrides: dict[str, Any], complete: bool) -> None:
    claims = {**SOUND, **overrides}
    requirements = ClaimRequirements("https://a.example", frozenset({HERE}), 10.0, complete)
    try:
        user = read_user(claims, requirements, 1000.0, "token")
    except InvalidClaimsError:
        return
    audience = claims["aud"]
    assert audience == HERE or HERE in audience
    assert claims["iss"] == "https://a.example" or (claims["iss"] is None and not complete)
    assert (claims["exp"] is None and not complete) or claims["exp"] > 990
    assert all(claims.get(name) is None or claims[name] <= 1010 for name in ("nbf", "iat"))
    assert user.subject or user.client_id
    assert user.dpop_thumbprint is None if claims.get("cnf") is None else user.dpop_thumbprint == claims["cnf"]["jkt"]


# ---- introspection ---------------------------------------------------------------------------------------------------


def asking(authority: Authority, **more: Any) -> IntrospectionVerifier:
    options = {"client_id": "resource", "client_secret": "s&cret", "audience": HERE, **more}
    return IntrospectionVerifier(f"{authority.name}/introspect", **options)


async def test_an_issuer_is_asked_about_a_token_and_the_answer_is_kept_shortly(issuer: Authority) -> None:
    clock = Clock()
    verifier = asking(issuer, clock=clock, cache_ttl=30)
    issuer.active["t"] = {"active": True, "sub": "alice", "client_id": "app", "scope": "a b", "aud": [HERE, "x"]}
    for _ in range(3):
        user = await verifier.verify("t")
        assert user is not None and (user.subject, user.client_id, user.scopes) == ("alice", "app", {"a", "b"})
    assert len(issuer.paths) == 1
    issuer.active["t"] = {"active": False}
    clock.now += 31
    assert await verifier.verify("t") is None and await verifier.verify("t") is None
    assert len(issuer.paths) == 2


async def test_an_answer_is_not_kept_for_longer_than_the_token_lasts(issuer: Authority) -> None:
    clock = Clock()
    verifier = asking(issuer, clock=clock, cache_ttl=3600, leeway=0)
    issuer.active["t"] = {"active": True, "sub": "alice", "aud": HERE, "exp": clock.now + 10}
    assert await verifier.verify("t")
    clock.now += 11
    assert await verifier.verify("t") is None


GOOD = {"active": True, "sub": "alice", "aud": HERE}


@pytest.mark.parametrize(
    "response",
    [
        {"active": False},
        {**GOOD, "active": "true"},
        {**GOOD, "active": 1},
        {**GOOD, "aud": "https://other.example"},
        {"active": True, "sub": "alice"},
        {**GOOD, "iss": "https://evil.example"},
        {**GOOD, "exp": 1},
        {**GOOD, "nbf": 99_999_999_999},
        {**GOOD, "sub": None},
        {**GOOD, "sub": 7},
        {**GOOD, "cnf": {"x5t#S256": "x"}},
    ],
)
@clause("draft/authorization/45", "draft/security/02")
async def test_what_an_issuer_does_not_vouch_for_here_is_not_good(response: dict[str, Any], issuer: Authority) -> None:
    issuer.active["t"] = {name: value for name, value in response.items() if value is not None}
    assert await asking(issuer, issuer=issuer.name).verify("t") is None


async def test_claims_never_hold_the_token_itself(issuer: Authority) -> None:
    issuer.active["secret-token"] = {**GOOD, "access_token": "secret-token", "more": 1}
    user = await asking(issuer).verify("secret-token")
    assert user is not None and user.claims["more"] == 1
    assert "secret-token" not in str(dict(user.claims)) and "secret-token" not in repr(user)


async def test_one_of_several_verifiers_is_enough(issuer: Authority) -> None:
    issuer.active["opaque"] = GOOD
    both = AnyVerifier(jwt(issuer), asking(issuer))
    assert await both.verify("opaque") and await both.verify(issuer.token(HERE))
    assert await both.verify("nothing") is None


async def test_a_verifier_that_cannot_say_keeps_out_nobody_whom_another_one_lets_in(issuer: Authority) -> None:
    down = Authority()
    down.down = True
    try:
        both = AnyVerifier(asking(down), jwt(issuer))
        assert await both.verify(issuer.token(HERE))
        with pytest.raises(AuthorizationError, match="introspection"):
            await both.verify(issuer.token("https://other.example"))
    finally:
        down.close()


def test_tokens_are_for_somebody() -> None:
    with pytest.raises(LocalError, match="audience"):
        JWTVerifier("https://a.example", audience=[])


@pytest.mark.parametrize(
    ("metadata", "message"),
    [({"jwks_uri": None}, "has no jwks_uri"), ({"issuer": "https://other.example"}, "issuer")],
)
async def test_metadata_without_a_key_set_are_named(issuer: Authority, metadata: dict[str, Any], message: str) -> None:
    issuer.other_metadata = metadata
    with pytest.raises(AuthorizationError, match=message):
        await jwt(issuer).verify(issuer.token(HERE))
    assert "/keys" not in issuer.paths


@pytest.mark.parametrize("named", ["https://a", "https://a/"])
@pytest.mark.parametrize("configured", ["https://a", "https://a/"])
def test_a_token_may_name_its_issuer_with_the_slash_of_the_root_or_without(named: str, configured: str) -> None:
    required = ClaimRequirements(configured, frozenset({"r"}), 0)
    claims = {"iss": named, "sub": "x", "aud": "r", "exp": 10}
    assert read_user(claims, required, 5, "token").subject == "x"
    for other in (f"{named}x", f"{named.rstrip('/')}/x", "https://b", None, 5):
        with pytest.raises(InvalidClaimsError, match="another issuer"):
            read_user({**claims, "iss": other}, required, 5, "token")
