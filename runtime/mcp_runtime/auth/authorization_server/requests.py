"""What a browser or a client asks goes in, as text; what is wanted comes out, or Refused. No clock, no I/O."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, unquote_plus

from .models import CODE, OAuthClient, OAuthError, OAuthErrorCode
from .redirect_uris import matches_registered

_FIELDS: Final = 50
_STATE: Final = 4096
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,100}")

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """What a client asks a person for. `state` is handed back as it is."""

    client_id: str
    redirect_uri: str
    scopes: tuple[str, ...]
    resource: str
    code_challenge: str
    state: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ClientAuthentication:
    """How a client shows itself at an endpoint: by its id, and perhaps a secret."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)


def parse_form(text: str) -> list[tuple[str, str]]:
    """The pairs of a query or a form. Raises Refused where it cannot be read."""
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "the parameters cannot be read") from None


def unique_params(pairs: Sequence[tuple[str, str]]) -> Fields:
    """The fields, none of which may be there twice (RFC 6749 3.1). Raises Refused."""
    said = dict(pairs)
    if len(said) != len(pairs):
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "a parameter is there twice")
    # One without a value is as good as left out.
    return {name: value for name, value in said.items() if value}


def resolve_redirect_uri(pairs: Sequence[tuple[str, str]], client: OAuthClient | None) -> str:
    """Where the answer to an authorization request may go. Raises Refused, which a person is told, as nobody else may
    be: the redirect URI is not to be trusted."""
    if client is None or CODE not in client.grant_types:
        raise OAuthError(OAuthErrorCode.INVALID_CLIENT, "no program is known here by this id")
    named = [value for name, value in pairs if name == "redirect_uri"]
    if len(named) != 1 or not matches_registered(named[0], client.redirect_uris):
        raise OAuthError(
            OAuthErrorCode.INVALID_REQUEST, "the program wants the answer at a place that is not registered for it"
        )
    return named[0]


def parse_authorization_request(
    pairs: Sequence[tuple[str, str]],
    client: OAuthClient,
    redirect_uri: str,
    supported_scopes: Sequence[str],
    resources: Sequence[str],
) -> AuthorizationRequest:
    """What is wanted, once it is known where refusals go. Raises Refused."""
    said = unique_params(pairs)
    if said.get("response_type") != "code":
        raise OAuthError(OAuthErrorCode.UNSUPPORTED_RESPONSE_TYPE, "response_type is code")
    if said.get("code_challenge_method") != "S256":
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "PKCE is required, with code_challenge_method S256")
    if not _CHALLENGE.fullmatch(said.get("code_challenge", "")):
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "code_challenge is the base64url of a SHA-256 digest")
    if "request" in said or "request_uri" in said:
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "requests are not taken as objects")
    state = said.get("state")
    if state is not None and len(state) > _STATE:
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, f"state has at most {_STATE} characters")
    scopes = parse_scopes(
        said.get("scope"), client.scopes if client.scopes is not None else supported_scopes, supported_scopes
    )
    return AuthorizationRequest(
        client.client_id, redirect_uri, scopes, parse_resource(said, resources), said["code_challenge"], state
    )


def parse_scopes(text: str | None, allowed: Sequence[str], default: Sequence[str]) -> tuple[str, ...]:
    """The scopes that are asked for; where none are, those that are usual and allowed. Raises Refused."""
    if text is None:
        return tuple(each for each in default if each in allowed)
    scopes = tuple(dict.fromkeys(text.split(" ")))
    if not all(_SCOPE.fullmatch(each) and each in allowed for each in scopes):
        raise OAuthError(OAuthErrorCode.INVALID_SCOPE, "a scope is asked for that is not there to be had")
    return scopes


def parse_resource(params: Fields, resources: Sequence[str]) -> str:
    """The resource that a token is for (RFC 8707): the first there is, where the client names none. Raises Refused."""
    named = params.get("resource", resources[0])
    if named not in resources:
        raise OAuthError(OAuthErrorCode.INVALID_TARGET, "no tokens are given for this resource")
    return named


def parse_client_authentication(headers: Mapping[str, str], params: Fields) -> ClientAuthentication:
    """How a client shows itself (RFC 6749 2.3): in one way only. Raises Refused."""
    header = headers.get("authorization")
    if header is None:
        if "client_id" not in params:
            raise OAuthError(OAuthErrorCode.INVALID_CLIENT, "the client does not show itself", 401)
        return ClientAuthentication(params["client_id"], params.get("client_secret"))
    try:
        scheme, _, both = header.partition(" ")
        id, colon, secret = b64decode(both.strip(), validate=True).decode("ascii").partition(":")
    except ValueError:
        scheme, id, colon, secret = "", "", "", ""
    if scheme.lower() != "basic" or not colon or not id or not secret:
        raise OAuthError(
            OAuthErrorCode.INVALID_CLIENT, "the client does not show itself in a way that is known here", 401
        )
    id, secret = unquote_plus(id), unquote_plus(secret)
    if "client_secret" in params or params.get("client_id", id) != id:
        raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "the client shows itself in two ways")
    return ClientAuthentication(id, secret)


def check_client_authentication(client: OAuthClient | None, authentication: ClientAuthentication) -> OAuthClient:
    """The client, if it is who it says: one with a secret by its secret, one without by its id. Raises Refused."""
    if client is None or (client.secret_digest is None) != (authentication.client_secret is None):
        raise OAuthError(
            OAuthErrorCode.INVALID_CLIENT, "the client is not known here, or does not show itself as it has to", 401
        )
    if authentication.client_secret is not None and not client.check_secret(authentication.client_secret):
        raise OAuthError(
            OAuthErrorCode.INVALID_CLIENT, "the client is not known here, or does not show itself as it has to", 401
        )
    return client


def verify_pkce(challenge: str, verifier: str) -> bool:
    """Whether a verifier is the one of an S256 challenge (RFC 7636 4.6)."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    made = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return hmac.compare_digest(made, challenge)
