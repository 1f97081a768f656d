"""The scenario of authorization that the suite runs goes in, how its client authorizes comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx2

from mcp_runtime.auth.asking import Asking
from mcp_runtime.auth.grants import Assertion, AuthorizationCode, ClientCredentials, Enterprise, Grant, Wanted
from mcp_runtime.auth.oauth import OAuth
from mcp_runtime.auth.store import Registered

_REDIRECT: Final = "http://localhost:3000/callback"
_DOCUMENT: Final = "https://conformance-test.local/client-metadata.json"


async def visit(url: str) -> str:
    """What a browser would come back to: the suite agrees at once."""
    async with httpx2.AsyncClient() as browser:
        return (await browser.get(url, follow_redirects=False)).headers["location"]


def authorization(scenario: str, url: str, context: Mapping[str, Any]) -> OAuth:
    return OAuth(url, grant_of(scenario, context))


def grant_of(scenario: str, context: Mapping[str, Any]) -> Grant:
    match scenario:
        case "auth/client-credentials-jwt":
            key, signs = context["private_key_pem"], context["signing_algorithm"]
            return ClientCredentials(Registered(context["client_id"], key=key, signs=signs))
        case "auth/client-credentials-basic":
            return ClientCredentials(Registered(context["client_id"], context["client_secret"]))
        case "auth/enterprise-managed-authorization":

            async def id_token() -> str:
                return context["idp_id_token"]

            own = Registered(context["idp_client_id"], method="none")
            vouch = Enterprise(context["idp_issuer"], context["idp_token_endpoint"], own, id_token)
            return Assertion(Registered(context["client_id"], context["client_secret"]), vouch)
        case "auth/wif-jwt-bearer":

            async def vouched(asking: Asking, wanted: Wanted) -> str:
                return context["valid_jwt"]

            return Assertion(Registered(context["client_id"], method="none"), vouched)
        case "auth/pre-registration":
            known = Registered(context["client_id"], context["client_secret"])
            return AuthorizationCode(visit, _REDIRECT, registered=known)
        case _:
            return AuthorizationCode(visit, _REDIRECT, document=_DOCUMENT)
