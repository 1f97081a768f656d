"""The token endpoint (https://www.rfc-editor.org/rfc/rfc6749#section-3.2): authenticate the client, request tokens."""

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

_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_SECRET_METHODS: Final = ("client_secret_basic", "client_secret_post")
_KEY_TYPES: Final[Mapping[str, type[ECKey | RSAKey | OKPKey]]] = {
    "ES": ECKey,
    "RS": RSAKey,
    "PS": RSAKey,
    "Ed": OKPKey,
}
_ERROR: Final = re.compile(r"[a-z_]{1,64}")
_ASSERTION_SECONDS: Final = 120  # Seconds for which a client assertion is valid.
_RETRYABLE_STATUSES: Final = (408, 429)  # Like statuses from 500 on, they do not mean that the grant was rejected.
_MAX_TOKEN_SECONDS: Final = 10 * 365 * 86400  # A larger `expires_in` is ignored.


class TokenEndpoint:
    """The token endpoint of one authorization server, used by one client."""

    def __init__(
        self,
        http: AuthHTTPClient,
        issuer: AuthorizationServerMetadata,
        client: OAuthClientInformation,
        dpop: DPoPProver | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create an endpoint.

        Args:
            http: Client for the requests.
            issuer: Metadata of the authorization server.
            client: The client that authenticates.
            dpop: Proves possession of the key that tokens are to be bound to; None for bearer tokens.
            clock: Returns the current time in seconds since the epoch. Default `time.time`.
        """
        self._clock = clock
        self._http = http
        self._issuer = issuer
        self._client = client
        self._dpop = dpop

    async def token(self, grant: Mapping[str, str], requested: tuple[str, ...] = ()) -> OAuthToken:
        """Return the token for a grant. Its scopes are the `requested` ones unless the response names others.

        Raises AuthorizationServerUnavailableError if the server cannot process the request now, else
        AuthorizationError.
        """
        body = await self._request(grant, "issued no token")
        access_token, token_type = body.get("access_token"), body.get("token_type")
        expected = "dpop" if self._dpop else "bearer"
        if (
            not isinstance(access_token, str)
            or not access_token.isascii()
            or not access_token.isprintable()
            or " " in access_token
        ):
            raise AuthorizationError(f"{self._issuer.issuer} issued a token that cannot be sent in a header")
        if not isinstance(token_type, str) or token_type.lower() != expected:
            raise AuthorizationError(f"{self._issuer.issuer} issued a token of another type than {expected}")
        scope, expires_in, refresh_token = body.get("scope"), body.get("expires_in"), body.get("refresh_token")
        if not isinstance(expires_in, (int, float)) or not 0 <= expires_in <= _MAX_TOKEN_SECONDS:
            expires_in = None
        return OAuthToken(
            access_token,
            "DPoP" if self._dpop else "Bearer",
            tuple(scope.split()) if isinstance(scope, str) else requested,
            None if expires_in is None else self._clock() + expires_in,
            # A server that does not rotate refresh tokens need not repeat them.
            refresh_token if isinstance(refresh_token, str) else grant.get("refresh_token"),
            self._dpop.thumbprint if self._dpop else None,
        )

    async def exchange(self, grant: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the response to a token exchange (https://www.rfc-editor.org/rfc/rfc8693#section-2.2) unchanged.

        Raises AuthorizationError.
        """
        return await self._request(grant, "exchanged no token")

    async def _request(self, grant: Mapping[str, str], failure: str) -> Mapping[str, Any]:
        response = await self._send(grant)
        if response.status in _RETRYABLE_STATUSES or response.status >= 500:
            raise AuthorizationServerUnavailableError(
                f"{self._issuer.issuer} {failure}: status {response.status}; try again later"
            )
        if response.status != 200 or not is_object(response.body):
            raise AuthorizationError(f"{self._issuer.issuer} {failure}: {describe_error(response)}")
        return cast(Mapping[str, Any], response.body)

    async def _send(self, grant: Mapping[str, str]) -> AuthResponse:
        url = self._issuer.token_endpoint
        for may_retry in (True, False):
            form, headers = self._client_authentication(grant)
            if self._dpop:
                headers["dpop"] = self._dpop.header("POST", url)
            response = await self._http.post_form(url, form, headers)
            has_new_nonce = self._dpop is not None and self._dpop.update_nonce(url, response.dpop_nonce)
            if not (may_retry and has_new_nonce and describe_error(response) == "use_dpop_nonce"):
                break
        return response

    def _client_authentication(self, grant: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return form and headers with client authentication (https://www.rfc-editor.org/rfc/rfc6749#section-2.3 and
        https://www.rfc-editor.org/rfc/rfc7523#section-2.2)."""
        client, form = self._client, dict(grant)
        match self._auth_method():
            case "none":
                return {**form, "client_id": client.client_id}, {}
            case "client_secret_basic":
                credentials = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret or '')}"
                return form, {"authorization": f"Basic {b64encode(credentials.encode()).decode()}"}
            case "client_secret_post":
                return {**form, "client_id": client.client_id, "client_secret": client.client_secret or ""}, {}
            case "private_key_jwt":
                assertion = {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": self._assertion()}
                return {**form, "client_id": client.client_id, **assertion}, {}
            case method:
                raise AuthorizationError(
                    f"{self._issuer.issuer} requires client authentication by {method!r}, which is not supported; use "
                    "none, client_secret_basic, client_secret_post or private_key_jwt"
                )

    def _auth_method(self) -> str:
        client, supported = self._client, self._issuer.token_endpoint_auth_methods
        if client.token_endpoint_auth_method is not None:
            return client.token_endpoint_auth_method
        if client.private_key is not None:
            return "private_key_jwt"
        if client.client_secret is None:
            return "none"
        # A server that lists no methods supports basic (RFC 8414, section 2).
        return next((method for method in _SECRET_METHODS if method in supported), "client_secret_basic")

    def _assertion(self) -> str:
        client, now = self._client, int(time.time())
        key_type = _KEY_TYPES.get(client.signing_algorithm[:2])
        if key_type is None or client.private_key is None:
            raise AuthorizationError("private_key_jwt needs a private_key and an asymmetric signing_algorithm")
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
                key_type.import_key(client.private_key),
                algorithms=[client.signing_algorithm],
            )
        except ValueError as error:
            raise AuthorizationError(f"the private_key of the client cannot be used: {type(error).__name__}") from None


def describe_error(response: AuthResponse) -> str:
    """Return the OAuth error code of a response, or else its status. Other text of the response is not repeated."""
    error = response.body.get("error") if is_object(response.body) else None
    return error if isinstance(error, str) and _ERROR.fullmatch(error) else f"status {response.status}"
