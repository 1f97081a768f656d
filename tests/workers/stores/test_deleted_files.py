"""A file of SQLite that is deleted or replaced is noticed by a store without subscribers too, with the next command."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.matrices import long_after

from mcp_generated.http import StoreUnavailableError
from mcp_products.auth.authorization_server.models import OAuthClient
from mcp_products.auth.authorization_server.store_storage import StoreStorage
from mcp_products.workers.stores import sqlite as sqlite_store
from mcp_products.workers.stores.sqlite import SQLiteStore, open_database

COMMANDS: dict[str, Callable[[SQLiteStore], Awaitable[Any]]] = {
    "get": lambda store: store.get("key"),
    "get_tracked": lambda store: store.get_tracked("key"),
    "put": lambda store: store.put("other", b"value", 60),
    "touch": lambda store: store.touch("key", 60),
    "delete": lambda store: store.delete("key"),
    "count": lambda store: store.count("counter", 1, 60),
    "append": lambda store: store.append("stream", [b"entry"], 60),
    "a large append": lambda store: store.append("stream", [b"entry" * 50_000], 60),
    "read": lambda store: store.read("stream", 0),
    "last": lambda store: store.last("stream"),
    "publish": lambda store: store.publish("channel", b"message"),
}


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def delete(path: Path) -> None:
    for part in path.parent.glob(f"{path.name}*"):
        part.unlink()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("is_replaced", [False, True], ids=["deleted", "replaced"])
async def test_the_next_command_uses_the_file_that_has_the_name(
    command: str, is_replaced: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    store = SQLiteStore(path)
    await store.put("key", b"before", 60)
    delete(path)
    other = SQLiteStore(path)
    if is_replaced:
        await other.put("key", b"of another", 60)
    await COMMANDS[command](store)
    assert [f"{path}: the file of the store was deleted or replaced" in text for text in caplog.messages] == [True]
    await store.put("new", b"value", 60)
    assert await other.get("new") == b"value"
    assert await store.get("key") == (b"of another" if is_replaced and command != "delete" else None)
    assert len(caplog.messages) == 1, "it is said once"
    await store.close()
    await other.close()


async def test_the_storage_of_an_authorization_server_does_not_write_into_a_deleted_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    storage, other = StoreStorage(f"sqlite:///{path}"), StoreStorage(f"sqlite:///{path}")
    clients = [OAuthClient(client_id=name, redirect_uris=("https://a.example/back",)) for name in ("first", "second")]
    assert await storage.add_client(clients[0], 10, 0.0)
    delete(path)
    assert await storage.client("first") is None
    assert await storage.add_client(clients[1], 10, 0.0)
    assert await other.client("second") == await storage.client("second") == clients[1]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    await storage.close()
    await other.close()


# A program that deletes several files may be interrupted between any two.
PARTS = ["-wal and -shm", "-wal", "-shm", " and -shm", "-changes", " and -wal and -changes"]
# Uses a store of another process: prints what it reads of a record, and stores its own value of another one.
OTHER = """
import asyncio, sys
from mcp_generated.http import SQLiteStore

async def main():
    store = SQLiteStore(sys.argv[1])
    print(await store.get("key"), await store.put("other", b"of the other", 60), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(await store.get(line.strip()), flush=True)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("parts", long_after(1, PARTS))
async def test_two_processes_see_each_other_after_a_part_was_deleted(parts: str, tmp_path: Path) -> None:
    """SQLite opens the parts of a file by their names: each process had its own ones, and the same file."""
    path = tmp_path / "store.db"
    store = SQLiteStore(path)
    received: list[bytes] = []
    await store.subscribe("channel", received.append)
    await store.put("key", b"before", 60)
    for part in parts.split(" and "):
        (tmp_path / f"store.db{part}").unlink()
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", OTHER, str(path), stdin=pipe, stdout=pipe)
    assert other.stdin is not None and other.stdout is not None
    first = await other.stdout.readline()
    assert first in {b"None True\n", b"b'before' True\n"}
    assert await store.get("other") == b"of the other"
    assert await store.put("mine", b"value", 60)
    other.stdin.write(b"mine\n")
    assert await other.stdout.readline() == b"b'value'\n"
    other.stdin.close()
    assert await other.wait() == 0
    await store.publish("channel", b"message")
    await until(lambda: received[-1:] == [b"message"])
    await store.close()


async def test_a_change_is_known_everywhere_after_the_counters_were_deleted(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first, second = SQLiteStore(path), SQLiteStore(path)
    await first.put("key", b"1", 60)
    (tmp_path / "store.db-changes").unlink()
    assert await second.get_tracked("key") == b"1"
    await first.put("key", b"2", 60)
    assert await second.get_tracked("key") == b"2"
    assert await second.get_tracked("key") == second.tracked("key") == b"2"
    await first.put("key", b"3", 60)
    assert second.tracked("key") is None
    await first.close()
    await second.close()


async def test_a_command_that_waits_for_a_lock_has_its_result_though_the_file_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection of the thread was closed and forgotten by the event loop, and the command got AttributeError: the
    messages of a stream, or the signs of life of a worker, ended with it."""
    begins = threading.Event()

    def open_watched(path: Path, timeout: float) -> sqlite3.Connection:
        connection = open_database(path, timeout)
        if threading.current_thread() is not threading.main_thread():
            connection.set_trace_callback(lambda statement: begins.set() if "BEGIN" in statement else None)
        return connection

    monkeypatch.setattr(sqlite_store, "open_database", open_watched)
    path = tmp_path / "store.db"
    store = SQLiteStore(path)
    await store.put("key", b"before", 60)
    begins.clear()
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(store.put("key", b"waits", 60))
        await asyncio.to_thread(begins.wait)
        delete(path)
        assert await store.get("key") is None
        writer.execute("COMMIT")
    assert await waiting, "it is stored in the file that was deleted"
    assert await store.put("key", b"after", 60)
    assert await store.get("key") == b"after"
    await store.close()


async def test_messages_come_again_after_the_folder_was_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "folder" / "store.db"
    path.parent.mkdir()
    store, received = SQLiteStore(path), list[bytes]()
    await store.subscribe("channel", received.append)
    shutil.rmtree(path.parent)
    await until(lambda: "cannot be read" in caplog.text)
    for command in COMMANDS.values():
        with pytest.raises(StoreUnavailableError, match="No such file or directory"):
            await command(store)
    path.parent.mkdir()
    await until(lambda: received == [b""])  # Some may have been lost.
    await store.publish("channel", b"message")
    await until(lambda: received == [b"", b"message"])
    assert [text.partition(" which")[0] for text in caplog.messages if "read" in text] == [
        "the messages of the store cannot be read,"
    ], "it is said once"
    await store.close()


async def test_messages_come_though_a_receiver_has_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    received: list[bytes] = []

    def receive(message: bytes) -> None:
        received.append(message)
        if message == b"first":
            raise ValueError("of a receiver")

    store = SQLiteStore(tmp_path / "store.db")
    await store.subscribe("channel", receive)
    await store.publish("channel", b"first")
    await until(lambda: bool(caplog.records))
    await store.publish("channel", b"second")
    await until(lambda: received[-1:] == [b"second"])
    assert received == [b"first", b"second"]
    assert [str((record.exc_info or (None, None))[1]) for record in caplog.records] == ["of a receiver"]
    await store.close()
