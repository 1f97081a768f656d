"""Clients, grants, codes and tokens of an authorization server in a store that several machines share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError
from mcp_runtime.stores import Store, open_store, workers

from .models import OAuthClient, SecretKind, StoredGrant, StoredSecret

# Seconds for which a client is stored that nobody uses, until the server sets others.
_UNUSED_SECONDS: Final = 86_400.0
_LASTING_SECONDS: Final = 10 * 365 * 86_400.0
_REQUEST_SECONDS: Final = 2.0  # Seconds for which a request waits for a store that cannot be reached.


class StoreStorage:
    """Stores everything in a store that several workers share, such as a Redis. Secrets are stored as digests only.

    What expires is deleted by the store. At most `max_clients` clients are registered in the time after which an unused
    one may be replaced, which is an hour; those that nobody uses expire.
    """

    def __init__(
        self, store: str | Store, *, name: str = "authorization", clock: Callable[[], float] | None = None
    ) -> None:
        """Use a store, which it connects to with its first command.

        Args:
            store: "sqlite:///path", "redis://host", or a Store.
            name: The beginning of all keys; servers with one name share what they have. Default "authorization".
            clock: Returns the current time in seconds since the epoch. Default: that of the runtime.

        Raises LocalError for "memory", and for what `store=` of `run` does not take either.
        """
        opened = open_store("StoreStorage", store)
        if opened is None:
            raise LocalError('StoreStorage(): store="memory" is what SQLiteStorage() has; write store="redis://host"')
        retrying: Any = workers("store= of StoreStorage()")
        self._opened = opened
        self._store: Store = retrying.RetryingStore(opened, _REQUEST_SECONDS)
        self._name = name
        self._clock = clocks.wall if clock is None else clock
        self._unused_seconds = _UNUSED_SECONDS

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()

    async def add_client(self, client: OAuthClient, max_clients: int, since: float) -> bool:
        """Store a registered client. Return False if `max_clients` were registered since a time, in seconds since the
        epoch."""
        seconds = max(self._clock() - since, 1.0)
        number = await self._store.count(self._key("registrations"), 1, seconds)
        if number > max_clients:
            return False
        await self._put_client(client, self._unused_seconds)
        return True

    async def client(self, id: str) -> OAuthClient | None:
        """Return a registered client, if there is one with this id."""
        value = await self._store.get(self._key("client", id))
        return None if value is None else OAuthClient.from_json(json.loads(value))

    async def add_grant(self, grant: StoredGrant, *first: StoredSecret) -> None:
        """Store a grant and its first secrets, and let its client be stored for ten years from now."""
        # The secrets of a grant that is not stored are not found: all of them are there at once.
        for secret in first:
            await self._put_secret(secret, grant)
        await self._put_grant(grant)
        await self._store.touch(self._key("client", grant.client_id), _LASTING_SECONDS)

    async def grant(self, id: str) -> StoredGrant | None:
        """Return a grant, if there is one with this id."""
        value = await self._store.get(self._key("grant", id))
        return None if value is None else _grant(json.loads(value))

    async def add_secrets(self, *secrets: StoredSecret) -> bool:
        """Store secrets of one grant. Return False if the grant is revoked."""
        for secret in secrets:
            grant = await self.grant(secret.grant_id)
            if grant is None:
                return False
            await self._put_secret(secret, grant)
        return await self.grant(secrets[0].grant_id) is not None if secrets else True

    async def find_secret(self, digest: str) -> StoredSecret | None:
        """Return a secret, whether it is consumed or not."""
        value = await self._store.get(self._key("secret", digest))
        if value is None:
            return None
        fields: dict[str, Any] = json.loads(value)
        if await self._store.get(self._key("grant", fields["grant_id"])) is None:
            return None
        fields["kind"], fields["scopes"] = SecretKind(fields["kind"]), tuple(fields["scopes"])
        return StoredSecret(**fields)

    async def consume(self, digest: str) -> bool:
        """Mark a secret as consumed. Return True for the first of all callers, and False for the others."""
        secret = await self.find_secret(digest)
        if secret is None:
            return False
        grant = await self.grant(secret.grant_id)
        seconds = _LASTING_SECONDS if grant is None else self._seconds_until(max(grant.expires_at, secret.expires_at))
        # Not repeated: a second attempt could not tell its own mark from that of another request.
        return await self._opened.put(self._key("consumed", digest), b"1", seconds, None)

    async def update_upstream(self, id: str, upstream: str) -> None:
        """Replace the encrypted upstream token of a grant."""
        key = self._key("grant", id)
        while (value := await self._store.get(key)) is not None:
            fields: dict[str, Any] = json.loads(value)
            fields["upstream"] = upstream
            if await self._store.put(key, _bytes(fields), self._seconds_until(fields["expires_at"]), value):
                return

    async def revoke(self, id: str) -> None:
        """Delete a grant; its secrets are not found any more."""
        await self._store.delete(self._key("grant", id))

    async def delete_expired(self, now: float, unused: float) -> None:
        """Set how long clients are stored that nobody uses; the store itself deletes what expires."""
        self._unused_seconds = max(now - unused, 1.0)

    # ---- records -----------------------------------------------------------------------------------------------------

    def _key(self, kind: str, id: str = "") -> str:
        return f"{self._name}:{kind}:{id}"

    def _seconds_until(self, expires_at: float) -> float:
        return max(expires_at - self._clock(), 1.0)

    async def _put_client(self, client: OAuthClient, ttl: float) -> None:
        await self._store.put(self._key("client", client.client_id), _bytes(client.to_json()), ttl)

    async def _put_grant(self, grant: StoredGrant) -> None:
        await self._store.put(
            self._key("grant", grant.id), _bytes(asdict(grant)), self._seconds_until(grant.expires_at)
        )

    async def _put_secret(self, secret: StoredSecret, grant: StoredGrant) -> None:
        # A code is stored as long as its grant, so that a second use is detected.
        expires_at = max(grant.expires_at, secret.expires_at) if secret.kind is SecretKind.CODE else secret.expires_at
        await self._store.put(
            self._key("secret", secret.digest), _bytes(asdict(secret)), self._seconds_until(expires_at)
        )


def _bytes(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _grant(fields: dict[str, Any]) -> StoredGrant:
    fields["scopes"] = tuple(fields["scopes"])
    return StoredGrant(**fields)
