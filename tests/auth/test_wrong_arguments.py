"""Wrong arguments of what protects a server or logs in are refused where they are written, not at each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_generated import App
from mcp_generated.auth import (
    AnyVerifier,
    AuthorizationCode,
    AuthorizationServer,
    ClientCredentials,
    InMemoryTokenStorage,
    IntrospectionVerifier,
    JWTAssertion,
    JWTVerifier,
    LoopbackBrowser,
    OAuthClient,
    OAuthClientInformation,
    OAuthClientProvider,
    ResourceServer,
    URLPolicy,
)
from mcp_runtime.errors import LocalError

MCP, ISSUER, REDIRECT = "https://notes.example/mcp", "https://login.example", "http://127.0.0.1:7/callback"


async def redirect(url: str) -> str:
    return url


class Login:
    """Somebody who is never there."""

    async def current_user(self, request: object) -> None:
        return None

    def login_url(self, return_to: str) -> str:
        return return_to


def grant(**settings: Any) -> Any:
    settings = {"redirect_handler": redirect, "redirect_uri": REDIRECT, **settings}
    return AuthorizationCode(**settings)


def provider(grant: Any = grant(), server: Any = MCP, **settings: Any) -> object:  # noqa: B008
    return OAuthClientProvider(server, grant, **settings)


def protected(resource: Any = MCP, issuers: Any = (ISSUER,), **settings: Any) -> object:
    return ResourceServer(resource, issuers, **settings)


def verifier(audience: Any = MCP, **settings: Any) -> object:
    return JWTVerifier(ISSUER, audience=audience, **settings)


def issuing(**settings: Any) -> object:
    settings = {"resources": [MCP], "login": Login(), **settings}
    return AuthorizationServer(ISSUER, **settings)


def introspection(**settings: Any) -> object:
    settings = {"client_id": "id", "client_secret": "hidden", "audience": MCP, **settings}
    return IntrospectionVerifier(ISSUER, **settings)


def either(verifier: Any) -> object:
    return AnyVerifier(verifier)


Wrong = tuple[Callable[..., object], dict[str, Any], str]
WRONG: list[Wrong] = [
    (provider, {"grant": "code"}, "grant must be a grant, such as AuthorizationCode"),
    (provider, {"grant": AuthorizationCode}, "grant must be a grant"),
    (provider, {"server": 3}, "server must be a string"),
    (provider, {"server": "notes.example/mcp"}, "'notes.example/mcp': an OAuth URL must begin with https://"),
    (provider, {"issuers": ISSUER}, "issuers must be a list of strings; 'https://login.example' is not"),
    (provider, {"pkce": ISSUER}, "pkce must be a list of strings"),
    (provider, {"aliases": {ISSUER: ISSUER}}, "aliases must be a dict of lists"),
    (provider, {"storage": "tokens.json"}, "FileTokenStorage"),
    (provider, {"storage": InMemoryTokenStorage}, "storage must be a storage"),
    (provider, {"policy": ISSUER}, "policy must be a URLPolicy"),
    (provider, {"discovery": "SERVER_ORIGIN"}, "discovery must be a DiscoveryMethod"),
    (provider, {"tls": False}, "tls must be an ssl.SSLContext"),
    (provider, {"dpop": "yes"}, "dpop must be True or False"),
    (grant, {"redirect_handler": "browser"}, "redirect_handler must be a function"),
    (grant, {"redirect_uri": 3}, "redirect_uri must be a string"),
    (grant, {"client_information": {"client_id": "id"}}, "OAuthClientInformation"),
    (grant, {"client_metadata_url": "http://a.example/b"}, "client_metadata_url must be an https URL with a path"),
    (grant, {"timeout": -3}, "timeout must be a number of seconds"),
    (ClientCredentials, {"client_information": "id"}, "OAuthClientInformation"),
    (
        JWTAssertion,
        {"client_information": OAuthClientInformation("id"), "assertion": "eyJ"},
        "assertion must be a function",
    ),
    (LoopbackBrowser, {"port": 99999}, "port must be a whole number"),
    (LoopbackBrowser, {"open_url": "firefox"}, "open_url must be a function"),
    (URLPolicy, {"private": "https://a.example:8443"}, "private must be a set of origins"),
    (URLPolicy, {"private": {"https://a.example/"}}, "private must be a set of origins"),
    (URLPolicy, {"private": {"https://[a"}}, "private must be a set of origins"),
    (protected, {"resource": 3}, "resource must be a string"),
    (protected, {"issuers": ISSUER}, "issuers must be a list of strings"),
    (protected, {"issuers": ["login.example"]}, "'login.example': an OAuth URL must begin with https://"),
    (protected, {"scopes": "notes"}, "scopes must be a list of strings; 'notes' is not"),
    (protected, {"verifier": JWTVerifier}, "verifier must be a verifier of tokens"),
    (protected, {"dpop": True}, "dpop must be a DPoPVerifier"),
    (protected, {"roles": ["admin"]}, "roles must be a dict"),
    (verifier, {"audience": ""}, "audience must be the URL of the resource"),
    (verifier, {"audience": None}, "audience must be the URL of the resource"),
    (verifier, {"audience": [MCP, ""]}, "audience must be the URL of the resource"),
    (verifier, {"algorithms": "RS256"}, "algorithms must be a list of strings; 'RS256' is not"),
    (verifier, {"leeway": -30}, "leeway must be a number of seconds from 0"),
    (introspection, {"audience": ""}, "audience must be the URL of the resource"),
    (introspection, {"client_secret": 5}, "client_secret must be a string"),
    (either, {"verifier": [verifier()]}, "verifiers must be a verifier of tokens"),
    (App("notes").asgi, {"auth": ResourceServer}, "auth must be a ResourceServer"),
    (issuing, {"resources": MCP}, "resources must be a list of strings"),
    (issuing, {"scopes": "notes:read"}, "scopes must be a list of strings"),
    (issuing, {"login": object()}, "login must be a Login"),
    (issuing, {"storage": "grants.db"}, "SQLiteStorage"),
    (issuing, {"clients": ["id"]}, "clients must be a list of clients"),
    (issuing, {"keys": b"k" * 32}, "keys must be a list of keys"),
    (OAuthClient.static, {"client_id": "id", "redirect_uris": REDIRECT}, "redirect_uris must be a list of strings"),
]


@pytest.mark.parametrize(("call", "arguments", "message"), WRONG)
def test_the_error_names_the_argument_and_what_it_must_be(call: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError) as raised:
        call(**arguments)
    assert message in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_the_right_arguments_are_accepted() -> None:
    for call in (provider, grant, protected, verifier, issuing, introspection):
        assert call() is not None
    assert URLPolicy(private=frozenset({"https://idp.internal:8443"})).check("https://idp.internal:8443/token")
