"""Redirect URIs: the rules for registered ones, and the comparison with them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from .models import OAuthError, OAuthErrorCode

_MAX_LENGTH: Final = 2000
# Explicit patterns: a URI that two URL parsers might read differently must be rejected.
_HTTPS: Final = re.compile(r"https://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(/[!-~]*|\?[!-~]*)?")
_LOOPBACK: Final = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?][!-~]*)?)")
_FORBIDDEN_IN_PATH: Final = re.compile(r"[\\\"'<>^`{|}#@*]|/\.{1,2}(/|$|\?)|%(?:2e|2f|5c|0|1)|;|//", re.IGNORECASE)


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
