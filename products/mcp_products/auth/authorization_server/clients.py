"""The clients of an authorization server: configured, registered, or described by a client id metadata document."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, cast
from urllib.parse import urlsplit

from mcp_products.common.caches import BoundedCache
from mcp_runtime.errors import AuthorizationError, LocalError
from mcp_runtime.protocol.models import is_list, is_object

from ..http import AuthHTTPClient, SharedRequests
from .models import CODE, REFRESH, ClientOrigin, OAuthClient, OAuthError, OAuthErrorCode, digest, new_secret
from .requests import check_registered_redirect_uri, parse_scopes
from .storage import AuthorizationStorage

# Client metadata (https://www.rfc-editor.org/rfc/rfc7591#section-2): read and check it. No clock, no I/O.

METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_GRANT_TYPES: Final = (CODE, REFRESH)
_MAX_REDIRECT_URIS: Final = 10
_MAX_NAME_LENGTH: Final = 100
_MAX_LIST_LENGTH: Final = 16
_MAX_BRACKETS: Final = 1000  # A body with more may be nested too deeply to parse.
# Unicode categories without visible characters, such as format characters, which can reverse the direction of text.
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# Letters and symbols that are drawn as nothing: fillers of Hangul, and the empty pattern of Braille.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")
_VISIBLE: Final = ("L", "N", "P", "S")  # The first letters of categories; marks need a character that they stand on.

_DOCUMENT_TTL: Final = 300.0  # Seconds for which a document, or the failure to fetch it, is cached.
_MAX_DOCUMENTS: Final = 1000  # Documents that are cached.
_MAX_FETCHES: Final = 64  # Documents that are fetched at the same time; of one host:
_MAX_FETCHES_OF_HOST: Final = 2
_FETCH_SECONDS: Final = 5.0  # Seconds for a document to arrive, the time that it waits for others included.
_HOUR: Final = 3600.0
_MAX_ADDRESSES: Final = 50_000
_IPV6_SHARES: Final = ((64, 1), (56, 4), (48, 16))  # A customer of a provider may have a network of any of these sizes.
_DOCUMENT: Final = re.compile(r"https://[a-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9._~%/-]+")
_MAX_ID_LENGTH: Final = 500


def read_registration(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a registration request. Raises OAuthError."""
    try:
        metadata = json.loads(body.decode()) if body.count(b"[") + body.count(b"{") < _MAX_BRACKETS else None
    except (ValueError, RecursionError):
        metadata = None
    if not is_object(metadata):
        raise _error("client metadata must be a JSON object")
    return metadata


def client_from_metadata(
    metadata: Mapping[str, Any],
    client_id: str,
    supported_scopes: Sequence[str],
    origin: ClientOrigin,
    created: float,
    secret: str | None = None,
) -> OAuthClient:
    """Return the client that metadata describes; unknown fields are ignored. Raises OAuthError for invalid metadata."""
    redirect_uris = metadata.get("redirect_uris")
    if not is_list(redirect_uris) or not 1 <= len(redirect_uris) <= _MAX_REDIRECT_URIS:
        reason = f"redirect_uris must be a list of 1 to {_MAX_REDIRECT_URIS} URIs"
        raise OAuthError(OAuthErrorCode.INVALID_REDIRECT_URI, reason)
    if "code" not in _strings(metadata, "response_types", ("code",)):
        raise _error("response_types must contain code")
    grant_types = tuple(name for name in _strings(metadata, "grant_types", (CODE,)) if name in _GRANT_TYPES)
    if CODE not in grant_types:
        raise _error(f"grant_types must contain {CODE}")
    scope = _string(metadata, "scope")
    return OAuthClient(
        client_id,
        tuple(check_registered_redirect_uri(uri) for uri in redirect_uris),
        display_name(_string(metadata, "client_name") or ""),
        digest(secret) if secret else None,
        grant_types,
        None if scope is None else _scopes(scope, supported_scopes),
        origin=origin,
        created=created,
    )


def auth_method(metadata: Mapping[str, Any]) -> str:
    """Return the method of client authentication; the default is that of RFC 7591. Raises OAuthError."""
    method = _string(metadata, "token_endpoint_auth_method") or "client_secret_basic"
    if method not in METHODS:
        raise _error(f"token_endpoint_auth_method must be one of {', '.join(METHODS)}")
    return method


def registration_response(client: OAuthClient, method: str, secret: str | None) -> dict[str, Any]:
    """Return the response to a registration (https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1)."""
    response: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": list(client.grant_types),
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    if client.scopes is not None:
        response["scope"] = " ".join(client.scopes)
    return response if secret is None else {**response, "client_secret": secret, "client_secret_expires_at": 0}


def display_name(text: str) -> str:
    """Return a client's name without outer spaces, empty if it has none. Raises OAuthError if it is too long, has
    invisible characters or looks empty, with which it could deceive users."""
    categories = [unicodedata.category(character) for character in text]
    is_blank = bool(text) and not any(category[0] in _VISIBLE for category in categories)
    if (
        len(text) > _MAX_NAME_LENGTH
        or is_blank
        or _BLANK.intersection(text)
        or not set(_INVISIBLE).isdisjoint(categories)
    ):
        raise _error(f"client_name must have at most {_MAX_NAME_LENGTH} characters, all of them visible")
    return text.strip()


def _scopes(text: str, supported: Sequence[str]) -> tuple[str, ...]:
    try:
        return parse_scopes(text, supported, supported)
    except OAuthError:
        # Unsupported scopes are dropped here; a client that requests one gets an error then.
        return tuple(scope for scope in supported if scope in text.split(" "))


def _string(metadata: Mapping[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        raise _error(f"{key} must be a string")
    return value


def _strings(metadata: Mapping[str, Any], key: str, default: Sequence[str]) -> Sequence[str]:
    value = metadata.get(key)
    if value is None:
        return default
    if not is_list(value) or len(value) > _MAX_LIST_LENGTH or not all(isinstance(item, str) for item in value):
        raise _error(f"{key} must be a list of at most {_MAX_LIST_LENGTH} strings")
    return cast(list[str], value)


def _error(reason: str) -> OAuthError:
    return OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, reason)


class RegistrationQuota:
    """A limit on registrations an hour for each IPv4 address and each IPv6 network: one of 64 bits has a share, one of
    56 bits 4 of them, and one of 48 bits 16."""

    def __init__(self, max_per_hour: int, clock: Callable[[], float]) -> None:
        """Create a quota.

        Args:
            max_per_hour: Registrations in an hour.
            clock: Returns the current time in seconds.
        """
        self._max_per_hour = max_per_hour
        self._clock = clock
        self._hour = 0
        self._counts: dict[Hashable, int] = {}

    def acquire(self, address: str) -> bool:
        """Count a registration from an address. Return False if a quota is used up."""
        hour = int(self._clock() // _HOUR)
        if hour != self._hour:
            self._hour = hour
            self._counts = {}
        networks = _networks(address)
        if any(self._counts.get(network, 0) >= shares * self._max_per_hour for network, shares in networks):
            return False  # Nothing is stored of those who are refused.
        if len(self._counts) >= _MAX_ADDRESSES and networks[0][0] not in self._counts:
            return False
        for network, _ in networks:
            self._counts[network] = self._counts.get(network, 0) + 1
        return True


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
        self._fetches: SharedRequests[str, OAuthClient | None] = SharedRequests(
            _MAX_FETCHES, at_once_of_group=_MAX_FETCHES_OF_HOST, seconds=_FETCH_SECONDS
        )

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
        try:
            client = await self._fetches.run(id, partial(self._fetch_document, self._http, id), urlsplit(id).hostname)
        except TimeoutError:
            return None  # Not cached: the next request may find fewer others before it.
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


def _networks(address: str) -> list[tuple[Hashable, int]]:
    """Return the networks that a registration from an address counts for, the smallest first, with their shares."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return [("", 1)]
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return [((bits, int(parsed) >> (128 - bits)), shares) for bits, shares in _IPV6_SHARES]
    return [(str(parsed if isinstance(parsed, IPv4Address) else parsed.ipv4_mapped), 1)]
