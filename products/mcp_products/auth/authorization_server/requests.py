"""Requests to the authorization server: parse and check their parameters. No clock, no I/O."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from .models import CODE, OAuthClient, OAuthError, OAuthErrorCode

# Redirect URIs: the rules for registered ones, and the comparison with them.

_MAX_LENGTH: Final = 2000
# Explicit patterns: a URI that two URL parsers might read differently must be rejected.
_HTTPS: Final = re.compile(r"https://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(/[!-~]*|\?[!-~]*)?")
_LOOPBACK: Final = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?][!-~]*)?)")
_FORBIDDEN_IN_PATH: Final = re.compile(r"[\\\"'<>^`{|}#@*]|/\.{1,2}(/|$|\?)|%(?:2e|2f|5c|0|1)|;|//", re.IGNORECASE)

_MAX_FIELDS: Final = 50
_MAX_STATE_LENGTH: Final = 4096
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,100}")
Fields = Mapping[str, str]


def check_registered_redirect_uri(uri: object) -> str:
    """Return a redirect URI that may be registered.

    Raises OAuthError unless it uses https, or http with the host `localhost`, `127.0.0.1` or `[::1]`, and has no user
    information, fragment, dot segments, empty segments or ambiguous characters.
    """
    if not isinstance(uri, str) or len(uri) > _MAX_LENGTH:
        raise _error(f"a redirect URI must be a string of at most {_MAX_LENGTH} characters")
    if not (_HTTPS.fullmatch(uri) or _LOOPBACK.fullmatch(uri)):
        raise _error("a redirect URI must use https, or http on localhost, and have no user information")
    path, _, _ = uri.partition("://")[2].partition("?")
    if _FORBIDDEN_IN_PATH.search(path) or "#" in uri or "\\" in uri:
        raise _error("a redirect URI must not have a fragment, dot segments, empty segments or special characters")
    if not _has_valid_port(uri):
        raise _error("the port of the redirect URI must be between 1 and 65535")
    return uri


def matches_registered(uri: str, registered: Iterable[str]) -> bool:
    """Return True if a redirect URI equals a registered one character by character.

    The port of a loopback URI may differ (https://www.rfc-editor.org/rfc/rfc8252#section-7.3).
    """
    loopback = _LOOPBACK.fullmatch(uri)
    for own_uri in registered:
        if own_uri == uri:
            return True
        own = _LOOPBACK.fullmatch(own_uri)
        if own and loopback and own.groups() == loopback.groups():
            return _has_valid_port(uri)
    return False


def _has_valid_port(uri: str) -> bool:
    """Return True if the URI has no port, or a valid one."""
    try:
        return urlsplit(uri).port != 0
    except ValueError:
        return False


def _error(reason: str) -> OAuthError:
    return OAuthError(OAuthErrorCode.INVALID_REDIRECT_URI, reason)


@dataclass(frozen=True, slots=True)
class PendingAuthorization:
    """A valid authorization request (https://www.rfc-editor.org/rfc/rfc6749#section-4.1.1) before the user's decision.

    Args:
        client_id: The client.
        redirect_uri: Redirect URI, which is registered for the client.
        scopes: Requested scopes.
        resource: Resource that the token is for.
        code_challenge: PKCE code challenge (https://www.rfc-editor.org/rfc/rfc7636#section-4.3).
        state: The `state` parameter, returned unchanged. Default None: there is none.
    """

    client_id: str
    redirect_uri: str
    scopes: tuple[str, ...]
    resource: str
    code_challenge: str
    state: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ClientAuthentication:
    """The client authentication of a request (https://www.rfc-editor.org/rfc/rfc6749#section-2.3).

    Args:
        client_id: Client identifier.
        client_secret: Client secret. Default None: the request has none.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)


def parse_form(text: str) -> list[tuple[str, str]]:
    """Return the parameters of a query or a form. Raises OAuthError if they cannot be parsed."""
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        raise OAuthError(
            OAuthErrorCode.INVALID_REQUEST, f"the parameters must be UTF-8, and at most {_MAX_FIELDS}"
        ) from None


def unique_params(fields: Sequence[tuple[str, str]]) -> Fields:
    """Return the parameters that have a value. Raises OAuthError if one is repeated
    (https://www.rfc-editor.org/rfc/rfc6749#section-3.1)."""
    params = dict(fields)
    if len(params) != len(fields):
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "a parameter must not be repeated")
    # A parameter without a value counts as omitted.
    return {name: value for name, value in params.items() if value}


def resolve_redirect_uri(fields: Sequence[tuple[str, str]], client: OAuthClient | None) -> str:
    """Return the redirect URI of an authorization request.

    Raises OAuthError, which must be shown to the user and not sent to the redirect URI: the URI cannot be trusted.
    """
    if client is None or CODE not in client.grant_types:
        raise OAuthError(OAuthErrorCode.INVALID_CLIENT, "no program is registered under this client id")
    uris = [value for name, value in fields if name == "redirect_uri"]
    if len(uris) != 1 or not matches_registered(uris[0], client.redirect_uris):
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "the redirect URI is not registered for this program")
    return uris[0]


def parse_authorization_request(
    fields: Sequence[tuple[str, str]],
    client: OAuthClient,
    redirect_uri: str,
    supported_scopes: Sequence[str],
    resources: Sequence[str],
) -> PendingAuthorization:
    """Return an authorization request, after its redirect URI is resolved. Raises OAuthError if it is not valid."""
    params = unique_params(fields)
    if params.get("response_type") != "code":
        raise OAuthError(OAuthErrorCode.UNSUPPORTED_RESPONSE_TYPE, "response_type must be code")
    if params.get("code_challenge_method") != "S256":
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "PKCE is required, with code_challenge_method S256")
    if not _CHALLENGE.fullmatch(params.get("code_challenge", "")):
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "code_challenge must be a SHA-256 digest in base64url")
    if "request" in params or "request_uri" in params:
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "request and request_uri are not supported")
    state = params.get("state")
    if state is not None and len(state) > _MAX_STATE_LENGTH:
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, f"state must have at most {_MAX_STATE_LENGTH} characters")
    allowed = client.scopes if client.scopes is not None else supported_scopes
    scopes = parse_scopes(params.get("scope"), allowed, supported_scopes)
    resource = parse_resource(params, resources)
    return PendingAuthorization(client.client_id, redirect_uri, scopes, resource, params["code_challenge"], state)


def parse_scopes(text: str | None, allowed: Sequence[str], default: Sequence[str]) -> tuple[str, ...]:
    """Return the requested scopes; without a `scope` parameter, the default ones that are allowed.

    Raises OAuthError for a scope that is not allowed.
    """
    if text is None:
        return tuple(scope for scope in default if scope in allowed)
    scopes = tuple(dict.fromkeys(text.split(" ")))
    if not all(_SCOPE.fullmatch(scope) and scope in allowed for scope in scopes):
        raise OAuthError(OAuthErrorCode.INVALID_SCOPE, "a requested scope is unknown, or not allowed for this client")
    return scopes


def parse_resource(params: Fields, resources: Sequence[str]) -> str:
    """Return the resource that a token is for (https://www.rfc-editor.org/rfc/rfc8707#section-2); the first one if the
    client names none. Raises OAuthError for an unknown resource."""
    resource = params.get("resource", resources[0])
    if resource not in resources:
        raise OAuthError(OAuthErrorCode.INVALID_TARGET, "this server issues no tokens for this resource")
    return resource


def parse_client_authentication(headers: Mapping[str, str], params: Fields) -> ClientAuthentication:
    """Return the client authentication of a request. Raises OAuthError if there is none, or more than one."""
    header = headers.get("authorization")
    if header is None:
        if "client_id" not in params:
            raise OAuthError(OAuthErrorCode.INVALID_CLIENT, "the request has no client authentication", 401)
        return ClientAuthentication(params["client_id"], params.get("client_secret"))
    try:
        scheme, _, credentials = header.partition(" ")
        id, colon, secret = b64decode(credentials.strip(), validate=True).decode("ascii").partition(":")
    except ValueError:
        scheme, id, colon, secret = "", "", "", ""
    if scheme.lower() != "basic" or not colon or not id or not secret:
        raise OAuthError(
            OAuthErrorCode.INVALID_CLIENT, "the Authorization header must have Basic with client id and secret", 401
        )
    id, secret = unquote_plus(id), unquote_plus(secret)
    if "client_secret" in params or params.get("client_id", id) != id:
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "the request has two client authentications; send one")
    return ClientAuthentication(id, secret)


def check_client_authentication(client: OAuthClient | None, authentication: ClientAuthentication) -> OAuthClient:
    """Return the client. Raises OAuthError unless a confidential client sent its secret, and a public one none."""
    secret = authentication.client_secret
    if (
        client is None
        or (client.secret_digest is None) != (secret is None)
        or (secret is not None and not client.check_secret(secret))
    ):
        raise OAuthError(
            OAuthErrorCode.INVALID_CLIENT, "the client is unknown, or its authentication is not valid", 401
        )
    return client


def verify_pkce(code_challenge: str, code_verifier: str) -> bool:
    """Return True if a PKCE code verifier matches an S256 challenge
    (https://www.rfc-editor.org/rfc/rfc7636#section-4.6)."""
    return bool(_VERIFIER.fullmatch(code_verifier)) and matches_challenge(code_challenge, code_verifier)


def matches_challenge(code_challenge: str, code_verifier: str) -> bool:
    """Return True if the S256 challenge is that of a code verifier of any length."""
    computed = urlsafe_b64encode(sha256(code_verifier.encode()).digest()).rstrip(b"=").decode()
    return hmac.compare_digest(computed.encode(), code_challenge.encode())
