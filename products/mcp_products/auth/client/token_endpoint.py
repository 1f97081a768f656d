"""The token endpoint (https://www.rfc-editor.org/rfc/rfc6749#section-3.2): authenticate the client, request tokens."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote_plus, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import AuthorizationError, AuthorizationServerUnavailableError
from mcp_runtime.http.urls import base_url
from mcp_runtime.protocol.models import is_list, is_object

from ..discovery import AuthorizationServerMetadata
from ..http import AuthHTTPClient, AuthResponse, is_loopback
from .storage import OAuthClientInformation, OAuthToken

OFFLINE: Final = "offline_access"
INVALID_TARGET: Final = "invalid_target"
# No retry without `resource`: the token would then not be limited to this server, which could use it elsewhere.
RESOURCE_REMEDY: Final = (
    " (it does not accept the parameter `resource` with the URL of this server; if its tokens are for this server only,"
    " pass resource_indicator=False and issuers=[…] to OAuthClientProvider)"
)
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CHALLENGE: Final = re.compile(rf'({_TOKEN})(?:\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]+))?')
_MAX_CHALLENGE_LENGTH: Final = 16 * 1024

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_SECRET_METHODS: Final = ("client_secret_basic", "client_secret_post")
_KEY_TYPES: Final[Mapping[str, type[ECKey | RSAKey | OKPKey]]] = {"ES": ECKey, "RS": RSAKey, "PS": RSAKey, "Ed": OKPKey}
_ERROR: Final = re.compile(r"[a-z_]{1,64}")
_ASSERTION_SECONDS: Final = 120  # Seconds for which a client assertion is valid.
_RETRYABLE_STATUSES: Final = (408, 429)  # Like statuses from 500 on, they do not mean that the grant was rejected.
_DIGITS: Final = re.compile(r"[0-9]{1,10}(?:\.[0-9]{1,10})?")
_MAX_TOKEN_SECONDS: Final = 10 * 365 * 86400  # A larger `expires_in` is ignored.

# DPoP proofs of a client: each proves possession of the key that the access token is bound to
# (https://www.rfc-editor.org/rfc/rfc9449#section-4).


class DPoPProver:
    """Creates DPoP proofs with a new P-256 key, which never leaves this object."""

    def __init__(self) -> None:
        """Generate the key."""
        self._key = ECKey.generate_key("P-256", private=True)
        self._nonces: dict[str, str] = {}  # The last nonce of each server, by `base_url`.

    @property
    def thumbprint(self) -> str:
        """The thumbprint of the public key (https://www.rfc-editor.org/rfc/rfc7638)."""
        return self._key.thumbprint()

    def header(self, method: str, url: str, token: str | None = None) -> str:
        """Return a `DPoP` header for one request, with the last nonce of the server.

        `token` is the access token that the request carries; None for a token request.
        """
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": f"{base_url(url)}{urlsplit(url).path}",
            "iat": int(clocks.wall()),
        }
        if token is not None:
            claims["ath"] = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        if (nonce := self.nonce(url)) is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key, algorithms=["ES256"])

    def nonce(self, url: str) -> str | None:
        """Return the last nonce of a server, if it has sent one."""
        return self._nonces.get(base_url(url))

    def update_nonce(self, url: str, nonce: str | None, sent: str | None) -> bool:
        """Store the nonce of a response (https://www.rfc-editor.org/rfc/rfc9449#section-8). Return True if it is
        another than the request had, though the response to another request may have brought it already."""
        if not nonce or nonce == sent:
            return False
        self._nonces[base_url(url)] = nonce
        return True


# Challenges and authorization responses: parse and check them, and select the scopes to request. No I/O.


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """An authorization request, against which its response is checked.

    Args:
        issuer: Metadata of the authorization server.
        redirect_uri: Redirect URI of the request.
        state: The `state` parameter.
        code_verifier: PKCE code verifier, which is sent to the token endpoint only
            (https://www.rfc-editor.org/rfc/rfc7636#section-4.1).
    """

    issuer: AuthorizationServerMetadata
    redirect_uri: str
    state: str = field(repr=False)
    code_verifier: str = field(repr=False)


def parse_challenges(header: str) -> dict[str, Mapping[str, str]]:
    """Return the parameters of the challenges in a WWW-Authenticate header, by scheme in lower case
    (https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1)."""
    challenges: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for name, value in _CHALLENGE.findall(header[:_MAX_CHALLENGE_LENGTH]):
        if not value:
            current = challenges.setdefault(name.lower(), {})
        elif value.startswith('"'):
            current[name.lower()] = re.sub(r"\\(.)", r"\1", value[1:-1])
        else:
            current[name.lower()] = value
    return {scheme: parameters for scheme, parameters in challenges.items()}


def select_scopes(
    challenged: str | None, supported: Iterable[str], current: Iterable[str], issuer: Iterable[str], offline: bool
) -> tuple[str, ...]:
    """Return the scopes to request.

    These are the scopes of the challenge, or else all that the resource supports, together with the `current` ones, so
    that a step-up loses none. With `offline`, `offline_access` is added if the issuer supports it.
    """
    requested = challenged.split() if challenged is not None else list(supported)
    requested = [*current, *requested]
    if offline and OFFLINE in issuer:
        requested.append(OFFLINE)
    return tuple(dict.fromkeys(requested))


def check_challenge_method(issuer: AuthorizationServerMetadata) -> None:
    """Raise AuthorizationError unless the authorization server advertises PKCE with S256."""
    if "S256" not in issuer.code_challenge_methods:
        raise AuthorizationError(
            f"{issuer.issuer} does not advertise PKCE with S256 in its metadata, which is required; if its"
            f" documentation says that it supports it, write pkce=[{issuer.issuer!r}]"
        )


def check_redirect_uri(uri: str) -> str:
    """Return a redirect URI. Raises AuthorizationError unless it uses https, http on this machine, or a private scheme
    (https://www.rfc-editor.org/rfc/rfc8252#section-7)."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        raise AuthorizationError("the redirect URI cannot be parsed") from None
    is_private_scheme = "." in parts.scheme and not parts.netloc
    if "#" in uri or not (
        is_private_scheme or (host and parts.scheme == "https") or (parts.scheme == "http" and is_loopback(host))
    ):
        raise AuthorizationError(
            "a redirect URI must use https, http on this machine, or a private scheme such as com.example.app, and "
            "have no fragment"
        )
    return uri


def application_type(uri: str) -> str:
    """Return the `application_type` of a client with this redirect URI: `native` on this machine, else `web`."""
    parts = urlsplit(uri)
    return "web" if parts.scheme == "https" and not is_loopback(parts.hostname or "") else "native"


def parse_authorization_response(url: str, request: AuthorizationRequest) -> str:
    """Return the authorization code in the URL that the browser was redirected to.

    Raises AuthorizationError if the response reports an error, belongs to another request, or comes from another issuer
    (https://www.rfc-editor.org/rfc/rfc9207#section-2.4). Both are checked before anything else in the response.
    """
    if url.partition("?")[0] != request.redirect_uri.partition("?")[0]:
        raise AuthorizationError("the authorization response was sent to another URL than the redirect URI")
    fields = parse_qsl(urlsplit(url).query, keep_blank_values=True, max_num_fields=50)
    params = dict(fields)
    if len(params) != len(fields):
        raise AuthorizationError("the authorization response repeats a parameter")
    if not hmac.compare_digest(params.get("state", "").encode(), request.state.encode()):
        raise AuthorizationError("the authorization response has the state of another request")
    issuer, iss = request.issuer.issuer, params.get("iss")
    if iss is None and request.issuer.iss_parameter_supported:
        raise AuthorizationError(f"the authorization response has no iss parameter, although {issuer} supports it")
    if iss is not None and iss != issuer:  # Both are of the same server: no difference is tolerated (RFC 9207).
        raise AuthorizationError(f"the authorization response comes from another issuer than {issuer}")
    if "error" in params:
        error = params["error"] if _ERROR.fullmatch(params["error"]) else "an unknown error"
        if error == "access_denied":
            raise AuthorizationError(
                f"the login was denied at {issuer} ({error}): log in again, and allow the access, or ask who runs"
                " that server to allow it for this user"
            )
        remedy = RESOURCE_REMEDY if error == INVALID_TARGET else ""
        raise AuthorizationError(f"{issuer} did not authorize the client: {error}{remedy}")
    if not params.get("code"):
        raise AuthorizationError("the authorization response has no code")
    return params["code"]


class TokenEndpoint:
    """The token endpoint of one authorization server, used by one client."""

    def __init__(
        self,
        http: AuthHTTPClient,
        issuer: AuthorizationServerMetadata,
        client: OAuthClientInformation,
        dpop: DPoPProver | None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create an endpoint.

        Args:
            http: Client for the requests.
            issuer: Metadata of the authorization server.
            client: The client that authenticates.
            dpop: Proves possession of the key that tokens are to be bound to; None for bearer tokens.
            clock: Returns the current time in seconds since the epoch. Default: that of the runtime.
        """
        self._clock = clock or clocks.wall
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
        access_token = body.get("access_token")
        if not isinstance(access_token, str):
            raise AuthorizationError(f"{self._issuer.issuer} issued no token: its response has no access_token")
        if not access_token.isascii() or not access_token.isprintable() or " " in access_token or not access_token:
            raise AuthorizationError(f"{self._issuer.issuer} issued a token that cannot be sent in a header")
        self._check_type(body.get("token_type"))
        expires_in, refresh_token = seconds_of(body.get("expires_in")), body.get("refresh_token")
        return OAuthToken(
            access_token,
            "DPoP" if self._dpop else "Bearer",
            _scopes(body.get("scope"), requested),
            None if expires_in is None else self._clock() + expires_in,
            # A server that does not rotate refresh tokens need not repeat them.
            refresh_token if isinstance(refresh_token, str) else grant.get("refresh_token"),
            self._dpop.thumbprint if self._dpop else None,
            expires_in,
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
        body: Any = response.body if is_object(response.body) else response.form
        # Some report an error with the status 200.
        is_error = body is None or (body.get("access_token") is None and body.get("error") is not None)
        if not 200 <= response.status < 300 or is_error:
            error = describe_error(response)
            remedy = RESOURCE_REMEDY if "resource" in grant and refuses_resource(error, response) else ""
            raise AuthorizationError(f"{self._issuer.issuer} {failure}: {error}{remedy}")
        return cast(Mapping[str, Any], body)

    def _check_type(self, token_type: object) -> None:
        """Raise AuthorizationError for a token of another type. A token without a type is a bearer token."""
        if token_type is None and self._dpop is None:
            return
        expected = "dpop" if self._dpop else "bearer"
        if not isinstance(token_type, str) or token_type.lower() != expected:
            raise AuthorizationError(f"{self._issuer.issuer} issued a token of another type than {expected}")

    async def _send(self, grant: Mapping[str, str]) -> AuthResponse:
        url = self._issuer.token_endpoint
        for may_retry in (True, False):
            form, headers = self._client_authentication(grant)
            sent_nonce = self._dpop.nonce(url) if self._dpop else None
            if self._dpop:
                headers["dpop"] = self._dpop.header("POST", url)
            response = await self._http.post_form(url, form, headers)
            has_new_nonce = self._dpop is not None and self._dpop.update_nonce(url, response.dpop_nonce, sent_nonce)
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
                assertion = signed_assertion(client, self._issuer.issuer, _ASSERTION_SECONDS)
                form |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
                return {**form, "client_id": client.client_id}, {}
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


def signed_assertion(client: OAuthClientInformation, audience: str, lifetime: int, **claims: Any) -> str:
    """Return a JWT by which a client authenticates itself (https://www.rfc-editor.org/rfc/rfc7523#section-3).

    Raises AuthorizationError for a key that cannot sign it. `claims` replace those that it has.
    """
    now = int(clocks.wall())
    key_type = _KEY_TYPES.get(client.signing_algorithm[:2])
    if key_type is None or client.private_key is None:
        raise AuthorizationError("private_key_jwt needs a private_key and an asymmetric signing_algorithm")
    who = dict.fromkeys(("iss", "sub"), client.client_id)
    own: dict[str, Any] = {**who, "aud": audience, "jti": secrets.token_urlsafe(16), "iat": now, "exp": now + lifetime}
    try:
        return jwt.encode(
            {"alg": client.signing_algorithm},
            own | claims,
            key_type.import_key(client.private_key),
            algorithms=[client.signing_algorithm],
        )
    except (JoseError, ValueError, TypeError) as error:
        raise AuthorizationError(
            f"the private_key of the client cannot be used with signing_algorithm={client.signing_algorithm!r}"
            f" ({type(error).__name__}): RSA keys need RS256 or PS256, those of P-256 ES256, of Ed25519 Ed25519, and"
            " the key is the text of a PEM without a password, or a JWK"
        ) from None


def seconds_of(value: object) -> float | None:
    """Return how long a token is valid; a number may be a text. None if the value is not usable.

    0 is not: nobody issues a token that is of no use, and some servers write 0 for one that does not expire.
    """
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = float(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return cast(float, value) if is_number and 0 < cast(float, value) <= _MAX_TOKEN_SECONDS else None


def _scopes(value: object, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes of a token: of a text or a list of the response, or else those that were requested."""
    if isinstance(value, str):
        return tuple(value.split())
    if is_list(value) and all(isinstance(item, str) for item in value):
        return tuple(cast("list[str]", value))
    return requested


def describe_error(response: AuthResponse) -> str:
    """Return the OAuth error code of a response, or else its status. Other text of the response is not repeated."""
    body: Any = response.body if is_object(response.body) else response.form or {}
    error = body.get("error")
    return error if isinstance(error, str) and _ERROR.fullmatch(error) else f"status {response.status}"


def refuses_resource(error: str, response: AuthResponse) -> bool:
    """Return True if the error says that the authorization server does not accept the parameter `resource`."""
    body: Any = response.body if is_object(response.body) else response.form or {}
    description = body.get("error_description")
    is_about_resource = isinstance(description, str) and "resource" in description.lower()
    return error == INVALID_TARGET or (error == "invalid_request" and is_about_resource)
