"""URLs: their origins, which redirects a client follows, and how they are shown without secrets."""

from __future__ import annotations

import re
from urllib.parse import urlsplit


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
