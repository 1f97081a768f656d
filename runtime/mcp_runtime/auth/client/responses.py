"""A challenge, an answer of a browser, scopes go in; what may be asked, and whether a code is good, comes out."""

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
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CHALLENGE: Final = re.compile(rf'({_TOKEN})(?:\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]+))?')
_MAX_CHALLENGE_LENGTH: Final = 16 * 1024
_ERROR: Final = re.compile(r"[a-z_]{1,64}")


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """One authorization request, as its answer is judged by. The verifier leaves this process to nobody but the token
    endpoint."""

    issuer: AuthorizationServerMetadata
    redirect_uri: str
    state: str = field(repr=False)
    code_verifier: str = field(repr=False)


def parse_challenges(header: str) -> dict[str, Mapping[str, str]]:
    """The challenges of WWW-Authenticate, by their scheme in small letters."""
    found: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for name, value in _CHALLENGE.findall(header[:_MAX_CHALLENGE_LENGTH]):
        if not value:
            current = found.setdefault(name.lower(), {})
        elif value.startswith('"'):
            current[name.lower()] = re.sub(r"\\(.)", r"\1", value[1:-1])
        else:
            current[name.lower()] = value
    return {scheme: each for scheme, each in found.items()}


def select_scopes(
    challenged: str | None, supported: Iterable[str], current: Iterable[str], issuer: Iterable[str], offline: bool
) -> tuple[str, ...]:
    """What is asked for: what the challenge says, or else all that the resource lists, with what was held before, so
    that a step up loses nothing. `offline`: with what gives refresh tokens, where the issuer has it."""
    wanted = challenged.split() if challenged is not None else list(supported)
    wanted = [*current, *wanted]
    if offline and OFFLINE in issuer:
        wanted.append(OFFLINE)
    return tuple(dict.fromkeys(wanted))


def check_challenge_method(issuer: AuthorizationServerMetadata) -> None:
    """Raises AuthorizationError where the authorization server does not say that it knows S256."""
    if "S256" not in issuer.code_challenge_methods:
        raise AuthorizationError(f"{issuer.issuer} does not say that it supports PKCE with S256")


def check_redirect_uri(uri: str) -> str:
    """A redirect URI, if it is one to have: https, http on this machine, or a private scheme (RFC 8252)."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        raise AuthorizationError("the redirect URI cannot be read") from None
    private = "." in parts.scheme and not parts.netloc
    if "#" in uri or not (
        private or (host and parts.scheme == "https") or (parts.scheme == "http" and is_loopback(host))
    ):
        raise AuthorizationError("a redirect URI is https, http on this machine, or of an application's own scheme")
    return uri


def application_type(uri: str) -> str:
    """What a client with this redirect URI is registered as: native on this machine, else web."""
    parts = urlsplit(uri)
    return "web" if parts.scheme == "https" and not is_loopback(parts.hostname or "") else "native"


def parse_authorization_response(url: str, request: AuthorizationRequest) -> str:
    """The code in the URL that the browser came back to. Raises AuthorizationError unless the answer is to this request and
    of its issuer; nothing of the answer is acted on before (RFC 9207 2.4)."""
    if url.partition("?")[0] != request.redirect_uri.partition("?")[0]:
        raise AuthorizationError("the answer came to another place than the redirect URI")
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True, max_num_fields=50)
    said = dict(pairs)
    if len(said) != len(pairs):
        raise AuthorizationError("the answer says something twice")
    if not hmac.compare_digest(said.get("state", "").encode(), request.state.encode()):
        raise AuthorizationError("the answer is to no request of this client: its state is another")
    iss = said.get("iss")
    if iss is None and request.issuer.iss_parameter_supported:
        raise AuthorizationError(f"the answer does not say its issuer, as {request.issuer.issuer} does")
    if iss is not None and iss != request.issuer.issuer:
        raise AuthorizationError(f"the answer is of another issuer than {request.issuer.issuer}")
    if "error" in said:
        error = said["error"] if _ERROR.fullmatch(said["error"]) else "an error"
        raise AuthorizationError(f"{request.issuer.issuer} did not authorize: {error}")
    if not said.get("code"):
        raise AuthorizationError("the answer has no code")
    return said["code"]
