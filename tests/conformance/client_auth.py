"""The scenario of authorization that the suite runs goes in, how its client authorizes comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx2

from mcp_products.auth.client.grants import (
    AuthorizationCode,
    ClientCredentials,
    Grant,
    IdentityAssertion,
    JWTAssertion,
    TokenRequest,
)
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.client.storage import OAuthClientInformation
from mcp_products.auth.http import AuthHTTPClient

_REDIRECT: Final = "http://localhost:3000/callback"
_DOCUMENT: Final = "https://conformance-test.local/client-metadata.json"


async def visit(url: str) -> str:
    """What a browser would come back to: the suite agrees at once."""
    async with httpx2.AsyncClient() as browser:
        return (await browser.get(url, follow_redirects=False)).headers["location"]


def authorization(scenario: str, url: str, context: Mapping[str, Any]) -> OAuthClientProvider:
    return OAuthClientProvider(url, grant_of(scenario, context))


def grant_of(scenario: str, context: Mapping[str, Any]) -> Grant:
    match scenario:
        case "auth/client-credentials-jwt":
            key, signs = context["private_key_pem"], context["signing_algorithm"]
            return ClientCredentials(
                OAuthClientInformation(context["client_id"], private_key=key, signing_algorithm=signs)
            )
        case "auth/client-credentials-basic":
            return ClientCredentials(OAuthClientInformation(context["client_id"], context["client_secret"]))
        case "auth/enterprise-managed-authorization":

            async def id_token() -> str:
                return context["idp_id_token"]

            own = OAuthClientInformation(context["idp_client_id"], token_endpoint_auth_method="none")
            identity = IdentityAssertion(context["idp_issuer"], context["idp_token_endpoint"], own, id_token)
            return JWTAssertion(OAuthClientInformation(context["client_id"], context["client_secret"]), identity)
        case "auth/wif-jwt-bearer":

            async def vouched(asking: AuthHTTPClient, token_request: TokenRequest) -> str:
                return context["valid_jwt"]

            return JWTAssertion(
                OAuthClientInformation(context["client_id"], token_endpoint_auth_method="none"), vouched
            )
        case "auth/pre-registration":
            information = OAuthClientInformation(context["client_id"], context["client_secret"])
            return AuthorizationCode(visit, _REDIRECT, client_information=information)
        case _:
            return AuthorizationCode(visit, _REDIRECT, client_metadata_url=_DOCUMENT)
