"""How a client goes from a host to its endpoint: the catalog of the host, its one server card, the endpoint in it.

All of this has to be at the host that was named: who may write a file there may answer at any of its paths anyway, and
who may not cannot lead a client, and the tokens that it sends, to another one. A card is not an authority for anything.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeGuard
from urllib.parse import urljoin, urlsplit

from mcp_runtime.errors import LocalError, MCPError
from mcp_runtime.http.urls import origin, redact_url
from mcp_runtime.protocol.models import is_object
from mcp_runtime.transports.http_client.connection import HTTPConnection, HTTPOptions

from .card import CARD_TYPE, CATALOG_PATH, CATALOG_TYPE

_MAX_BYTES: Final = 64 * 1024  # Of a catalog, and of a card.
_MAX_ENTRIES: Final = 100
_SECONDS: Final = 5.0


async def endpoint_of(url: str, options: HTTPOptions) -> str:
    """Return the URL of the endpoint that a host names, for a URL without a path; the same URL if it names none.

    Neither headers nor credentials of the options are sent.

    Raises LocalError for a host with several servers, and for an endpoint that is elsewhere.
    """
    if urlsplit(url).path or urlsplit(url).query:
        return url
    asked = replace(options, headers={}, auth=None, max_bytes=_MAX_BYTES, timeout=_SECONDS, retry_seconds=0.0)
    connection = HTTPConnection(url, asked)
    try:
        catalog = await _document(connection, urljoin(url, CATALOG_PATH), CATALOG_TYPE)
        listed = _list(catalog.get("entries"))[:_MAX_ENTRIES]
        cards = [entry for entry in listed if is_object(entry) and entry.get("type") == CARD_TYPE]
        if not cards:
            return url
        endpoints = {found for entry in cards if (found := await _endpoint_of(connection, url, entry))}
    finally:
        await connection.close()
    if len(endpoints) > 1:
        names = ", ".join(sorted(redact_url(item) for item in endpoints))
        raise LocalError(f"connect(): {redact_url(url)} has several servers: pass one of {names}")
    return next(iter(endpoints), url)


async def _endpoint_of(connection: HTTPConnection, url: str, entry: dict[str, Any]) -> str:
    """Return the endpoint that the card of an entry names; empty if there is none for this transport."""
    place = entry.get("url")
    data = entry.get("data")
    if isinstance(place, str):
        target = urljoin(url, place)
        _check_place(url, target, "the server card")
        card = await _document(connection, target, CARD_TYPE)
    else:
        card = data if is_object(data) else {}
    for remote in _list(card.get("remotes")):
        address = remote.get("url") if is_object(remote) and remote.get("type") == "streamable-http" else None
        if isinstance(address, str) and "{" not in address:
            _check_place(url, address, "the endpoint")
            return address
    return ""


def _list(value: object) -> list[Any]:
    return value if _is_list(value) else []


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _check_place(url: str, target: str, what: str) -> None:
    """Raise LocalError for a URL of another origin: its user has to name it."""
    with suppress(ValueError):
        if origin(url) == origin(target):
            return
    raise LocalError(
        f"connect(): {what} of {redact_url(url)} is elsewhere, at {redact_url(target)}; if you trust it, pass that URL"
    )


async def _document(connection: HTTPConnection, url: str, media_type: str) -> dict[str, Any]:
    """Return a JSON object; an empty one for everything else, because most hosts have no catalog."""
    try:
        response = await connection.send("GET", {"accept": f"{media_type}, application/json"}, None, url, False)
        if response.status_code != 200:
            await response.aclose()
            return {}
        document: object = json.loads(await connection.read(response))
    except (MCPError, ValueError, RecursionError):
        return {}
    return document if is_object(document) else {}
