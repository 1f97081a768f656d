"""What authorization servers in use send: it is read as what it is, and what is unsafe stays refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from support.auth.client_servers import METADATA, REDIRECT, RESOURCE, Reply, World, served, statuses, visit

from mcp_products.auth.client.grants import AuthorizationCode
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.client.token_endpoint import AuthorizationRequest, parse_authorization_response
from mcp_products.auth.discovery import AuthorizationServerMetadata, is_same_issuer, read_authorization_server_metadata
from mcp_products.auth.http import URLPolicy
from mcp_runtime.aio import clock
from mcp_runtime.errors import AuthorizationError, LocalError

OPENID = "/.well-known/openid-configuration"
ROOT = "/.well-known/oauth-protected-resource"
PAGE: Reply = (200, {"content-type": "text/html"}, "<!doctype html><title>all paths</title>")
NO_METADATA: dict[str, Reply] = {
    "a page": PAGE,
    "a page of JSON": (200, {"content-type": "application/json"}, {"status": "ok"}),
    "a list": (200, {}, [1]),
    "a text": (200, {}, '"hello"'),
    "null": (200, {}, "null"),
    "nothing": (200, {}, ""),
    "too much": (200, {}, "x" * 300_000),
    "a login": (302, {"location": "/login"}, ""),
    "forbidden": (403, {}, "no"),
    "a page of a 404": (404, {"content-type": "text/html"}, "<p>not found</p>"),
}


@pytest.fixture
def world() -> Iterator[World]:
    with served(World()) as running:
        yield running


# ---- pages at well-known addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NO_METADATA)
def test_what_is_no_metadata_of_a_resource_is_as_nothing(world: World, kind: str) -> None:
    world.replies[RESOURCE] = NO_METADATA[kind]
    world.replies[ROOT] = (200, {}, {"resource": world.url, "authorization_servers": [world.origin]})
    assert statuses(world) == [200]


@pytest.mark.parametrize("kind", NO_METADATA)
def test_what_is_no_metadata_of_an_authorization_server_is_as_nothing(world: World, kind: str) -> None:
    world.replies[METADATA] = NO_METADATA[kind]
    world.replies[OPENID] = (200, {}, world.metadata)
    assert statuses(world) == [200]


@pytest.mark.parametrize("kind", NO_METADATA)
def test_every_form_of_an_issuer_with_a_path_is_looked_up(world: World, kind: str) -> None:
    issuer = f"{world.origin}/tenant"
    world.replies[RESOURCE] = (200, {}, {"resource": world.url, "authorization_servers": [issuer]})
    world.replies[f"{METADATA}/tenant"] = NO_METADATA[kind]
    world.replies[f"{OPENID}/tenant"] = NO_METADATA[kind]
    world.replies[f"/tenant{OPENID}"] = (200, {}, {**world.metadata, "issuer": issuer})
    assert statuses(world) == [200]


def test_pages_everywhere_are_an_error_that_says_what_was_found(world: World) -> None:
    for path in (RESOURCE, ROOT, METADATA, OPENID):
        world.replies[path] = PAGE
    with pytest.raises(
        AuthorizationError, match=r"oauth-protected-resource/mcp: a page that is not JSON; .*resource: a"
    ):
        statuses(world)


def test_metadata_that_is_wrong_ends_discovery_as_before(world: World) -> None:
    world.replies[RESOURCE] = (200, {}, {"resource": "https://other.example", "authorization_servers": [world.origin]})
    world.replies[ROOT] = (200, {}, {"resource": world.url, "authorization_servers": [world.origin]})
    with pytest.raises(AuthorizationError, match="describes another resource"):
        statuses(world)
    world.replies[RESOURCE] = (503, {}, "")
    with pytest.raises(AuthorizationError, match="status 503"):
        statuses(world)


# ---- metadata of which a part is wrong ------------------------------------------------------------------------------

BOM = b"\xef\xbb\xbf"
PARTS_OF_RESOURCE: dict[str, Callable[[World], dict[str, Any]]] = {
    "a scope that is null": lambda world: {"scopes_supported": [None, "a"]},
    "scopes as a text": lambda world: {"scopes_supported": "a b"},
    "scopes as an object": lambda world: {"scopes_supported": {"a": 1}},
    "a server that is null": lambda world: {"authorization_servers": [None, world.origin]},
    "a server that is empty": lambda world: {"authorization_servers": ["", world.origin]},
    "a server without TLS": lambda world: {"authorization_servers": ["http://as.example", world.origin]},
    "another scheme": lambda world: {"authorization_servers": [world.origin, "ftp://as.example"]},
    "a server without metadata": lambda world: {"authorization_servers": [f"{world.origin}/none", world.origin]},
}
PARTS_OF_ISSUER: dict[str, dict[str, Any]] = {
    "a method that is null": {"token_endpoint_auth_methods_supported": [None, "none"]},
    "methods as a text": {"token_endpoint_auth_methods_supported": "none"},
    "scopes as numbers": {"scopes_supported": [1]},
    "proofs as a text": {"dpop_signing_alg_values_supported": "ES256"},
    "keys as a number": {"jwks_uri": 5},
    "a challenge that is null": {"code_challenge_methods_supported": ["S256", None]},
}


@pytest.mark.parametrize("kind", PARTS_OF_RESOURCE)
def test_a_wrong_part_of_the_metadata_of_a_resource_costs_itself(world: World, kind: str) -> None:
    document = {"resource": world.url, "authorization_servers": [world.origin]}
    world.replies[RESOURCE] = (200, {}, {**document, **PARTS_OF_RESOURCE[kind](world)})
    assert statuses(world) == [200]


@pytest.mark.parametrize("kind", PARTS_OF_ISSUER)
def test_a_wrong_part_of_the_metadata_of_an_authorization_server_costs_itself(world: World, kind: str) -> None:
    world.replies[METADATA] = (200, {}, {**world.metadata, **PARTS_OF_ISSUER[kind]})
    assert statuses(world) == [200]


def test_an_endpoint_that_is_empty_is_none(world: World) -> None:
    world.replies[METADATA] = (200, {}, {**world.metadata, "registration_endpoint": ""})
    with pytest.raises(AuthorizationError, match="regist"):
        statuses(world)


def test_an_authorization_server_that_does_not_answer_is_not_replaced_by_another(world: World) -> None:
    """It may have issued the tokens in use; a login at another one would lose them."""
    servers = [f"{world.origin}/down", world.origin]
    world.replies[RESOURCE] = (200, {}, {"resource": world.url, "authorization_servers": servers})
    world.replies[f"{METADATA}/down"] = (503, {}, "")
    with pytest.raises(AuthorizationError, match="status 503"):
        statuses(world)


def test_a_byte_order_mark_is_no_part_of_an_answer(world: World) -> None:
    documents: dict[str, Any] = {
        RESOURCE: {"resource": world.url, "authorization_servers": [world.origin]},
        METADATA: world.metadata,
        "/register": {"client_id": "registered"},
        "/token": {"access_token": "secret-x", "token_type": "bearer"},
    }
    world.valid = "secret-x"
    for path, document in documents.items():
        world.replies[path] = (200, {}, BOM + json.dumps(document).encode())
    assert statuses(world) == [200]


@pytest.mark.parametrize("named", ["/elsewhere", "", "{origin}/elsewhere"])
def test_a_challenge_may_name_the_path_of_the_metadata(world: World, named: str) -> None:
    shown = named.format(origin=world.origin)
    world.refusal = (401, {"www-authenticate": f'Bearer resource_metadata="{shown}"'}, "")
    world.replies["/elsewhere"] = (200, {}, {"resource": world.url, "authorization_servers": [world.origin]})
    assert statuses(world) == [200]
    assert bool(world.params_of("/elsewhere")) == bool(named)


# ---- the slash of an issuer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a", "https://a/", True),
        ("https://a:8443/", "https://a:8443", True),
        ("https://a", "https://a//", False),
        ("https://a/x", "https://a/x/", False),
        ("https://a", "https://A", False),
        ("https://a", "http://a/", False),
        ("https://a", "https://a:443/", False),
        ("https://a", "https://a/?", False),
        ("https://a", "https://a/#", False),
        ("https://a", "https://a.evil/", False),
        ("https://", "https:///", False),
        ("a", "a/", False),
        ("", "/", False),
    ],
)
def test_the_slash_of_a_root_is_all_that_issuers_may_differ_by(one: str, other: str, same: bool) -> None:
    assert is_same_issuer(one, other) is same and is_same_issuer(other, one) is same


@pytest.mark.parametrize("listed", ["", "/"])
@pytest.mark.parametrize("named", ["", "/"])
def test_an_issuer_may_be_listed_with_the_slash_of_its_root_and_named_without(
    world: World, listed: str, named: str
) -> None:
    world.replies[RESOURCE] = (200, {}, {"resource": world.url, "authorization_servers": [f"{world.origin}{listed}"]})
    world.replies[METADATA] = (200, {}, {**world.metadata, "issuer": f"{world.origin}{named}"})
    assert statuses(world) == [200]
    assert statuses(world, issuers=[world.origin]) == [200] == statuses(world, issuers=[f"{world.origin}/"])


def test_another_issuer_is_refused_with_the_setting_that_allows_it() -> None:
    document = {"issuer": "https://other.example", "token_endpoint": "https://as.example/token"}
    with pytest.raises(AuthorizationError) as caught:
        read_authorization_server_metadata(document, "https://as.example", URLPolicy())
    assert "aliases={'https://as.example': ['https://other.example']}" in str(caught.value)
    aliases = ["https://other.example/"]
    assert read_authorization_server_metadata(document, "https://as.example", URLPolicy(), aliases).issuer


def test_the_issuer_of_a_redirect_is_that_of_the_metadata_to_the_letter() -> None:
    issuer = AuthorizationServerMetadata("https://as.example", "https://as.example/token")
    request = AuthorizationRequest(issuer, REDIRECT, "right", "verifier")
    assert parse_authorization_response(f"{REDIRECT}?code=c&state=right&iss=https://as.example", request) == "c"
    with pytest.raises(AuthorizationError, match="another issuer"):
        parse_authorization_response(f"{REDIRECT}?code=c&state=right&iss=https://as.example/", request)


# ---- answers of token endpoints -------------------------------------------------------------------------------------

TOKEN = {"access_token": "secret-x", "token_type": "bearer"}
GOOD: dict[str, Reply] = {
    "201": (201, {}, TOKEN),
    "no type": (200, {}, {"access_token": "secret-x"}),
    "Bearer": (200, {}, {**TOKEN, "token_type": "Bearer"}),
    "a form": (
        200,
        {"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
        "access_token=secret-x&scope=a&token_type=bearer",
    ),
    "null for nothing": (200, {}, {**TOKEN, "error": None, "refresh_token": None, "scope": None, "expires_in": None}),
    "further members": (200, {}, {**TOKEN, "ext_expires_in": 1, "id_token": {}, "expires_in": "3600"}),
    "a list of scopes": (200, {}, {**TOKEN, "scope": ["a", "b"]}),
    "scopes that are none": (200, {}, {**TOKEN, "scope": 5, "expires_in": "soon"}),
}


@pytest.mark.parametrize("kind", GOOD)
def test_tokens_are_read_in_the_forms_in_use(world: World, kind: str) -> None:
    world.valid = "secret-x"
    world.replies["/token"] = GOOD[kind]
    assert statuses(world) == [200]


async def test_a_number_of_seconds_may_be_a_text_and_scopes_a_list(world: World) -> None:
    from mcp_products.auth.client.storage import OAuthClientInformation
    from mcp_products.auth.client.token_endpoint import TokenEndpoint
    from mcp_products.auth.http import AuthHTTPClient

    world.replies["/token"] = (200, {}, {**TOKEN, "expires_in": "60", "scope": ["a", "b"]})
    issuer = AuthorizationServerMetadata(world.origin, f"{world.origin}/token")
    http = AuthHTTPClient(URLPolicy(local=True))
    endpoint = TokenEndpoint(http, issuer, OAuthClientInformation("x"), None, clock=lambda: 1000.0)
    token = await endpoint.token({"grant_type": "client_credentials"}, ("c",))
    assert (token.expires_at, token.scopes, token.token_type) == (1060.0, ("a", "b"), "Bearer")


@pytest.mark.parametrize(
    ("seconds", "renewed_at"),
    [(2, 1.6), ("2", 1.6), (2.5, 2.0), ("2.5", 2.0), (3600, 3591.0), (0, None), ("0", None), (-1, None)],
)
async def test_a_token_is_renewed_shortly_before_its_end_and_not_at_each_request(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: Any, renewed_at: float | None
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(clock, "wall", lambda: now)
    world.valid = "secret-x"
    world.replies["/token"] = (200, {}, {**TOKEN, "expires_in": seconds, "refresh_token": "r"})
    provider = OAuthClientProvider(world.url, AuthorizationCode(visit, REDIRECT))
    async with httpx2.AsyncClient(auth=provider, trust_env=False) as client:
        for _ in range(3):
            assert (await client.get(world.url)).status_code == 200
        assert len(world.params_of("/token")) == 1
        now += renewed_at or 100_000.0
        await client.get(world.url)
    assert len(world.params_of("/token")) == (1 if renewed_at is None else 2)


BAD: dict[str, tuple[Reply, str]] = {
    "200 with an error": ((200, {}, {"error": "bad_verification_code"}), "issued no token: bad_verification_code"),
    "201 with an error": ((201, {}, {"error": "invalid_grant"}), "issued no token: invalid_grant"),
    "a form with an error": (
        (200, {"content-type": "application/x-www-form-urlencoded"}, "error=bad_verification_code&error_description=x"),
        "issued no token: bad_verification_code",
    ),
    "an empty object": ((200, {}, {}), "has no access_token"),
    "a page": (PAGE, "issued no token: status 200"),
    "a list": ((200, {}, []), "issued no token: status 200"),
    "another type": ((200, {}, {**TOKEN, "token_type": "mac"}), "another type than bearer"),
    "a type that is not text": ((200, {}, {**TOKEN, "token_type": 5}), "another type than bearer"),
    "a token with a line": ((200, {}, {**TOKEN, "access_token": "a\nb"}), "cannot be sent in a header"),
}


@pytest.mark.parametrize("kind", BAD)
def test_an_answer_without_a_token_is_reported_as_what_it_is(world: World, kind: str) -> None:
    world.replies["/token"], message = BAD[kind]
    with pytest.raises(AuthorizationError, match=message):
        statuses(world)


@pytest.mark.parametrize("status", [200, 201])
def test_a_registration_is_read_with_any_status_of_success_and_its_error_too(world: World, status: int) -> None:
    extra = {"client_secret": None, "client_secret_expires_at": 0, "token_endpoint_auth_method": None, "x": 1}
    world.replies["/register"] = (status, {}, {"client_id": "registered", **extra})
    assert statuses(world) == [200]
    world.replies["/register"] = (status, {}, {"error": "invalid_redirect_uri"})
    with pytest.raises(AuthorizationError, match="did not register this client: invalid_redirect_uri"):
        statuses(world)


# ---- authorization servers that refuse `resource` -------------------------------------------------------------------

REFUSALS: list[dict[str, str]] = [
    {"error": "invalid_target"},
    {"error": "invalid_request", "error_description": "Unknown parameter: resource"},
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=json.dumps)
def test_a_refused_resource_is_not_left_out_by_itself_but_named_with_the_setting(
    world: World, refusal: dict[str, str]
) -> None:
    world.replies["/token"] = (400, {}, refusal)
    with pytest.raises(AuthorizationError, match=r"resource_indicator=False and issuers="):
        statuses(world)
    assert len(world.params_of("/token")) == 1


def test_no_resource_is_sent_where_the_setting_says_so(world: World) -> None:
    assert statuses(world, resource_indicator=False, issuers=[world.origin]) == [200]
    sent = [*world.params_of("/authorize"), *world.params_of("/token")]
    assert len(sent) == 2 and not any("resource" in params for params in sent)
    world.seen.clear()
    assert statuses(world) == [200]
    assert all("resource" in params for params in [*world.params_of("/authorize"), *world.params_of("/token")])


def test_the_setting_needs_the_authorization_server_that_it_is_for(world: World) -> None:
    grant: Any = AuthorizationCode(visit, REDIRECT)
    with pytest.raises(LocalError, match="needs issuers="):
        OAuthClientProvider(world.url, grant, resource_indicator=False)
