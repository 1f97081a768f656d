"""What a process does with the files of its stores leaves the locks of SQLite alone, on which other processes rely."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_generated.http import SQLiteStore
from mcp_products.workers.stores import sqlite
from mcp_products.workers.stores.sqlite import open_database

# SQLite changes the journal only of a file that nobody else has open: it sees that by their locks.
CHANGE_JOURNAL = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0).execute("PRAGMA journal_mode = DELETE")
    print("changed")
except sqlite3.OperationalError as error:
    print(error)
"""


def other_process(path: Path) -> str:
    command = [sys.executable, "-c", CHANGE_JOURNAL, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("openings", [1, 2])
async def test_another_process_sees_that_the_file_is_open(tmp_path: Path, openings: int) -> None:
    path = tmp_path / "store.db"
    stores = [SQLiteStore(path) for _ in range(openings)]
    for store in stores:
        await store.put("a", b"1", 60)
        assert await store.get("a") == b"1"
    assert await asyncio.to_thread(other_process, path) == "database is locked"
    await stores[0].close()
    assert await asyncio.to_thread(other_process, path) == ("changed" if openings == 1 else "database is locked")
    for store in stores[1:]:
        await store.close()


def test_a_file_whose_parts_another_process_deletes_meanwhile_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[object] = []

    def failing(path: Any, timeout: float, codes: tuple[int, ...]) -> Any:
        attempts.append(path)
        if len(attempts) <= len(codes):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = codes[len(attempts) - 1]
            raise error
        return open_database(path, timeout)

    for codes, number in (((sqlite3.SQLITE_IOERR, 10 | 17 << 8), 3), ((sqlite3.SQLITE_CORRUPT,), 1)):
        attempts.clear()
        monkeypatch.setattr(sqlite, "open_database", partial(failing, codes=codes))
        with nullcontext() if number == 3 else pytest.raises(sqlite3.OperationalError):
            sqlite.open_known(tmp_path / "store.db", 1.0)[0].close()
        assert len(attempts) == number


def test_several_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    barrier = threading.Barrier(6)

    async def count(path: Path) -> int:
        store = SQLiteStore(path)
        barrier.wait()
        try:
            return await store.count("s", 1, 60)
        finally:
            await store.close()

    with ThreadPoolExecutor(6) as threads:
        for number in range(30):
            path = tmp_path / f"{number}.db"
            lasts = [threads.submit(asyncio.run, count(path)) for _ in range(6)]
            assert sorted(last.result() for last in lasts) == [1, 2, 3, 4, 5, 6]
