"""What `store=` takes, and how it is refused where it is written."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from mcp_products.workers.stores import urls as store_urls
from mcp_products.workers.stores.urls import open_store
from mcp_runtime.errors import LocalError


def test_memory_is_what_a_process_has_itself() -> None:
    assert open_store("asgi", "memory") is None


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("", '"memory", "sqlite:///path" or "redis://host"'),
        ("mongodb://user:secret@host", "'mongodb' is unknown"),
        ("sqlite://", 'write store="sqlite:///folder/store.db"'),
        ("sqlite:///", 'write store="sqlite:///folder/store.db"'),
        ("sqlite:///no/folder/store.db", "/no/folder'; create it"),
        pytest.param(
            "sqlite:///tmp/store.db",
            'create it; or write store="sqlite:////tmp/store.db": a path from the root has four slashes',
            marks=pytest.mark.skipif(not Path("/tmp").is_dir(), reason="there is no /tmp"),
        ),
        ("sqlite://file.db", 'write store="sqlite:///folder/store.db"'),
        ("redis://", "'redis' is unknown"),
        ("valkey://secret@host", 'write store="redis://…"'),
        ("redis://:secret@host?x=1", "it has no option 'x'; remove it"),
        ("redis://:secret@host/0?cluster=true", "it has no option 'cluster'; remove it"),
        ("redis://host?ssl_cert_reqs=none", "it has no option 'ssl_cert_reqs'; remove it"),
        ("rediss://:secret@host?ssl_cert_reqs=bad", "Invalid SSL Certificate Requirements Flag"),
        ("unix:///folder/socket?db=1&x=1", "it has no option 'x'; remove it"),
        ("redis://host?protocol=5", "protocol must be either 2 or 3"),
        ("redis://host?decode_responses=true", "has decode_responses"),
        ("redis://:secret@host/first", "names a database that is not a number; write redis://host/0"),
        ("redis://:secret/word@host", "its port is not a number; in a password, write / as %2F"),
        ("redis+cluster://", "'redis+cluster' is unknown"),
        ("redis+cluster://:secret@a,b:x", "its port is not a number"),
        ("redis+cluster://:secret@a/3", "must be 0"),
        ("redis+cluster://:secret@a/0?colour=red", "it has no option 'colour'; remove it"),
        ("Memory", "'Memory' is unknown"),
        (7, "or a Store; 7 is not"),
        (object, "or a Store"),
    ],
)
def test_anything_else_is_refused_with_what_to_write(store: object, expected: str) -> None:
    with pytest.raises(LocalError) as caught:
        open_store("asgi", store)
    assert expected in str(caught.value) and str(caught.value).startswith("asgi(): ")
    assert "secret" not in str(caught.value)


def test_a_redis_without_its_package_is_refused_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_urls, "find_spec", lambda name: None)
    with pytest.raises(LocalError, match=r"run\(\): .*pip install 'mcp-generated\[redis\]'"):
        open_store("run", "redis://localhost")


async def test_a_file_is_created_for_its_owner_only(tmp_path: Path) -> None:
    store = open_store("asgi", f"sqlite:///{tmp_path}/store.db")
    assert store is not None and not list(tmp_path.iterdir()), "it was opened before its first command"
    await store.put("a", b"1", 60)
    await store.close()
    if sys.platform != "win32":
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


async def test_another_file_is_not_changed(tmp_path: Path) -> None:
    import sqlite3

    file = sqlite3.connect(tmp_path / "other.db")
    file.execute("CREATE TABLE mine (a)")
    file.commit()
    file.close()
    store = open_store("asgi", f"sqlite:///{tmp_path}/other.db")
    assert store is not None
    with pytest.raises(LocalError, match="is not a store of this version"):
        await store.get("a")
    await store.close()
