"""An id of a client goes in; the client comes out: one that was given, one that registered, or one whose id is where its
metadata is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from ..auth.asking import Asking
from ..errors import LocalError, NotAuthorized
from ..wire import is_object
from .records import Client, Error, Origin, Refused, new_secret
from .redirects import check_redirect
from .registration import answer_to, client_of, method_of
from .storage import Storage

_FRESH: Final = 300.0  # Seconds that the metadata at an id are good for, and that one which failed is not asked again.
_MOST: Final = 1000  # Documents that are remembered.
_AT_A_TIME: Final = 8  # Documents that are fetched at a time.
_HOUR: Final = 3600.0
_MOST_ADDRESSES: Final = 50_000
_DOCUMENT: Final = re.compile(r"https://[a-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9._~%/-]+")
_LONGEST: Final = 500


class Quota:
    """So many times an hour for each address; a whole network of version 6 counts as one."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._hour = 0
        self._counts: dict[str, int] = {}

    def take(self, address: str) -> bool:
        """Whether this may be done once more."""
        hour = int(self._clock() // _HOUR)
        if hour != self._hour:
            self._hour, self._counts = hour, {}
        who = _network(address)
        if len(self._counts) >= _MOST_ADDRESSES and who not in self._counts:
            return False
        self._counts[who] = self._counts.get(who, 0) + 1
        return self._counts[who] <= self._most


class Clients:
    """All clients of a server."""

    def __init__(
        self,
        storage: Storage,
        given: Sequence[Client],
        offered: Sequence[str],
        asking: Asking | None,
        most: int,
        clock: Callable[[], float],
    ) -> None:
        for each in given:
            _check(each)
        self._storage = storage
        self._given: Mapping[str, Client] = {each.id: each for each in given}
        self._offered = offered
        self._asking = asking
        self._most = most
        self._clock = clock
        self._documents: dict[str, tuple[float, Client | None]] = {}
        self._turn = asyncio.Semaphore(_AT_A_TIME)

    async def find(self, id: str) -> Client | None:
        """The client of this id; None where there is none that can be used."""
        if id in self._given:
            return self._given[id]
        if "://" in id:
            return await self._document(id)
        return await self._storage.client(id)

    async def register(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Register a client by its metadata; what it is told. Raises Refused."""
        method = method_of(said)
        secret = None if method == "none" else new_secret()
        now = self._clock()
        client = client_of(said, new_secret(), self._offered, Origin.REGISTERED, now, secret)
        if not await self._storage.add_client(client, self._most, now - _HOUR):
            raise Refused(Error.TEMPORARILY_UNAVAILABLE, "too many clients registered within an hour", 503)
        return answer_to(client, method, secret)

    async def _document(self, id: str) -> Client | None:
        if self._asking is None or not is_document(id):
            return None
        now = self._clock()
        since, client = self._documents.get(id, (-_FRESH, None))
        if now - since < _FRESH:
            return client
        async with self._turn:
            client = await self._fetched(self._asking, id)
        while len(self._documents) >= _MOST:
            del self._documents[next(iter(self._documents))]
        self._documents[id] = (now, client)
        return client

    async def _fetched(self, asking: Asking, id: str) -> Client | None:
        try:
            said = await asking.get(id)
            body: Any = said.body
            # Only what is about itself, and has no secret that others could share, describes a client.
            if said.status != 200 or not is_object(body) or body.get("client_id") != id or "client_secret" in body:
                return None
            if method_of({"token_endpoint_auth_method": "none", **body}) != "none":
                return None
            return client_of(body, id, self._offered, Origin.DOCUMENT, self._clock())
        except (NotAuthorized, Refused):
            return None


def is_document(id: str) -> bool:
    """Whether an id is where metadata of a client may be: https, with a path, written plainly."""
    if len(id) > _LONGEST or not _DOCUMENT.fullmatch(id):
        return False
    return not {".", ".."} & set(urlsplit(id).path.split("/"))


def _check(client: Client) -> None:
    try:
        for each in client.redirects:
            check_redirect(each)
    except Refused as fault:
        raise LocalError(f"client {client.id}: {fault.why}") from None


def _network(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or int(found) >> 64)
    return str(found)
