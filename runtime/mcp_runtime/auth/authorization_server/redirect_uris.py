"""A redirect URI goes in; whether a client may have it, and whether it is one the client has, comes out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from .models import OAuthError, OAuthErrorCode

_MAX_LENGTH: Final = 2000
# Written out, because everything that another reader of URLs might take for something else has to be refused.
_HTTPS: Final = re.compile(r"https://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(/[!-~]*|\?[!-~]*)?")
_LOOPBACK: Final = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?][!-~]*)?)")
_FORBIDDEN_SCHEMES: Final = re.compile(r"[\\\"'<>^`{|}#@*]|/\.{1,2}(/|$|\?)|%(?:2e|2f|5c|0|1)|;|//", re.IGNORECASE)


def check_registered_redirect_uri(uri: object) -> str:
    """A redirect URI, if it is one to have: https, or http on this machine by the names `localhost`, `127.0.0.1` and
    `[::1]`; written plainly, with no user, fragment, dots or doubled slashes in it. Raises Refused."""
    if not isinstance(uri, str) or len(uri) > _MAX_LENGTH:
        raise OAuthError(
            OAuthErrorCode.INVALID_REDIRECT_URI, f"a redirect URI is text of at most {_MAX_LENGTH} characters"
        )
    if not (_HTTPS.fullmatch(uri) or _LOOPBACK.fullmatch(uri)):
        raise OAuthError(OAuthErrorCode.INVALID_REDIRECT_URI, "a redirect URI is https, or http on localhost")
    path, _, _ = uri.partition("://")[2].partition("?")
    if _FORBIDDEN_SCHEMES.search(path) or "#" in uri or "\\" in uri:
        raise OAuthError(
            OAuthErrorCode.INVALID_REDIRECT_URI, "a redirect URI has no user, fragment, dot segments or odd characters"
        )
    if not _has_port(uri):
        raise OAuthError(OAuthErrorCode.INVALID_REDIRECT_URI, "the port of the redirect URI is none")
    return uri


def matches_registered(uri: str, registered: Iterable[str]) -> bool:
    """Whether a redirect URI is, character for character, one that was registered. On this machine the port may be
    another one, since programs take one that is free (RFC 8252 7.3)."""
    found = _LOOPBACK.fullmatch(uri)
    for each in registered:
        if each == uri:
            return True
        own = _LOOPBACK.fullmatch(each)
        if own and found and own.groups() == found.groups():
            return _has_port(uri)
    return False


def _has_port(uri: str) -> bool:
    """Whether the port, if one is written, is one there can be."""
    try:
        return urlsplit(uri).port != 0
    except ValueError:
        return False
