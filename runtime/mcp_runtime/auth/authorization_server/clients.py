"""An id of a client goes in; the client comes out: one that was given, one that registered, or one whose id is where its
metadata is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from ...errors import AuthorizationError, LocalError
from ...protocol.models import is_object
from ..http import AuthHTTPClient
from .models import ClientOrigin, OAuthClient, OAuthError, OAuthErrorCode, new_secret
from .redirect_uris import check_registered_redirect_uri
from .registration import auth_method, client_from_metadata, registration_response
from .storage import AuthorizationStorage

_FRESH: Final = 300.0  # Seconds that the metadata at an id are good for, and that one which failed is not asked again.
_MAX_DOCUMENTS: Final = 1000  # Documents that are remembered.
_MAX_CONCURRENT_FETCHES: Final = 8  # Documents that are fetched at a time.
_HOUR: Final = 3600.0
_MAX_ADDRESSES: Final = 50_000
_DOCUMENT: Final = re.compile(r"https://[a-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9._~%/-]+")
_MAX_ID_LENGTH: Final = 500


class RegistrationQuota:
    """So many times an hour for each address; a whole network of version 6 counts as one."""

    def __init__(self, max_per_hour: int, clock: Callable[[], float]) -> None:
        self._max_per_hour = max_per_hour
        self._clock = clock
        self._hour = 0
        self._counts: dict[str, int] = {}

    def acquire(self, address: str) -> bool:
        """Whether this may be done once more."""
        hour = int(self._clock() // _HOUR)
        if hour != self._hour:
            self._hour, self._counts = hour, {}
        who = _network(address)
        if len(self._counts) >= _MAX_ADDRESSES and who not in self._counts:
            return False
        self._counts[who] = self._counts.get(who, 0) + 1
        return self._counts[who] <= self._max_per_hour


class ClientRegistry:
    """All clients of a server."""

    def __init__(
        self,
        storage: AuthorizationStorage,
        static: Sequence[OAuthClient],
        scopes: Sequence[str],
        http: AuthHTTPClient | None,
        max_clients: int,
        clock: Callable[[], float],
    ) -> None:
        for each in static:
            _check(each)
        self._storage = storage
        self._static: Mapping[str, OAuthClient] = {each.client_id: each for each in static}
        self._scopes = scopes
        self._http = http
        self._max_clients = max_clients
        self._clock = clock
        self._documents: dict[str, tuple[float, OAuthClient | None]] = {}
        self._lock = asyncio.Semaphore(_MAX_CONCURRENT_FETCHES)

    async def find(self, id: str) -> OAuthClient | None:
        """The client of this id; None where there is none that can be used."""
        if id in self._static:
            return self._static[id]
        if "://" in id:
            return await self._document(id)
        return await self._storage.client(id)

    async def register(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Register a client by its metadata; what it is told. Raises Refused."""
        method = auth_method(metadata)
        secret = None if method == "none" else new_secret()
        now = self._clock()
        client = client_from_metadata(metadata, new_secret(), self._scopes, ClientOrigin.REGISTERED, now, secret)
        if not await self._storage.add_client(client, self._max_clients, now - _HOUR):
            raise OAuthError(OAuthErrorCode.TEMPORARILY_UNAVAILABLE, "too many clients registered within an hour", 503)
        return registration_response(client, method, secret)

    async def _document(self, id: str) -> OAuthClient | None:
        if self._http is None or not is_document(id):
            return None
        now = self._clock()
        since, client = self._documents.get(id, (-_FRESH, None))
        if now - since < _FRESH:
            return client
        async with self._lock:
            client = await self._fetch_document(self._http, id)
        while len(self._documents) >= _MAX_DOCUMENTS:
            del self._documents[next(iter(self._documents))]
        self._documents[id] = (now, client)
        return client

    async def _fetch_document(self, http: AuthHTTPClient, id: str) -> OAuthClient | None:
        try:
            said = await http.get(id)
            body: Any = said.body
            # Only what is about itself, and has no secret that others could share, describes a client.
            if said.status != 200 or not is_object(body) or body.get("client_id") != id or "client_secret" in body:
                return None
            if auth_method({"token_endpoint_auth_method": "none", **body}) != "none":
                return None
            return client_from_metadata(body, id, self._scopes, ClientOrigin.DOCUMENT, self._clock())
        except (AuthorizationError, OAuthError):
            return None


def is_document(id: str) -> bool:
    """Whether an id is where metadata of a client may be: https, with a path, written plainly."""
    if len(id) > _MAX_ID_LENGTH or not _DOCUMENT.fullmatch(id):
        return False
    return not {".", ".."} & set(urlsplit(id).path.split("/"))


def _check(client: OAuthClient) -> None:
    try:
        for each in client.redirect_uris:
            check_registered_redirect_uri(each)
    except OAuthError as fault:
        raise LocalError(f"client {client.client_id}: {fault.reason}") from None


def _network(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or int(found) >> 64)
    return str(found)
