"""The file of an authorization server: only its owner reads it, and nobody can put another in its place."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_generated import LocalError
from mcp_generated.auth import SQLiteStorage
from mcp_products.auth.authorization_server.models import OAuthClient, StoredGrant

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")


@pytest.mark.parametrize("mode", [None, 0o644, 0o666, 0o600])
async def test_only_the_owner_reads_the_file_and_what_belongs_to_it(tmp_path: Path, mode: int | None) -> None:
    path = tmp_path / "grants.sqlite"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    with closing(SQLiteStorage(path)) as storage:
        await storage.delete_expired(0.0, 0.0)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600} and path.name in modes


def test_a_link_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    target, link, dangling, pipe = (tmp_path / name for name in ("target", "link", "dangling", "pipe"))
    SQLiteStorage(target).close()
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "new")
    os.mkfifo(pipe)
    for path in (link, dangling, pipe, tmp_path):
        with pytest.raises(LocalError, match=r"is a link|is not a regular file"):
            SQLiteStorage(path)
    assert not (tmp_path / "new").exists()


def client(name: str) -> OAuthClient:
    return OAuthClient(client_id=name, redirect_uris=("https://a.example/back",))


def grant(number: int) -> StoredGrant:
    return StoredGrant(f"{number}", "client", "ada", ("use",), "https://a.example/mcp", 1e12, "x" * 5000)


USES: dict[str, Callable[[SQLiteStorage], Awaitable[Any]]] = {
    "client": lambda storage: storage.client("first"),
    "grant": lambda storage: storage.grant("none"),
    "find_secret": lambda storage: storage.find_secret("none"),
    "consume": lambda storage: storage.consume("none"),
    "revoke": lambda storage: storage.revoke("none"),
    "add_client": lambda storage: storage.add_client(client("third"), 10, 0.0),
    "delete_expired": lambda storage: storage.delete_expired(0.0, 0.0),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("parts", ["", "*"], ids=["the file", "all of its parts"])
async def test_the_next_use_is_of_the_file_that_has_the_name(
    use: str, parts: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "grants.sqlite"
    with closing(SQLiteStorage(path)) as storage:
        assert await storage.add_client(client("first"), 10, 0.0)
        for part in tmp_path.glob(f"{path.name}{parts}"):
            part.unlink()
        with closing(SQLiteStorage(path)) as other:
            await USES[use](storage)
            [said] = caplog.messages
            assert f"{path}: the file was deleted or replaced" in said
            assert await storage.client("first") is None
            assert await storage.add_client(client("second"), 10, 0.0)
            assert await other.client("second") == await storage.client("second") == client("second")
            assert len(caplog.messages) == 1, "it is said once"


async def test_a_file_that_takes_its_place_and_is_none_of_a_storage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grants.sqlite"
    with closing(SQLiteStorage(path)) as storage:
        for part in tmp_path.iterdir():
            part.unlink()
        path.write_text("nothing of SQLite" * 100)
        for _ in range(2):
            with pytest.raises(LocalError, match="is not a SQLite file"):
                await storage.client("first")
        path.unlink()
        assert await storage.add_client(client("first"), 10, 0.0)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        await storage.client("first")


async def test_a_full_disk_is_the_reason_of_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite ends the transaction itself then; its limit of pages is what a full disk is to it."""
    opened = list[sqlite3.Connection]()

    def connect(*arguments: Any, real: Any = sqlite3.connect, **settings: Any) -> sqlite3.Connection:
        opened.append(real(*arguments, **settings))
        return opened[-1]

    monkeypatch.setattr("mcp_products.auth.authorization_server.storage.sqlite3.connect", connect)
    with closing(SQLiteStorage(tmp_path / "grants.sqlite")) as storage:
        opened[0].execute("PRAGMA max_page_count = 20")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            for number in range(200):
                await storage.add_grant(grant(number))
        opened[0].execute("PRAGMA max_page_count = 1000")
        await storage.add_grant(grant(200))
        assert await storage.grant("200") == grant(200)
