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
