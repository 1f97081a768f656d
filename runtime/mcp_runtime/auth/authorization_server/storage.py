"""Clients, grants and secrets go in and come out: what an authorization server needs of whoever keeps them."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from .models import ClientOrigin, Grant, OAuthClient, SecretKind, StoredSecret

T = TypeVar("T")

_BUSY_SECONDS: Final = 10.0  # Seconds that one process waits for another.
_TABLES: Final = """
PRAGMA journal_mode = WAL;
PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS clients (id TEXT PRIMARY KEY, used INTEGER NOT NULL, made REAL NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS grants (
    id TEXT PRIMARY KEY, client TEXT NOT NULL, user TEXT NOT NULL, scopes TEXT NOT NULL, resource TEXT NOT NULL,
    expires REAL NOT NULL, upstream TEXT
);
CREATE TABLE IF NOT EXISTS secrets (
    digest TEXT PRIMARY KEY, kind TEXT NOT NULL, "grant" TEXT NOT NULL REFERENCES grants ON DELETE CASCADE,
    expires REAL NOT NULL, scopes TEXT NOT NULL, redirect TEXT NOT NULL, challenge TEXT NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS secrets_of_grants ON secrets ("grant");
CREATE INDEX IF NOT EXISTS secrets_that_expire ON secrets (expires);
CREATE INDEX IF NOT EXISTS grants_that_expire ON grants (expires);
CREATE INDEX IF NOT EXISTS grants_of_clients ON grants (client);
"""
_ADD: Final = "INSERT INTO clients SELECT ?, 0, ?, ? WHERE (SELECT count(*) FROM clients) < ?"
_DELETE_EXPIRED: Final = """
DELETE FROM clients WHERE id = (
    SELECT id FROM clients WHERE made < ? AND NOT EXISTS (SELECT 1 FROM grants WHERE client = clients.id)
    ORDER BY used, made LIMIT 1
)
"""


class AuthorizationStorage(Protocol):
    """Where an authorization server keeps what it knows. Every method is done as a whole or not at all, also where
    several processes share the storage: that codes are used once hangs on it."""

    async def add_client(self, client: OAuthClient, max_clients: int, since: float) -> bool:
        """Keep a client that registered itself. Where there are `most` already, the oldest one without a grant that
        registered before `since` is forgotten for it; False where there is none."""
        ...

    async def client(self, id: str) -> OAuthClient | None: ...

    async def add_grant(self, grant: Grant, *first: StoredSecret) -> None:
        """Keep a grant and its first secrets; its client is in use from then on."""
        ...

    async def grant(self, id: str) -> Grant | None: ...

    async def add_secrets(self, *secrets: StoredSecret) -> bool:
        """Keep secrets of one grant; False where that is no more."""
        ...

    async def find_secret(self, digest: str) -> StoredSecret | None:
        """A secret, spent or not."""
        ...

    async def consume(self, digest: str) -> bool:
        """Use a secret up; False where it was before. Of two who do it at the same time, one gets True."""
        ...

    async def update_upstream(self, id: str, upstream: str) -> None:
        """Replace what a third party gave for a grant."""
        ...

    async def revoke(self, id: str) -> None:
        """End a grant, with all secrets of it."""
        ...

    async def delete_expired(self, now: float, unused: float) -> None:
        """Forget grants and tokens that have expired by now, and clients that registered before `unused` and never were
        used. A code is known as long as its grant, so that it is seen when it is used again."""
        ...


class SQLiteStorage:
    """Keeps everything in a file that its owner alone can read (mode 0600), or in memory with `:memory:`."""

    def __init__(self, path: str | Path = ":memory:") -> None:
        if str(path) != ":memory:":
            # Made before SQLite does, so that there is no moment at which others can read.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._connection.executescript(_TABLES)
        self._connection.execute("PRAGMA foreign_keys = ON")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    async def add_client(self, client: OAuthClient, max_clients: int, since: float) -> bool:
        body = json.dumps({**asdict(client), "origin": client.origin.name})

        def work() -> bool:
            row = (client.client_id, client.created, body, max_clients)
            if self._run(_ADD, row) == 1:
                return True
            return self._run(_DELETE_EXPIRED, (since,)) == 1 and self._run(_ADD, row) == 1

        return await self._in_transaction(work)

    async def client(self, id: str) -> OAuthClient | None:
        row = await self._row("SELECT body FROM clients WHERE id = ?", (id,))
        return _client(json.loads(row[0])) if row else None

    async def add_grant(self, grant: Grant, *first: StoredSecret) -> None:
        def work() -> None:
            own = (grant.id, grant.client_id, grant.user, " ".join(grant.scopes))
            self._run(
                "INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?)", (*own, grant.resource, grant.expires_at, grant.upstream)
            )
            self._run("UPDATE clients SET used = 1 WHERE id = ?", (grant.client_id,))
            self._insert(first)

        await self._in_transaction(work)

    async def grant(self, id: str) -> Grant | None:
        row = await self._row("SELECT * FROM grants WHERE id = ?", (id,))
        return Grant(row[0], row[1], row[2], tuple(row[3].split()), *row[4:]) if row else None

    async def add_secrets(self, *secrets: StoredSecret) -> bool:
        try:
            await self._in_transaction(lambda: self._insert(secrets))
        except sqlite3.IntegrityError:
            return False
        return True

    async def find_secret(self, digest: str) -> StoredSecret | None:
        row = await self._row("SELECT * FROM secrets WHERE digest = ?", (digest,))
        if row is None:
            return None
        return StoredSecret(row[0], SecretKind(row[1]), row[2], row[3], tuple(row[4].split()), row[5], row[6])

    async def consume(self, digest: str) -> bool:
        return 1 == await self._change("UPDATE secrets SET spent = 1 WHERE digest = ? AND spent = 0", (digest,))

    async def update_upstream(self, id: str, upstream: str) -> None:
        await self._change("UPDATE grants SET upstream = ? WHERE id = ?", (upstream, id))

    async def revoke(self, id: str) -> None:
        await self._change("DELETE FROM grants WHERE id = ?", (id,))

    async def delete_expired(self, now: float, unused: float) -> None:
        def work() -> None:
            self._run("DELETE FROM grants WHERE expires < ?", (now,))
            self._run("DELETE FROM secrets WHERE expires < ? AND kind != ?", (now, SecretKind.CODE))
            self._run("DELETE FROM clients WHERE used = 0 AND made < ?", (unused,))

        await self._in_transaction(work)

    # ---- in a thread, one at a time -----------------------------------------------------------------------------------

    def _insert(self, secrets: Sequence[StoredSecret]) -> None:
        for each in secrets:
            self._run(
                "INSERT INTO secrets VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
                (
                    each.digest,
                    each.kind,
                    each.grant_id,
                    each.expires_at,
                    " ".join(each.scopes),
                    each.redirect_uri,
                    each.code_challenge,
                ),
            )

    def _run(self, statement: str, values: Sequence[object]) -> int:
        with closing(self._connection.execute(statement, values)) as cursor:
            return cursor.rowcount

    async def _change(self, statement: str, values: Sequence[object]) -> int:
        return await self._in_transaction(lambda: self._run(statement, values))

    async def _row(self, statement: str, values: Sequence[object]) -> Any:
        def work() -> Any:
            with self._lock, closing(self._connection.execute(statement, values)) as cursor:
                return cursor.fetchone()

        return await asyncio.to_thread(work)

    async def _in_transaction(self, work: Callable[[], T]) -> T:
        def whole() -> T:
            with self._lock:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    done = work()
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
                return done

        return await asyncio.to_thread(whole)


def _client(row: dict[str, Any]) -> OAuthClient:
    scopes: list[str] | None = row["scopes"]
    row["redirect_uris"], row["grants"] = tuple(row["redirect_uris"]), tuple(row["grants"])
    row["origin"], row["scopes"] = ClientOrigin[row["origin"]], None if scopes is None else tuple(scopes)
    return OAuthClient(**row)
