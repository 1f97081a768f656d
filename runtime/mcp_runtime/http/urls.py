"""The URI of a resource goes in; whether clients may fetch it from the web, past the server that lists it, comes out."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_https_url(uri: str) -> bool:
    """Whether a resource is one that clients may fetch themselves: that is what `https://` means (server/resources,
    Common URI Schemes). Where the server is not trusted, nor is the address: it may lead into your own network."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.netloc)


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL. Raises ValueError."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or usual


def may_follow_redirect(status: int, method: str, url: str, target: str) -> bool:
    """Whether a redirect is followed: to the same origin and with the same method alone, because what is sent has
    credentials in it."""
    if status not in (307, 308) and not (status in (301, 302, 303) and method == "GET"):
        return False
    try:
        return origin(url) == origin(target)
    except ValueError:
        return False


def redact_url(url: str) -> str:
    """A URL as it may stand in an error or a log: without user, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
