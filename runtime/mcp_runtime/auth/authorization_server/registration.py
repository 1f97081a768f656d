"""Client metadata (https://www.rfc-editor.org/rfc/rfc7591#section-2): read and check it. No clock, no I/O."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ...protocol.models import is_list, is_object
from .models import CODE, REFRESH, ClientOrigin, OAuthClient, OAuthError, OAuthErrorCode, digest
from .redirect_uris import check_registered_redirect_uri
from .requests import parse_scopes

METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_GRANT_TYPES: Final = (CODE, REFRESH)
_MAX_REDIRECT_URIS: Final = 10
_MAX_NAME_LENGTH: Final = 100
_MAX_LIST_LENGTH: Final = 16
_MAX_BRACKETS: Final = 1000  # A body with more may be nested too deeply to parse.
# Unicode categories without visible characters, such as format characters, which can reverse the direction of text.
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# Letters and symbols that are drawn as nothing: fillers of Hangul, and the empty pattern of Braille.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")
_VISIBLE: Final = ("L", "N", "P", "S")  # The first letters of categories; marks need a character that they stand on.


def read_registration(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a registration request. Raises OAuthError."""
    try:
        metadata = json.loads(body.decode()) if body.count(b"[") + body.count(b"{") < _MAX_BRACKETS else None
    except (ValueError, RecursionError):
        metadata = None
    if not is_object(metadata):
        raise _error("client metadata must be a JSON object")
    return metadata


def client_from_metadata(
    metadata: Mapping[str, Any],
    client_id: str,
    supported_scopes: Sequence[str],
    origin: ClientOrigin,
    created: float,
    secret: str | None = None,
) -> OAuthClient:
    """Return the client that metadata describes; unknown fields are ignored. Raises OAuthError for invalid metadata."""
    redirect_uris = metadata.get("redirect_uris")
    if not is_list(redirect_uris) or not 1 <= len(redirect_uris) <= _MAX_REDIRECT_URIS:
        reason = f"redirect_uris must be a list of 1 to {_MAX_REDIRECT_URIS} URIs"
        raise OAuthError(OAuthErrorCode.INVALID_REDIRECT_URI, reason)
    if "code" not in _strings(metadata, "response_types", ("code",)):
        raise _error("response_types must contain code")
    grant_types = tuple(name for name in _strings(metadata, "grant_types", (CODE,)) if name in _GRANT_TYPES)
    if CODE not in grant_types:
        raise _error(f"grant_types must contain {CODE}")
    scope = _string(metadata, "scope")
    return OAuthClient(
        client_id,
        tuple(check_registered_redirect_uri(uri) for uri in redirect_uris),
        display_name(_string(metadata, "client_name") or ""),
        digest(secret) if secret else None,
        grant_types,
        None if scope is None else _scopes(scope, supported_scopes),
        origin=origin,
        created=created,
    )


def auth_method(metadata: Mapping[str, Any]) -> str:
    """Return the method of client authentication; the default is that of RFC 7591. Raises OAuthError."""
    method = _string(metadata, "token_endpoint_auth_method") or "client_secret_basic"
    if method not in METHODS:
        raise _error(f"token_endpoint_auth_method must be one of {', '.join(METHODS)}")
    return method


def registration_response(client: OAuthClient, method: str, secret: str | None) -> dict[str, Any]:
    """Return the response to a registration (https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1)."""
    response: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": list(client.grant_types),
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    if client.scopes is not None:
        response["scope"] = " ".join(client.scopes)
    return response if secret is None else {**response, "client_secret": secret, "client_secret_expires_at": 0}


def display_name(text: str) -> str:
    """Return a client's name without outer spaces, empty if it has none. Raises OAuthError if it is too long, has
    invisible characters or looks empty, with which it could deceive users."""
    categories = [unicodedata.category(character) for character in text]
    is_blank = bool(text) and not any(category[0] in _VISIBLE for category in categories)
    if (
        len(text) > _MAX_NAME_LENGTH
        or is_blank
        or _BLANK.intersection(text)
        or not set(_INVISIBLE).isdisjoint(categories)
    ):
        raise _error(f"client_name must have at most {_MAX_NAME_LENGTH} characters, all of them visible")
    return text.strip()


def _scopes(text: str, supported: Sequence[str]) -> tuple[str, ...]:
    try:
        return parse_scopes(text, supported, supported)
    except OAuthError:
        # Unsupported scopes are dropped here; a client that requests one gets an error then.
        return tuple(scope for scope in supported if scope in text.split(" "))


def _string(metadata: Mapping[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        raise _error(f"{key} must be a string")
    return value


def _strings(metadata: Mapping[str, Any], key: str, default: Sequence[str]) -> Sequence[str]:
    value = metadata.get(key)
    if value is None:
        return default
    if not is_list(value) or len(value) > _MAX_LIST_LENGTH or not all(isinstance(item, str) for item in value):
        raise _error(f"{key} must be a list of at most {_MAX_LIST_LENGTH} strings")
    return cast(list[str], value)


def _error(reason: str) -> OAuthError:
    return OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, reason)
