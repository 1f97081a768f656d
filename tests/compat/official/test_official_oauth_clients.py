"""The OAuth clients of the official SDK log in, store what they get in its storages, and use it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from pydantic import AnyUrl
from support.auth.client_servers import REDIRECT, World, served, visit

from mcp_generated import LocalError
from mcp_generated.compat import (
    AuthorizationCodeResult,
    ClientCredentialsOAuthProvider,
    IdentityAssertionOAuthProvider,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthClientProvider,
    OAuthToken,
    TokenStorage,
)
from mcp_products.compat.auth_clients import (
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
    static_assertion_provider,
)

Result = Callable[[str, str], Any]
RESULTS: dict[str, Result] = {
    "the tuple of 1.x": lambda code, state: (code, state),
    "the object of 2.x": lambda code, state: AuthorizationCodeResult(code=code, state=state),
}


class Storage(TokenStorage):
    """A storage as the tutorials of the official SDK write it."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture
def world() -> Iterator[World]:
    with served(World()) as running:
        yield running


def metadata(**more: Any) -> OAuthClientMetadata:
    return OAuthClientMetadata(client_name="Demo", redirect_uris=[AnyUrl(REDIRECT)], **more)


def login(world: World, storage: Storage, result: Result = RESULTS["the object of 2.x"], **more: Any) -> Any:
    redirects: list[str] = []

    async def open_browser(url: str) -> None:
        redirects.append(await visit(url))

    async def wait_for_redirect() -> Any:
        query = parse_qs(urlsplit(redirects.pop()).query)
        return result(query["code"][0], query["state"][0])

    return OAuthClientProvider(world.url, metadata(**more), storage, open_browser, wait_for_redirect)


def get(world: World, auth: Any, times: int = 1) -> list[int]:
    async def run() -> list[int]:
        async with httpx2.AsyncClient(auth=auth) as client:
            return [(await client.get(world.url)).status_code for _ in range(times)]

    return asyncio.run(run())


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_a_user_logs_in_once_and_a_later_process_has_the_token(world: World, result: Result) -> None:
    storage = Storage()
    assert get(world, login(world, storage, result, scope="read write"), times=2) == [200, 200]
    assert storage.tokens is not None and storage.tokens.access_token == world.valid
    assert storage.client is not None and storage.client.client_id == "registered"
    assert get(world, login(world, storage, result)) == [200]
    [authorization] = world.params_of("/authorize")
    assert authorization["scope"] == "read write"
    assert len(world.params_of("/register")) == len(world.params_of("/token")) == 1


def test_a_token_that_is_not_valid_any_more_is_refreshed(world: World) -> None:
    storage = Storage()
    assert get(world, login(world, storage)) == [200]
    assert storage.tokens is not None
    storage.tokens = storage.tokens.model_copy(update={"access_token": "old"})
    assert get(world, login(world, storage)) == [200]
    assert [request["grant_type"] for request in world.params_of("/token")] == ["authorization_code", "refresh_token"]
    assert storage.tokens.refresh_token == "refresh-2"


def test_a_client_that_is_registered_in_advance_registers_no_other(world: World) -> None:
    client = OAuthClientInformationFull(client_id="known", redirect_uris=[AnyUrl(REDIRECT)])
    assert get(world, login(world, Storage(client))) == [200]
    assert world.params_of("/register") == []
    assert [request["client_id"] for request in world.params_of("/authorize")] == ["known"]


def test_a_program_without_a_user_gets_a_token_with_its_secret(world: World) -> None:
    storage = Storage()
    auth = ClientCredentialsOAuthProvider(world.url, storage, "machine", "secret", scope="read")
    assert get(world, auth) == [200]
    [request] = world.params_of("/token")
    assert (request["grant_type"], request["scope"]) == ("client_credentials", "read")
    assert storage.tokens is not None and storage.tokens.access_token == world.valid


def test_a_program_without_a_user_gets_a_token_with_an_assertion(world: World) -> None:
    auth = PrivateKeyJWTOAuthProvider(
        world.url, Storage(), "machine", static_assertion_provider("jwt"), "read", world.origin
    )
    assert auth.context.client_metadata.token_endpoint_auth_method == "private_key_jwt"
    assert get(world, auth) == [200]
    [request] = world.params_of("/token")
    assert (request["grant_type"], request["scope"]) == ("client_credentials", "read")
    assert request["client_assertion_type"].endswith("jwt-bearer") and request["client_assertion"] == "jwt"


async def test_an_assertion_is_signed_for_the_issuer() -> None:
    key = ECKey.generate_key("P-256")
    parameters = SignedJWTParameters(
        issuer="machine",
        subject="robot",
        signing_key=key.as_pem(private=True).decode(),
        signing_algorithm="ES256",
        lifetime_seconds=60,
        additional_claims={"tenant": "tea"},
    )
    claims = jwt.decode(await parameters.create_assertion_provider()("https://auth.example"), key).claims
    named = {name: claims[name] for name in ("iss", "sub", "aud", "tenant")}
    assert named == {"iss": "machine", "sub": "robot", "aud": "https://auth.example", "tenant": "tea"}
    assert claims["exp"] - claims["iat"] == 60 and claims["jti"]


def test_an_identity_assertion_is_made_for_the_issuer_and_the_server(world: World) -> None:
    calls: list[tuple[str, str]] = []

    async def assertion(audience: str, resource: str) -> str:
        calls.append((audience, resource))
        return "id-jag"

    auth = IdentityAssertionOAuthProvider(world.url, Storage(), "app", "secret", world.origin, assertion)
    assert get(world, auth) == [200]
    [request] = world.params_of("/token")
    assert request["grant_type"].endswith("jwt-bearer") and request["assertion"] == "id-jag"
    assert calls == [(world.origin, world.url)]


def test_a_login_without_its_handlers_is_refused_where_it_is_written() -> None:
    with pytest.raises(LocalError, match="OAuthClientProvider: a login needs redirect_handler"):
        OAuthClientProvider("http://127.0.0.1/mcp", metadata(), Storage())


def test_what_fails_is_an_error_of_the_official_sdk(world: World) -> None:
    world.replies["/token"] = (401, {}, {"error": "invalid_client"})
    provider = ClientCredentialsOAuthProvider(world.url, Storage(), "machine", "secret", scope="read")
    assert (provider.context.server_url, provider.context.client_metadata.scope) == (world.url, "read")
    with pytest.raises(OAuthTokenError, match="invalid_client") as raised:
        get(world, provider)
    assert isinstance(raised.value, OAuthFlowError)


def test_a_client_that_cannot_be_registered_is_an_error_of_the_official_sdk(world: World) -> None:
    world.replies["/register"] = (400, {}, {"error": "invalid_redirect_uri"})
    with pytest.raises(OAuthRegistrationError, match="invalid_redirect_uri"):
        get(world, login(world, Storage()))
