"""Folders that a client tells as its roots: the server hears when they change, or finds out when it asks again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, Tap, among, clause, client_of, server_of

from mcp_products.host.tools import FileRoots
from mcp_runtime.errors import LocalError

WATCHED = clause(*(f"{rev}/roots/{number}" for rev in ("2024-11-05", "2025-03-26", "draft") for number in ("09", "16")))
SOON = 0.01  # Seconds between two looks.
TIMEOUT = 30.0  # Seconds until a test gives up.


class RootsWatcher:
    """A server that asks for the roots whenever it is told that they have changed, and when its tool is called."""

    def __init__(self, rev: Rev) -> None:
        self._seen: asyncio.Queue[list[str]] = asyncio.Queue()

        async def listed(ctx: Any) -> list[str]:
            return [root.name for root in (await ctx.list_roots()).roots]

        async def on_roots_list_changed(ctx: Any, params: Any) -> None:
            self._seen.put_nowait(await listed(ctx))

        async def call_tool(ctx: Any, params: Any) -> Any:
            return rev.text(" ".join(await listed(ctx)))

        handlers = {} if rev.stateless else {"on_roots_list_changed": on_roots_list_changed}
        self.server = server_of(rev, call_tool=call_tool, **handlers)

    async def until(self, *names: str) -> None:
        """Wait until these are the roots the server knows."""
        async with asyncio.timeout(TIMEOUT):
            while await self._seen.get() != [*names]:
                pass


@WATCHED
@among(HANDSHAKE)
async def test_a_server_is_told_when_a_folder_comes_is_renamed_and_goes(rev: Rev, tmp_path: Path) -> None:
    watcher, one, two = RootsWatcher(rev), tmp_path / "one", tmp_path / "two"
    one.mkdir()
    async with client_of(rev, watcher.server, roots=FileRoots(one, two, poll_interval=SOON)):
        two.mkdir()
        await watcher.until("one", "two")
        one.rename(tmp_path / "other")
        await watcher.until("two")
        (tmp_path / "other").rename(one)
        await watcher.until("one", "two")
        two.rmdir()
        await watcher.until("one")


@WATCHED
@among(HANDSHAKE)
async def test_a_server_is_told_when_a_link_leads_elsewhere_or_to_itself(rev: Rev, tmp_path: Path) -> None:
    watcher, link = RootsWatcher(rev), tmp_path / "current"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link.symlink_to(tmp_path / "one")
    async with client_of(rev, watcher.server, roots=FileRoots(link, poll_interval=SOON)):
        link.unlink()
        link.symlink_to(tmp_path / "two")
        await watcher.until("two")
        link.unlink()
        link.symlink_to(link)
        await watcher.until()


@WATCHED
@among(HANDSHAKE)
async def test_a_server_is_told_when_a_folder_can_no_longer_be_read(rev: Rev, tmp_path: Path) -> None:
    watcher, folder = RootsWatcher(rev), tmp_path / "folder"
    folder.mkdir()
    async with client_of(rev, watcher.server, roots=FileRoots(folder, poll_interval=SOON)):
        folder.chmod(0)
        if os.access(folder, os.R_OK):
            pytest.skip("whoever runs this may read everything")
        await watcher.until()
        folder.chmod(0o700)
        await watcher.until("folder")


@WATCHED
@among(STATELESS)
async def test_without_news_of_changes_each_question_is_answered_anew(rev: Rev, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    folders = FileRoots(one)
    async with client_of(rev, RootsWatcher(rev).server, roots=folders) as client:

        async def listed() -> str:
            text: str = (await client.call_tool(name="x")).content[0].text
            return text

        assert await listed() == "one"
        two.mkdir()
        folders.paths.append(str(two))
        assert await listed() == "one two"
        one.rmdir()
        assert await listed() == "two"


@WATCHED
@among(HANDSHAKE)
async def test_a_client_of_the_newest_revision_tells_servers_of_older_ones(rev: Rev, tmp_path: Path) -> None:
    watcher, folder = RootsWatcher(rev), tmp_path / "folder"
    newest = ALL_REVISIONS[-1].package.Client
    async with newest.memory(watcher.server, revisions="all", roots=FileRoots(folder, poll_interval=SOON)) as client:
        folder.mkdir()
        await watcher.until("folder")
        assert (await client.call_tool(name="x")).content[0].text == "folder"


@among(ALL_REVISIONS)
async def test_what_is_declared_is_what_the_revision_has_and_nothing_looks_on_after_the_end(
    rev: Rev, tmp_path: Path
) -> None:
    tap = Tap(RootsWatcher(rev).server)
    async with client_of(rev, tap, roots=FileRoots(tmp_path, poll_interval=SOON)) as client:
        assert (await client.call_tool(name="x")).content[0].text == tmp_path.name
        assert client.capabilities == {"roots": {} if rev.stateless else {"listChanged": True}}
    assert not [task for task in asyncio.all_tasks() if "Folders.watch" in repr(task.get_coro())]
    assert "notifications/roots/list_changed" not in {message.get("method") for message in tap.sent}


def test_folders_that_cannot_be_watched_are_refused(tmp_path: Path) -> None:
    async def on_list_roots(ctx: Any, params: Any) -> Any:
        raise AssertionError("nobody asks")

    with pytest.raises(LocalError, match="poll_interval of roots is more than 0 seconds, not 0"):
        FileRoots(tmp_path, poll_interval=0)
    with pytest.raises(LocalError, match="lists its roots in on_list_roots"):
        client_of(ALL_REVISIONS[0], lambda: None, on_list_roots=on_list_roots, roots=FileRoots(tmp_path))
