"""A client and a grant go in, the token that the token endpoint gives for them comes out."""

from __future__ import annotations

import re
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import quote_plus

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from ...errors import AuthorizationError, AuthorizationServerUnavailableError
from ...protocol.models import is_object
from ..http import AuthHTTPClient, AuthResponse
from ..metadata import AuthorizationServerMetadata
from .dpop import DPoPProver
from .storage import OAuthClientInformation, OAuthToken

_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_METHODS: Final = ("client_secret_basic", "client_secret_post")
_KEYS: Final[Mapping[str, type[ECKey | RSAKey | OKPKey]]] = {"ES": ECKey, "RS": RSAKey, "PS": RSAKey, "Ed": OKPKey}
_ERROR: Final = re.compile(r"[a-z_]{1,64}")
_ASSERTION_SECONDS: Final = 120  # Seconds an assertion is good for.
_RETRYABLE_STATUSES: Final = (
    408,
    429,
)  # Statuses that say nothing of what was asked; nor do those of a server's faults.
_MAX_DESCRIPTION: Final = 10 * 365 * 86400  # Seconds that a token is believed to last.


class TokenEndpoint:
    """The token endpoint of one issuer, for one client. `clock` tells when tokens expire."""

    def __init__(
        self,
        http: AuthHTTPClient,
        issuer: AuthorizationServerMetadata,
        client: OAuthClientInformation,
        dpop: DPoPProver | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._http = http
        self._issuer = issuer
        self._client = client
        self._dpop = dpop

    async def token(self, grant: Mapping[str, str], requested: tuple[str, ...] = ()) -> OAuthToken:
        """The token for a grant; it has the scopes asked, unless the answer says others. Raises AuthorizationError, or
        AuthorizationServerUnavailableError where nothing is said of the grant."""
        body = await self._read_response(grant, "gives no token")
        access, kind = body.get("access_token"), body.get("token_type")
        wanted = "dpop" if self._dpop else "bearer"
        if not isinstance(access, str) or not access.isascii() or not access.isprintable() or " " in access:
            raise AuthorizationError(f"{self._issuer.issuer} gives a token that cannot be sent")
        if not isinstance(kind, str) or kind.lower() != wanted:
            raise AuthorizationError(f"{self._issuer.issuer} gives a token of another type than {wanted}")
        scope, lasts, refresh = body.get("scope"), body.get("expires_in"), body.get("refresh_token")
        return OAuthToken(
            access,
            "DPoP" if self._dpop else "Bearer",
            tuple(scope.split()) if isinstance(scope, str) else requested,
            self._clock() + lasts if isinstance(lasts, (int, float)) and 0 <= lasts <= _MAX_DESCRIPTION else None,
            # A server that rotates says the new one; one that does not, says nothing.
            refresh if isinstance(refresh, str) else grant.get("refresh_token"),
            self._dpop.thumbprint if self._dpop else None,
        )

    async def exchange(self, grant: Mapping[str, str]) -> Mapping[str, Any]:
        """The answer to a token exchange (RFC 8693) as it is. Raises AuthorizationError."""
        return await self._read_response(grant, "exchanges no token")

    async def _read_response(self, grant: Mapping[str, str], refused: str) -> Mapping[str, Any]:
        said = await self._send(grant)
        if said.status in _RETRYABLE_STATUSES or said.status >= 500:
            raise AuthorizationServerUnavailableError(f"{self._issuer.issuer} {refused} now: status {said.status}")
        if said.status != 200 or not is_object(said.body):
            raise AuthorizationError(f"{self._issuer.issuer} {refused}: {describe_error(said)}")
        return cast(Mapping[str, Any], said.body)

    async def _send(self, grant: Mapping[str, str]) -> AuthResponse:
        url = self._issuer.token_endpoint
        for again in (True, False):
            form, headers = self._client_authentication(grant)
            if self._dpop:
                headers["dpop"] = self._dpop.header("POST", url)
            said = await self._http.post_form(url, form, headers)
            new = self._dpop is not None and self._dpop.update_nonce(url, said.nonce)
            if not (again and new and describe_error(said) == "use_dpop_nonce"):
                break
        return said

    def _client_authentication(self, grant: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The form and the headers that show who the client is (RFC 6749 2.3, RFC 7523)."""
        client, form = self._client, dict(grant)
        match self._method():
            case "none":
                return {**form, "client_id": client.client_id}, {}
            case "client_secret_basic":
                both = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret or '')}"
                return form, {"authorization": f"Basic {b64encode(both.encode()).decode()}"}
            case "client_secret_post":
                return {**form, "client_id": client.client_id, "client_secret": client.client_secret or ""}, {}
            case "private_key_jwt":
                said = {"client_assertion_type": _ASSERTION, "client_assertion": self._assertion()}
                return {**form, "client_id": client.client_id, **said}, {}
            case other:
                raise AuthorizationError(f"{self._issuer.issuer} wants the client to show itself by {other!r}")

    def _method(self) -> str:
        client, known = self._client, self._issuer.token_endpoint_auth_methods
        if client.token_endpoint_auth_method is not None:
            return client.token_endpoint_auth_method
        if client.private_key is not None:
            return "private_key_jwt"
        if client.client_secret is None:
            return "none"
        # One that says nothing knows basic (RFC 8414 2).
        return next((each for each in _METHODS if each in known), "client_secret_basic")

    def _assertion(self) -> str:
        client, now = self._client, int(time.time())
        kind = _KEYS.get(client.signing_algorithm[:2])
        if kind is None or client.private_key is None:
            raise AuthorizationError("private_key_jwt needs a private key and an algorithm that uses one")
        claims: dict[str, Any] = {
            "iss": client.client_id,
            "sub": client.client_id,
            "aud": self._issuer.issuer,
            "jti": secrets.token_urlsafe(16),
            "iat": now,
            "exp": now + _ASSERTION_SECONDS,
        }
        try:
            return jwt.encode(
                {"alg": client.signing_algorithm},
                claims,
                kind.import_key(client.private_key),
                algorithms=[client.signing_algorithm],
            )
        except ValueError as fault:
            raise AuthorizationError(f"the private key of the client is of no use: {type(fault).__name__}") from None


def describe_error(response: AuthResponse) -> str:
    """The error an answer names, if it is a word of the protocol; else its status. Nothing else of it is repeated."""
    error = response.body.get("error") if is_object(response.body) else None
    return error if isinstance(error, str) and _ERROR.fullmatch(error) else f"status {response.status}"
