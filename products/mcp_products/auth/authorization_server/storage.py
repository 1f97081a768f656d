"""Storage of an authorization server: clients, grants, and digests of codes and tokens."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from mcp_products.platforms.private_files import create_private_file, identity_of, restrict_database
from mcp_runtime.errors import LocalError

from .models import OAuthClient, SecretKind, StoredGrant, StoredSecret

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BUSY_SECONDS: Final = 10.0  # Seconds to wait for a lock of another process.
_FORMAT: Final = 1  # The `user_version` of the file; raise it with each change of the tables.
_TABLES: Final = f"""
BEGIN IMMEDIATE;
PRAGMA user_version = {_FORMAT};
CREATE TABLE IF NOT EXISTS clients (
    id TEXT PRIMARY KEY, used INTEGER NOT NULL, created REAL NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS grants (
    id TEXT PRIMARY KEY, client_id TEXT NOT NULL, user TEXT NOT NULL, scopes TEXT NOT NULL, resource TEXT NOT NULL,
    expires_at REAL NOT NULL, upstream TEXT
);
CREATE TABLE IF NOT EXISTS secrets (
    digest TEXT PRIMARY KEY, kind TEXT NOT NULL, grant_id TEXT NOT NULL REFERENCES grants ON DELETE CASCADE,
    expires_at REAL NOT NULL, scopes TEXT NOT NULL, redirect_uri TEXT NOT NULL, code_challenge TEXT NOT NULL,
    consumed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS secrets_by_grant ON secrets (grant_id);
CREATE INDEX IF NOT EXISTS secrets_by_expiry ON secrets (expires_at);
CREATE INDEX IF NOT EXISTS grants_by_expiry ON grants (expires_at);
CREATE INDEX IF NOT EXISTS grants_by_client ON grants (client_id);
COMMIT;
"""
_STATE: Final = "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
_ADD_CLIENT: Final = "INSERT INTO clients SELECT ?, 0, ?, ? WHERE (SELECT count(*) FROM clients) < ?"
_DELETE_UNUSED_CLIENT: Final = """
DELETE FROM clients WHERE id = (
    SELECT id FROM clients WHERE created < ? AND NOT EXISTS (SELECT 1 FROM grants WHERE client_id = clients.id)
    ORDER BY used, created LIMIT 1
)
"""


class AuthorizationStorage(Protocol):
    """The storage of an authorization server. Each method is atomic, also if several processes share the storage:
    otherwise a code could be used twice."""

    async def add_client(self, client: OAuthClient, max_clients: int, since: float) -> bool:
        """Store a registered client.

        If there are `max_clients` already, the oldest client without a grant that was registered before `since` (in
        seconds since the epoch) is deleted. Return False if there is no such client.
        """
        ...

    async def client(self, id: str) -> OAuthClient | None:
        """Return a registered client, if there is one with this id."""
        ...

    async def add_grant(self, grant: StoredGrant, *first: StoredSecret) -> None:
        """Store a grant and its first secrets, and mark its client as used."""

    async def grant(self, id: str) -> StoredGrant | None:
        """Return a grant, if there is one with this id."""
        ...

    async def add_secrets(self, *secrets: StoredSecret) -> bool:
        """Store secrets of one grant. Return False if the grant is revoked."""
        ...

    async def find_secret(self, digest: str) -> StoredSecret | None:
        """Return a secret, whether it is consumed or not."""
        ...

    async def consume(self, digest: str) -> bool:
        """Mark a secret as consumed. Return True for the first of all callers, and False for the others."""
        ...

    async def update_upstream(self, id: str, upstream: str) -> None:
        """Replace the encrypted upstream token of a grant."""

    async def revoke(self, id: str) -> None:
        """Delete a grant with all of its secrets."""

    async def delete_expired(self, now: float, unused: float) -> None:
        """Delete expired grants and tokens, and clients that were registered before `unused` and never used.

        A code is stored as long as its grant, so that a second use is detected. Times are in seconds since the epoch.
        """


class SQLiteStorage:
    """Stores everything in a SQLite file that only its owner can read, or in memory.

    The owner alone can read it by its mode 0600; on Windows, by an access control list. A file that was deleted or
    replaced is noticed with the next use, and the one that has the name now is used.
    """

    def __init__(self, path: str | Path = ":memory:") -> None:
        """Open the file, and create it if there is none.

        Args:
            path: The file. Default `:memory:`: the data is lost when the process ends.

        Raises LocalError if the file has another format, is not a regular file, or is a link.
        """
        self._lock = threading.Lock()
        self._path = None if str(path) == ":memory:" else path
        connection, file = self._open()
        self._connection = connection
        self._file = file

    def _open(self) -> tuple[sqlite3.Connection, object]:
        """Return a connection to the file that has the name now, and what identifies the file."""
        path = ":memory:" if self._path is None else self._path
        if self._path is not None:
            # Created here, because SQLite would create it with permissions that let others read it.
            create_private_file(path)
        # A file that takes its place from here on is noticed with the next use.
        file = None if self._path is None else identity_of(self._path)
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _create_tables(connection, path)
            restrict_database(path)
        except BaseException:
            connection.close()
            raise
        return connection, file

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._path = None
            self._file = None
            self._connection.close()

    async def add_client(self, client: OAuthClient, max_clients: int, since: float) -> bool:
        """Store a registered client; see `AuthorizationStorage`."""
        body = json.dumps(client.to_json())

        def work() -> bool:
            row = (client.client_id, client.created, body, max_clients)
            if self._run(_ADD_CLIENT, row) == 1:
                return True
            return self._run(_DELETE_UNUSED_CLIENT, (since,)) == 1 and self._run(_ADD_CLIENT, row) == 1

        return await self._in_transaction(work)

    async def client(self, id: str) -> OAuthClient | None:
        """Return a registered client, if there is one with this id."""
        row = await self._row("SELECT body FROM clients WHERE id = ?", (id,))
        return OAuthClient.from_json(json.loads(row[0])) if row else None

    async def add_grant(self, grant: StoredGrant, *first: StoredSecret) -> None:
        """Store a grant and its first secrets, and mark its client as used."""

        def work() -> None:
            own = (grant.id, grant.client_id, grant.user, " ".join(grant.scopes))
            self._run(
                "INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*own, grant.resource, grant.expires_at, grant.upstream),
            )
            self._run("UPDATE clients SET used = 1 WHERE id = ?", (grant.client_id,))
            self._insert(first)

        await self._in_transaction(work)

    async def grant(self, id: str) -> StoredGrant | None:
        """Return a grant, if there is one with this id."""
        row = await self._row("SELECT * FROM grants WHERE id = ?", (id,))
        return StoredGrant(row[0], row[1], row[2], tuple(row[3].split()), *row[4:]) if row else None

    async def add_secrets(self, *secrets: StoredSecret) -> bool:
        """Store secrets of one grant. Return False if the grant is revoked."""
        try:
            await self._in_transaction(lambda: self._insert(secrets))
        except sqlite3.IntegrityError:
            return False
        return True

    async def find_secret(self, digest: str) -> StoredSecret | None:
        """Return a secret, whether it is consumed or not."""
        row = await self._row("SELECT * FROM secrets WHERE digest = ?", (digest,))
        if row is None:
            return None
        return StoredSecret(row[0], SecretKind(row[1]), row[2], row[3], tuple(row[4].split()), row[5], row[6])

    async def consume(self, digest: str) -> bool:
        """Mark a secret as consumed. Return True for the first of all callers, and False for the others."""
        statement = "UPDATE secrets SET consumed = 1 WHERE digest = ? AND consumed = 0"
        return await self._change(statement, (digest,)) == 1

    async def update_upstream(self, id: str, upstream: str) -> None:
        """Replace the encrypted upstream token of a grant."""
        await self._change("UPDATE grants SET upstream = ? WHERE id = ?", (upstream, id))

    async def revoke(self, id: str) -> None:
        """Delete a grant with all of its secrets."""
        await self._change("DELETE FROM grants WHERE id = ?", (id,))

    async def delete_expired(self, now: float, unused: float) -> None:
        """Delete expired grants and tokens, and clients that were never used; see `AuthorizationStorage`."""

        def work() -> None:
            self._run("DELETE FROM grants WHERE expires_at < ?", (now,))
            self._run("DELETE FROM secrets WHERE expires_at < ? AND kind != ?", (now, SecretKind.CODE))
            self._run("DELETE FROM clients WHERE used = 0 AND created < ?", (unused,))

        await self._in_transaction(work)

    # ---- in a thread, one at a time ----------------------------------------------------------------------------------

    def _look_at_file(self) -> None:
        """Use the file that has the name, as other processes do: what is open may be deleted or replaced."""
        if self._path is None or identity_of(self._path) == self._file:
            return
        connection, file = self._open()
        self._connection.close()
        self._connection = connection
        self._file = file
        _log.warning("%s: the file was deleted or replaced, and is opened anew; people sign in again", self._path)

    def _insert(self, secrets: Sequence[StoredSecret]) -> None:
        for secret in secrets:
            scopes = " ".join(secret.scopes)
            bound_to = (secret.redirect_uri, secret.code_challenge)
            row = (secret.digest, secret.kind, secret.grant_id, secret.expires_at, scopes, *bound_to)
            self._run("INSERT INTO secrets VALUES (?, ?, ?, ?, ?, ?, ?, 0)", row)

    def _run(self, statement: str, values: Sequence[object]) -> int:
        with closing(self._connection.execute(statement, values)) as cursor:
            return cursor.rowcount

    async def _change(self, statement: str, values: Sequence[object]) -> int:
        return await self._in_transaction(lambda: self._run(statement, values))

    async def _row(self, statement: str, values: Sequence[object]) -> Any:
        def work() -> Any:
            with self._lock:
                self._look_at_file()
                with closing(self._connection.execute(statement, values)) as cursor:
                    return cursor.fetchone()

        return await asyncio.to_thread(work)

    async def _in_transaction(self, work: Callable[[], T]) -> T:
        def transaction() -> T:
            with self._lock:
                self._look_at_file()
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    result = work()
                except BaseException:
                    if self._connection.in_transaction:  # A full disk has ended it already.
                        self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
                return result

        return await asyncio.to_thread(transaction)


def _create_tables(connection: sqlite3.Connection, path: str | Path) -> None:
    try:
        [(version, tables)] = connection.execute(_STATE)
        if version != _FORMAT and (tables or version):
            raise LocalError(
                f"{path}: has format {version}, this version reads {_FORMAT}; remove the file, and people sign in again"
            )
        for pragma in ("journal_mode = WAL", "secure_delete = ON", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.executescript(_TABLES)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        raise LocalError(f"{path}: is not a SQLite file: {error}") from None
