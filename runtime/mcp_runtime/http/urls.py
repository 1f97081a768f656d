"""URL rules: origins, redirects, redaction, and resource URIs that clients may fetch themselves."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit

# RFC 3986; letters outside of ASCII, which IRIs have, are tolerated.
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f<>\"{}|\\^`]*")
_TO_ENCODE: Final = re.compile(r"[^\S\x00-\x1f]|[<>\"|\\^`]")


def is_uri(text: str) -> bool:
    """Return True for a URI (RFC 3986), also with letters outside of ASCII."""
    return _URI.fullmatch(text) is not None


def encoded_uri(text: str) -> str:
    """Return a URI or URI template, in which spaces and other characters that no URI has are percent-encoded."""
    return _TO_ENCODE.sub(lambda match: quote(match[0]), text)


def is_https_url(uri: str) -> bool:
    """Return True if clients may fetch a resource themselves: this is the meaning of the `https://` scheme.

    Treat URLs of untrusted servers as untrusted input: they may point into a private network.
    https://modelcontextprotocol.io/specification/draft/server/resources#common-uri-schemes
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.netloc)


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL (RFC 6454). Raises ValueError for an invalid URL."""
    parts = urlsplit(url)
    default_port = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or default_port


def base_url(url: str) -> str:
    """Return `scheme://host:port` of a URL, spelled as in the URL; use `origin` to compare URLs."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def may_follow_redirect(status: int, method: str, url: str, target: str) -> bool:
    """Return True if a client may follow a redirect: only to the same origin and with the same method, because the
    request has credentials."""
    if status not in (307, 308) and not (status in (301, 302, 303) and method == "GET"):
        return False
    try:
        return origin(url) == origin(target)
    except ValueError:
        return False


def without_secrets(text: str) -> str:
    """Return text that may be a URL without user information, query and fragment."""
    start, _, rest = text.rpartition("@")
    scheme = f"{start.partition('://')[0]}://" if "://" in start else ""
    return re.split(r"[?#]", scheme + rest)[0]


def redact_url(url: str) -> str:
    """Return a URL without user information, query and fragment, for errors and logs."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
