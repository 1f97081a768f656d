"""What a process does with the files of its stores leaves the locks of SQLite alone, on which other processes rely."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_generated.http import SQLiteStore

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
