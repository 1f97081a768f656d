"""A disk that is full is named as such, and the store goes on when there is room again."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mcp_generated.http import SQLiteStore, StoreUnavailableError
from mcp_products.workers.stores import sqlite as sqlite_store
from mcp_products.workers.stores.sqlite import open_database

LONG = 60.0
PAGES = 60  # Of 2,048 bytes.


@pytest.mark.parametrize("where", ["event loop", "thread"])
async def test_a_full_disk_is_the_reason_of_what_fails(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite ends the transaction itself then; its limit of pages is what a full disk is to it."""
    limited: list[sqlite3.Connection] = []

    def open_limited(*arguments: Any) -> sqlite3.Connection:
        connection = open_database(*arguments)
        connection.execute(f"PRAGMA max_page_count = {PAGES}")
        limited.append(connection)
        return connection

    monkeypatch.setattr(sqlite_store, "open_database", open_limited)
    monkeypatch.setattr(sqlite_store, "_LARGE", 1 if where == "thread" else 1 << 30)
    store = SQLiteStore(tmp_path / "s.db")
    await store.put("before", b"1", LONG)
    stored, reasons = 0, set[str]()
    for number in range(200):
        try:
            await store.append(f"s{number}", [bytes(5000)], LONG, after=0)
            stored += 1
        except StoreUnavailableError as error:
            reasons.add(str(error))
    assert 0 < stored < 200
    assert reasons == {f"{tmp_path / 's.db'}: database or disk is full"}
    assert await store.get("before") == b"1"
    for connection in limited:
        connection.execute("PRAGMA max_page_count = 100000")
    assert await store.append("after", [bytes(5000)], LONG, after=0) == 1
    await store.close()
