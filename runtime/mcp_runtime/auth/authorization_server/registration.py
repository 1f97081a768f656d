"""The metadata of a client goes in, as it came; a client comes out, or Refused (RFC 7591). No clock, no I/O."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ...protocol.models import is_list, is_object
from .models import (
    CODE,
    REFRESH,
    ClientOrigin,
    OAuthClient,
    OAuthError,
    OAuthErrorCode,
    digest,
)
from .redirect_uris import check_registered_redirect_uri
from .requests import parse_scopes

METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_GRANTS: Final = (CODE, REFRESH)
_MAX_REDIRECT_URIS: Final = 10
_MAX_NAME_LENGTH: Final = 100
_MAX_DEPTH: Final = 16
# Controls, formats (which turn the direction of text), surrogates and private characters say nothing to a person.
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def read_registration(body: bytes) -> dict[str, Any]:
    """The JSON object of a registration. Raises Refused."""
    try:
        said = json.loads(body.decode()) if body.count(b"[") + body.count(b"{") < 1000 else None
    except (ValueError, RecursionError):
        said = None
    if not is_object(said):
        raise OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, "the metadata of a client is a JSON object")
    return said


def client_from_metadata(
    metadata: Mapping[str, Any],
    id: str,
    supported_scopes: Sequence[str],
    origin: ClientOrigin,
    created: float,
    secret: str | None = None,
) -> OAuthClient:
    """The client that metadata describe; what is not of use here is passed over. Raises Refused."""
    redirects = metadata.get("redirect_uris")
    if not is_list(redirects) or not 1 <= len(redirects) <= _MAX_REDIRECT_URIS:
        raise OAuthError(OAuthErrorCode.INVALID_REDIRECT_URI, f"a client has 1 to {_MAX_REDIRECT_URIS} redirect_uris")
    responses = _texts(metadata, "response_types", ("code",))
    if "code" not in responses:
        raise OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, "response_types has to have code")
    grants = tuple(each for each in _texts(metadata, "grant_types", (CODE,)) if each in _GRANTS)
    if CODE not in grants:
        raise OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, f"grant_types has to have {CODE}")
    scope = _text(metadata, "scope")
    return OAuthClient(
        id,
        tuple(check_registered_redirect_uri(each) for each in redirects),
        display_name(_text(metadata, "client_name") or ""),
        digest(secret) if secret else None,
        grants,
        None if scope is None else _scopes(scope, supported_scopes),
        origin=origin,
        created=created,
    )


def auth_method(metadata: Mapping[str, Any]) -> str:
    """How the client is to show itself; what a client that says nothing means, is in RFC 7591 2. Raises Refused."""
    method = _text(metadata, "token_endpoint_auth_method") or "client_secret_basic"
    if method not in METHODS:
        raise OAuthError(
            OAuthErrorCode.INVALID_CLIENT_METADATA, f"token_endpoint_auth_method is one of {', '.join(METHODS)}"
        )
    return method


def registration_response(client: OAuthClient, method: str, secret: str | None) -> dict[str, Any]:
    """What a client that registered is told (RFC 7591 3.2.1)."""
    said: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": list(client.grant_types),
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    if client.scopes is not None:
        said["scope"] = " ".join(client.scopes)
    return said if secret is None else {**said, "client_secret": secret, "client_secret_expires_at": 0}


def display_name(text: str) -> str:
    """A name as a person may see it. Raises Refused for one that is made to deceive the eye."""
    if len(text) > _MAX_NAME_LENGTH or any(unicodedata.category(each) in _INVISIBLE for each in text):
        raise OAuthError(
            OAuthErrorCode.INVALID_CLIENT_METADATA,
            f"client_name has at most {_MAX_NAME_LENGTH} characters that are seen",
        )
    return text.strip()


def _scopes(text: str, supported: Sequence[str]) -> tuple[str, ...]:
    try:
        return parse_scopes(text, supported, supported)
    except OAuthError:
        # Which ones a client may ask for is said again when it does.
        return tuple(each for each in supported if each in text.split(" "))


def _text(metadata: Mapping[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        raise OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, f"{key} is a text")
    return value


def _texts(metadata: Mapping[str, Any], key: str, default: Sequence[str]) -> Sequence[str]:
    value = metadata.get(key)
    if value is None:
        return default
    if not is_list(value) or len(value) > _MAX_DEPTH or not all(isinstance(each, str) for each in value):
        raise OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, f"{key} is a list of texts")
    return cast(list[str], value)
