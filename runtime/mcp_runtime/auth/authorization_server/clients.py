"""The clients of an authorization server: configured, registered, or described by a client id metadata document."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from ...aio.bounded_cache import BoundedCache
from ...errors import AuthorizationError, LocalError
from ...protocol.models import is_object
from ..http import AuthHTTPClient
from .models import ClientOrigin, OAuthClient, OAuthError, OAuthErrorCode, new_secret
from .redirect_uris import check_registered_redirect_uri
from .registration import auth_method, client_from_metadata, registration_response
from .storage import AuthorizationStorage

_DOCUMENT_TTL: Final = 300.0  # Seconds for which a document, or the failure to fetch it, is cached.
_MAX_DOCUMENTS: Final = 1000  # Documents that are cached.
_MAX_CONCURRENT_FETCHES: Final = 8
_HOUR: Final = 3600.0
_MAX_ADDRESSES: Final = 50_000
_DOCUMENT: Final = re.compile(r"https://[a-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9._~%/-]+")
_MAX_ID_LENGTH: Final = 500


class RegistrationQuota:
    """A limit on registrations an hour for each IPv4 address, and for each IPv6 network (/64)."""

    def __init__(self, max_per_hour: int, clock: Callable[[], float]) -> None:
        """Create a quota.

        Args:
            max_per_hour: Registrations in an hour.
            clock: Returns the current time in seconds.
        """
        self._max_per_hour = max_per_hour
        self._clock = clock
        self._hour = 0
        self._counts: dict[str, int] = {}

    def acquire(self, address: str) -> bool:
        """Count a registration from an address. Return False if the quota is used up."""
        hour = int(self._clock() // _HOUR)
        if hour != self._hour:
            self._hour, self._counts = hour, {}
        network = _network(address)
        if len(self._counts) >= _MAX_ADDRESSES and network not in self._counts:
            return False
        self._counts[network] = self._counts.get(network, 0) + 1
        return self._counts[network] <= self._max_per_hour


class ClientRegistry:
    """All clients of an authorization server."""

    def __init__(
        self,
        storage: AuthorizationStorage,
        static: Sequence[OAuthClient],
        scopes: Sequence[str],
        http: AuthHTTPClient | None,
        max_clients: int,
        clock: Callable[[], float],
    ) -> None:
        """Create a registry. Raises LocalError if a configured client has an invalid redirect URI.

        Args:
            storage: Storage of registered clients.
            static: Configured clients.
            scopes: Scopes of the server.
            http: Client that fetches client id metadata documents; None if they are not supported.
            max_clients: Registered clients that are stored.
            clock: Returns the current time in seconds since the epoch.
        """
        for client in static:
            _check(client)
        self._storage = storage
        self._static: Mapping[str, OAuthClient] = {client.client_id: client for client in static}
        self._scopes = scopes
        self._http = http
        self._max_clients = max_clients
        self._clock = clock
        # None in a tuple: the document is missing or not valid.
        self._documents: BoundedCache[str, tuple[OAuthClient | None]] = BoundedCache(
            _MAX_DOCUMENTS, ttl=_DOCUMENT_TTL, clock=clock
        )
        self._fetch_slots = asyncio.Semaphore(_MAX_CONCURRENT_FETCHES)

    async def find(self, id: str) -> OAuthClient | None:
        """Return the client of a client id; None if it is unknown or its document is not valid."""
        if id in self._static:
            return self._static[id]
        if "://" in id:
            return await self._document(id)
        return await self._storage.client(id)

    async def register(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Register a client and return the registration response. Raises OAuthError."""
        method = auth_method(metadata)
        secret = None if method == "none" else new_secret()
        now = self._clock()
        client = client_from_metadata(metadata, new_secret(), self._scopes, ClientOrigin.REGISTERED, now, secret)
        if not await self._storage.add_client(client, self._max_clients, now - _HOUR):
            raise OAuthError(
                OAuthErrorCode.TEMPORARILY_UNAVAILABLE, "too many clients were registered; try again in an hour", 503
            )
        return registration_response(client, method, secret)

    async def _document(self, id: str) -> OAuthClient | None:
        if self._http is None or not is_document(id):
            return None
        cached = self._documents.get(id)
        if cached is not None:
            return cached[0]
        async with self._fetch_slots:
            client = await self._fetch_document(self._http, id)
        self._documents.put(id, (client,))
        return client

    async def _fetch_document(self, http: AuthHTTPClient, id: str) -> OAuthClient | None:
        try:
            response = await http.get(id)
            body: Any = response.body
            # The document must name its own URL, and have no secret, which everybody could read.
            if response.status != 200 or not is_object(body) or body.get("client_id") != id or "client_secret" in body:
                return None
            if auth_method({"token_endpoint_auth_method": "none", **body}) != "none":
                return None
            return client_from_metadata(body, id, self._scopes, ClientOrigin.DOCUMENT, self._clock())
        except (AuthorizationError, OAuthError):
            return None


def is_document(id: str) -> bool:
    """Return True if a client id may be the URL of a client id metadata document: https, with a path, in plain
    characters and without dot segments."""
    if len(id) > _MAX_ID_LENGTH or not _DOCUMENT.fullmatch(id):
        return False
    return not {".", ".."} & set(urlsplit(id).path.split("/"))


def _check(client: OAuthClient) -> None:
    try:
        for uri in client.redirect_uris:
            check_registered_redirect_uri(uri)
    except OAuthError as error:
        raise LocalError(f"client {client.client_id}: {error.reason}") from None


def _network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or int(parsed) >> 64)
    return str(parsed)
