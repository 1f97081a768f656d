"""Tokens that are bound to a key (RFC 9449): good for whoever proves to hold it, and for nobody who stole them."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey
from support.auth.resource_server import PROTECTED, Authority, Endpoint, challenge, endpoint, proof, unsigned
from support.endpoints import Rev, among

from mcp_products.auth.client.token_endpoint import DPoPProver
from mcp_products.auth.resource_server.dpop import DPoPVerifier, InMemoryReplayCache, InvalidDPoPProofError
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_runtime.errors import LocalError

KEY, STOLEN_BY = (ECKey.generate_key("P-256", private=True) for _ in range(2))
NEWEST = PROTECTED[-1]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


def protected(issuer: Authority, **more: Any) -> Callable[[str], ResourceServer]:
    return lambda url: ResourceServer(url, [issuer.name], dpop=DPoPVerifier(**more))


def bound(issuer: Authority, url: str, key: ECKey = KEY) -> str:
    return issuer.token(url, cnf={"jkt": key.thumbprint()})


async def show(at: Endpoint, token: str, *shown: str, **headers: str) -> httpx2.Response:
    """Call a tool with a bound token, and these proofs."""
    sent = {"authorization": f"DPoP {token}", **({"dpop": ", ".join(shown)} if shown else {}), **headers}
    return await at.call(None, **sent)


@among(PROTECTED)
async def test_who_holds_the_key_is_let_in_with_each_request(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, protected(issuer)) as at:
        token = bound(issuer, at.url)

        class Proving(httpx2.Auth):
            def auth_flow(self, request: httpx2.Request) -> Any:
                request.headers["authorization"] = f"DPoP {token}"
                request.headers["dpop"] = proof(KEY, request.method, at.url, token)
                yield request

        at.http.auth = Proving()
        await at.open(None)
        for _ in range(2):
            assert "alice" in (await at.call(None)).text
        assert at.ran[0].user.dpop_thumbprint == KEY.thumbprint()
        if not rev.stateless:
            assert (await at.http.delete(at.url, headers=at.session)).status_code == 204


async def test_a_proof_is_good_once(issuer: Authority) -> None:
    async with endpoint(NEWEST, protected(issuer)) as at:
        token = bound(issuer, at.url)
        shown = proof(KEY, "POST", at.url, token)
        assert (await show(at, token, shown)).status_code == 200
        answer = await show(at, token, shown)
        assert answer.status_code == 401 and challenge(answer, "dpop")["error"] == "invalid_dpop_proof"
        assert len(at.ran) == 1


def with_shared_secret(url: str, token: str) -> str:
    secret = OctKey.generate_key(256)
    head = {"alg": "HS256", "jwk": secret.as_dict(private=True)}
    return proof(secret, "POST", url, token, head)  # type: ignore[arg-type]


def of_token(token: str) -> str:
    return urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()


Wrong = Callable[[str, str], str]
WRONG: dict[str, Wrong] = {
    "for another method": lambda u, t: proof(KEY, "GET", u, t),
    "for a method in small letters": lambda u, t: proof(KEY, "post", u, t),
    "for another path": lambda u, t: proof(KEY, "POST", f"{u}/other", t),
    "for another host": lambda u, t: proof(KEY, "POST", "https://other.example/mcp", t),
    "for another scheme": lambda u, t: proof(KEY, "POST", u.replace("http:", "https:"), t),
    "for another port": lambda u, t: proof(KEY, "POST", "http://127.0.0.1:1/mcp", t),
    "for no URL": lambda u, t: proof(KEY, "POST", u, t, htu=None),
    "for a URL that is none": lambda u, t: proof(KEY, "POST", "http://[", t),
    "for no method": lambda u, t: proof(KEY, "POST", u, t, htm=None),
    "for another token": lambda u, t: proof(KEY, "POST", u, t + "x"),
    "for no token": lambda u, t: proof(KEY, "POST", u, t, ath=None),
    "too old": lambda u, t: proof(KEY, "POST", u, t, iat=int(time.time()) - 300),
    "from the future": lambda u, t: proof(KEY, "POST", u, t, iat=int(time.time()) + 300),
    "of no time": lambda u, t: proof(KEY, "POST", u, t, iat=None),
    "of a time that is text": lambda u, t: proof(KEY, "POST", u, t, iat=str(int(time.time()))),
    "of a time beyond all numbers": lambda u, t: proof(KEY, "POST", u, t, iat=10**400),
    "of a time that is none": lambda u, t: proof(KEY, "POST", u, t, iat=float("nan")),
    "without an id": lambda u, t: proof(KEY, "POST", u, t, jti=None),
    "with an empty id": lambda u, t: proof(KEY, "POST", u, t, jti=""),
    "with an id without end": lambda u, t: proof(KEY, "POST", u, t, jti="x" * 300),
    "of another key": lambda u, t: proof(STOLEN_BY, "POST", u, t),
    "of another key that it hides": lambda u, t: proof(STOLEN_BY, "POST", u, t, {"jwk": KEY.as_dict(private=False)}),
    "with the private key in it": lambda u, t: proof(KEY, "POST", u, t, {"jwk": KEY.as_dict(private=True)}),
    "with no key in it": lambda u, t: unsigned({"typ": "dpop+jwt", "alg": "ES256", "jwk": "none"}, {}),
    "of another type": lambda u, t: proof(KEY, "POST", u, t, {"typ": "JWT"}),
    "not signed": lambda u, t: proof(KEY, "POST", u, t, {"alg": "none"}),
    "signed with a secret that it brings": with_shared_secret,
    "with what has to be understood": lambda u, t: unsigned(
        {"typ": "dpop+jwt", "alg": "ES256", "jwk": KEY.as_dict(private=False), "crit": ["x"], "x": 1}, {}
    ),
    "no JWT": lambda u, t: "garbage",
    "beyond ASCII": lambda u, t: "\xe4.\xe4.\xe4",
    "too long": lambda u, t: proof(KEY, "POST", u, t, more="x" * 9000),
}


@pytest.mark.parametrize("what", list(WRONG))
async def test_a_proof_that_is_none_is_refused(what: str, issuer: Authority) -> None:
    async with endpoint(NEWEST, protected(issuer), real=False) as at:
        token = bound(issuer, at.url)
        shown = WRONG[what](at.url, token).encode("latin-1")
        answer = await show(at, token, dpop=shown)  # type: ignore[arg-type]
        assert answer.status_code == 401 and not at.ran
        params = challenge(answer, "dpop")
        assert params["error"] == "invalid_dpop_proof" and "ES256" in params["algs"].split()


@pytest.mark.parametrize(("bits", "status"), [(1024, 401), (2040, 401), (2048, 200)])
async def test_an_rsa_key_of_a_proof_has_2048_bits(bits: int, status: int, issuer: Authority) -> None:
    key = RSAKey.generate_key(bits)
    async with endpoint(NEWEST, protected(issuer), real=False) as at:
        token = issuer.token(at.url, cnf={"jkt": key.thumbprint()})
        answer = await show(at, token, dpop=proof(key, "POST", at.url, token, {"alg": "PS256"}))
        assert (answer.status_code, bool(at.ran)) == (status, status == 200)


async def test_a_stolen_token_is_worth_nothing_without_its_key(issuer: Authority) -> None:
    async with endpoint(NEWEST, protected(issuer)) as at:
        token = bound(issuer, at.url)
        good = proof(KEY, "POST", at.url, token)
        as_bearer = await at.call(token)
        assert as_bearer.status_code == 401 and challenge(as_bearer)["error"] == "invalid_token"
        assert (await at.call(token, dpop=good)).status_code == 401
        assert (await show(at, token)).status_code == 401
        assert (await show(at, token, good, proof(KEY, "POST", at.url, token))).status_code == 401
        unbound = issuer.token(at.url)
        assert (await show(at, unbound, proof(KEY, "POST", at.url, unbound))).status_code == 401
        other = bound(issuer, at.url, STOLEN_BY)
        assert (await show(at, other, proof(KEY, "POST", at.url, other))).status_code == 401
        assert not at.ran
        assert (await at.call(unbound)).status_code == 200


async def test_where_keys_are_required_a_token_without_one_is_refused(issuer: Authority) -> None:
    async with endpoint(NEWEST, protected(issuer, required=True)) as at:
        answer = await at.call(issuer.token(at.url))
        assert answer.status_code == 401 and not at.ran
        assert [line.split()[0] for line in answer.headers.get_list("www-authenticate")] == ["DPoP"]
        token = bound(issuer, at.url)
        assert (await show(at, token, proof(KEY, "POST", at.url, token))).status_code == 200


async def test_where_proofs_are_not_checked_a_bound_token_is_refused(issuer: Authority) -> None:
    async with endpoint(NEWEST, lambda url: ResourceServer(url, [issuer.name])) as at:
        token = bound(issuer, at.url)
        assert (await show(at, token, proof(KEY, "POST", at.url, token))).status_code == 401
        assert (await at.call(token)).status_code == 401 and not at.ran


async def test_a_nonce_of_the_server_has_to_be_in_the_proof(issuer: Authority) -> None:
    now = [time.time()]
    async with endpoint(NEWEST, protected(issuer, require_nonce=True, nonce_lifetime=20, clock=lambda: now[0])) as at:
        token = bound(issuer, at.url)
        answer = await show(at, token, proof(KEY, "POST", at.url, token))
        assert answer.status_code == 401 and challenge(answer, "dpop")["error"] == "use_dpop_nonce"
        nonce = answer.headers["dpop-nonce"]
        assert (await show(at, token, proof(KEY, "POST", at.url, token, nonce=nonce))).status_code == 200
        for wrong in ("x", "", "\u00e4", 7):
            answer = await show(at, token, proof(KEY, "POST", at.url, token, nonce=wrong))
            assert answer.headers["dpop-nonce"] == nonce
        now[0] += 45
        answer = await show(at, token, proof(KEY, "POST", at.url, token, nonce=nonce))
        assert answer.status_code == 401 and answer.headers["dpop-nonce"] != nonce


async def test_the_clients_own_proofs_are_taken_with_the_nonce_it_was_told(issuer: Authority) -> None:
    proofs = DPoPProver()
    key = ECKey.import_key(_head(proofs.header("POST", "https://a.example"))["jwk"])
    async with endpoint(NEWEST, protected(issuer, require_nonce=True)) as at:
        token = bound(issuer, at.url, key)
        for status in (401, 200):
            answer = await show(at, token, proofs.header("POST", at.url, token))
            assert answer.status_code == status
            proofs.update_nonce(at.url, answer.headers.get("dpop-nonce"), None)


def _head(text: str) -> dict[str, Any]:
    from joserfc.jws import extract_compact

    return dict(extract_compact(text.encode()).headers())


def test_a_proof_is_for_a_url_without_its_query() -> None:
    possession = DPoPVerifier()
    shown = proof(KEY, "POST", "HTTPS://A.example:443/mcp?x=1#y", "t")
    with pytest.raises(InvalidDPoPProofError, match="URL"):
        possession.check(shown, "POST", "https://a.example/mcp/x", "t", KEY.thumbprint())
    possession.check(shown, "POST", "https://a.example/mcp", "t", KEY.thumbprint())
    with pytest.raises(InvalidDPoPProofError, match="before"):  # So it was accepted.
        possession.check(shown, "POST", "https://a.example/mcp", "t", KEY.thumbprint())


def test_another_clients_proof_with_the_same_id_is_no_replay() -> None:
    possession, url = DPoPVerifier(), "https://a.example/mcp"
    for key in (KEY, STOLEN_BY):
        possession.check(proof(key, "POST", url, "t", jti="1"), "POST", url, "t", key.thumbprint())
    for key in (KEY, STOLEN_BY):  # Both were accepted, because both are replays now.
        with pytest.raises(InvalidDPoPProofError, match="before"):
            possession.check(proof(key, "POST", url, "t", jti="1"), "POST", url, "t", key.thumbprint())


def test_a_proof_is_remembered_for_as_long_as_it_could_be_shown_again() -> None:
    now = [time.time()]
    possession = DPoPVerifier(clock=lambda: now[0], max_clock_skew=60)
    for offset in (-59, 0, 59):
        shown = proof(KEY, "POST", "https://a.example/mcp", "t", iat=int(now[0]) + offset)
        start = now[0]
        possession.check(shown, "POST", "https://a.example/mcp", "t", KEY.thumbprint())
        for later in (1, 30, 58, 60, 90, 117, 119, 500):
            now[0] = start + later
            with pytest.raises(InvalidDPoPProofError):
                possession.check(shown, "POST", "https://a.example/mcp", "t", KEY.thumbprint())
        now[0] = start


def test_what_is_remembered_has_a_limit_beyond_which_proofs_are_refused() -> None:
    now = [0.0]
    seen = InMemoryReplayCache(max_entries=3, clock=lambda: now[0])
    assert [seen.add(str(number), expires_at=10) for number in range(5)] == [True, True, True, False, False]
    now[0] = 11
    assert seen.add("5", expires_at=20) and not seen.add("5", expires_at=20)


def test_no_proof_is_forgotten_while_it_could_be_shown_again_however_many_there_are() -> None:
    now = [time.time()]
    clock = lambda: now[0]
    possession = DPoPVerifier(
        clock=clock, max_clock_skew=60, replay_cache=InMemoryReplayCache(max_entries=1, clock=clock)
    )
    start, url = int(now[0]), "https://a.example/mcp"

    def shown(later: float) -> None:
        now[0] = start + later
        possession.check(proof(KEY, "POST", url, "t", iat=int(now[0])), "POST", url, "t", KEY.thumbprint())

    shown(0)
    for later in (1, 30, 59):
        with pytest.raises(InvalidDPoPProofError, match="before"):
            shown(later)
    shown(121)


@pytest.mark.parametrize("algorithms", [(), ("none",), ("ES256", "HS256")])
def test_proofs_are_never_signed_with_a_shared_secret(algorithms: tuple[str, ...]) -> None:
    with pytest.raises(LocalError):
        DPoPVerifier(algorithms=algorithms)
