"""A file of SQLite that is deleted or replaced is noticed by a store without subscribers too, with the next command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_products.auth.authorization_server.models import OAuthClient
from mcp_products.auth.authorization_server.store_storage import StoreStorage
from mcp_products.workers.stores.sqlite import SQLiteStore

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
