"""Challenges and authorization responses: parse and check them, and select the scopes to request. No I/O."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from ...errors import AuthorizationError
from ..metadata import AuthorizationServerMetadata
from ..url_policy import is_loopback

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
_ERROR: Final = re.compile(r"[a-z_]{1,64}")


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
            f"{issuer.issuer} does not advertise PKCE with S256 in its metadata, which is required"
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
