"""The file of an authorization server: only its owner reads it, and nobody can put another in its place."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from mcp_generated import LocalError
from mcp_generated.auth import SQLiteStorage

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
