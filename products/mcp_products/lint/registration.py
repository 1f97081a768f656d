"""Register a client as hosts do, and say which of their redirect addresses a server refuses.

This leaves registrations behind, so it is done with `--register` alone.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from .snapshot import Json, Snapshot, is_list, is_object, text_of
from .table import table

_MAX_BYTES: Final = 1 << 20
_NO_DOCUMENT: Final[Json] = {}
_WELL_KNOWN: Final = ("oauth-authorization-server", "openid-configuration")


def try_registrations(snapshot: Snapshot, timeout: float) -> None:
    """Register the addresses of each host together, and one by one where that is refused."""
    endpoint = _endpoint_of(snapshot.url, timeout)
    if not endpoint:
        return
    by_host: dict[str, list[str]] = {}
    for fact in table().rules["oauth-redirect"].facts:
        by_host.setdefault(fact.host, []).append(fact.keyword)
    refused: list[str] = []
    for addresses in by_host.values():
        if not _accepts(endpoint, addresses, timeout):
            alone = [address for address in addresses if not _accepts(endpoint, [address], timeout)]
            refused += alone or addresses  # Each alone is accepted, and all together are not.
    snapshot.refused_redirects = refused


def _endpoint_of(url: str, timeout: float) -> str:
    """Return the registration endpoint that the metadata of a server names; empty if there is none."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    resource = next(_documents(origin, parts.path, ("oauth-protected-resource",), timeout), _NO_DOCUMENT)
    issuers = resource.get("authorization_servers")
    issuer = text_of(issuers[0]) if is_list(issuers) and issuers else origin
    of_issuer = urlsplit(issuer)
    place = f"{of_issuer.scheme}://{of_issuer.netloc}"
    metadata = next(_documents(place, of_issuer.path, _WELL_KNOWN, timeout), _NO_DOCUMENT)
    endpoint = text_of(metadata.get("registration_endpoint"))
    return endpoint if endpoint.startswith(("http://", "https://")) else ""


def _documents(origin: str, path: str, names: tuple[str, ...], timeout: float) -> Iterator[Json]:
    """Yield the documents at the well-known addresses of a path, and then of the origin."""
    if not origin.startswith(("http://", "https://")):
        return
    for name in names:
        for tail in dict.fromkeys((path.rstrip("/"), "")):
            status, document = _send(urllib.request.Request(f"{origin}/.well-known/{name}{tail}"), timeout)
            if status == 200 and document:
                yield document


def _accepts(endpoint: str, addresses: list[str], timeout: float) -> bool:
    """Register a public client with these addresses, and return True unless the server says that it is wrong."""
    client = {
        "client_name": "mcp-generated-lint",
        "redirect_uris": addresses,
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(endpoint, json.dumps(client).encode(), headers, method="POST")
    status, _ = _send(request, timeout)
    return status not in (400, 403, 422)  # Others say nothing of the addresses.


def _send(request: urllib.request.Request, timeout: float) -> tuple[int, Json]:
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            document: object = json.loads(response.read(_MAX_BYTES))
            return response.status, document if is_object(document) else {}
    except urllib.error.HTTPError as error:
        return error.code, {}
    except (OSError, ValueError):
        return 0, {}
