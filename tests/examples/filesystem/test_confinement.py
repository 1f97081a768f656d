"""The filesystem example stays in its folders, whatever paths say and whoever changes links meanwhile."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.project import ROOT
from support.servers.filesystem import SERVER, fill

from mcp_generated.v2025_11_25 import Client
from mcp_generated.v2025_11_25 import types as t


class Rooted(Client):
    """A client whose roots can be changed."""

    roots: list[str] = []

    async def on_list_roots(self, ctx: Any, params: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri=uri) for uri in self.roots])


async def text_of(client: Any, tool: str, **arguments: Any) -> tuple[str, bool]:
    """The text of a tool's result, and whether it failed."""
    result = await client.call_tool(tool, arguments)
    return result.content[0].text, bool(result.is_error)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "in side"
    fill(folder)
    os.mkfifo(folder / "pipe")
    (folder.parent / "in side too").mkdir()
    return folder


def state_outside(folder: Path) -> list[tuple[str, bytes | None]]:
    """The files beside the folder, with their contents."""
    paths = [path for path in folder.parent.rglob("*") if not path.is_relative_to(folder)]
    return sorted((str(path), path.read_bytes() if path.is_file() else None) for path in paths)


OUTSIDE = (
    "../outside/secret",
    "out/secret",
    "out",
    "sub/../../outside/secret",
    "../in side too/x",
    "../none",
    "..",
    "sub/../..",
)


@pytest.mark.long
async def test_no_path_of_any_tool_leads_out_of_the_folders(folder: Path) -> None:
    before = state_outside(folder)
    outside = ["/", "/etc", *(f"{folder}/{path}" for path in OUTSIDE)]
    async with connect([*SERVER, str(folder)]) as client:
        named = {tool.name: tool.input_schema.to_dict()["properties"] for tool in (await client.list_tools()).tools}
        others = {
            "content": "x",
            "edits": [{"oldText": "hidden", "newText": "x"}],
            "pattern": "**",
            "destination": f"{folder}/y",
        }
        for tool, properties in named.items():
            if not {"path", "source"} & properties.keys():
                continue
            for place in outside:
                arguments = {
                    name: others.get(name, place) for name in properties if name in {*others, "path", "source"}
                }
                text, failed = await text_of(client, tool, **arguments)
                assert failed and "outside allowed directories" in text, (tool, place, text)
                assert "treasure" not in text
        for place in outside:
            text, failed = await text_of(client, "move_file", source=f"{folder}/a.txt", destination=place)
            assert failed and "outside allowed directories" in text, place
        text, _ = await text_of(client, "read_multiple_files", paths=outside)
        assert text.count("Error - Access denied") == len(outside) and "treasure" not in text
        for tool in ("search_files", "directory_tree", "list_directory_with_sizes"):
            text, failed = await text_of(
                client, tool, path=str(folder), **{"pattern": "**"} if tool == "search_files" else {}
            )
            assert not failed and "secret" not in text, tool
        for wrong in (f"{folder}/pipe", f"{folder}/a\0b", f"{folder}/a.txt/x"):
            assert (await text_of(client, "read_text_file", path=wrong))[1], wrong
        assert (await text_of(client, "move_file", source=str(folder), destination=f"{folder}/sub/in"))[1]
    assert state_outside(folder) == before and (folder / "a.txt").exists()


@pytest.mark.long
async def test_the_clients_roots_limit_the_folders_and_may_change(folder: Path) -> None:
    reads = {"path": f"{folder}/a.txt"}
    async with Rooted.stdio(*SERVER, str(folder)) as client:
        for roots, allowed in (
            ([], False),
            ([(folder / "sub").as_uri()], False),
            ([folder.as_uri()], True),
            ([(folder / "a.txt").as_uri()], False),
            (["file:///"], True),
            (["https://example.com/", f"file://elsewhere{folder.as_posix().replace(' ', '%20')}"], False),
        ):
            client.roots = roots
            assert (await text_of(client, "read_file", **reads))[1] is not allowed, roots
        client.roots = ["file:///"]
        assert (await text_of(client, "read_file", path=f"{folder.parent}/outside/secret"))[1]
        client.roots = [(folder / "sub").as_uri()]
        assert await text_of(client, "list_allowed_directories") == (f"Allowed directories:\n{folder}/sub", False)
        assert await text_of(client, "read_file", path="c.txt") == ("c", False)


@pytest.mark.long
async def test_without_folders_of_the_command_line_the_roots_alone_are_allowed(folder: Path) -> None:
    async with Rooted.stdio(*SERVER) as client:
        assert (await text_of(client, "read_file", path=f"{folder}/a.txt"))[1]
        client.roots = [folder.as_uri()]
        assert (await text_of(client, "read_file", path=f"{folder}/B.md")) == ("no line end", False)
        assert (await text_of(client, "read_file", path=f"{folder}/out/secret"))[1]
    async with connect(SERVER) as without:
        assert await text_of(without, "list_allowed_directories") == ("Allowed directories:", False)
        assert (await text_of(without, "read_file", path=f"{folder}/B.md"))[1]


@pytest.mark.long
async def test_a_name_that_is_no_utf_8_can_be_listed(folder: Path) -> None:
    (Path(os.fsdecode(bytes(folder / "sub") + b"/\xff.txt"))).write_text("x", encoding="utf-8")
    async with connect([*SERVER, str(folder)]) as client:
        for tool in ("list_directory", "directory_tree", "list_directory_with_sizes"):
            text, failed = await text_of(client, tool, path=f"{folder}/sub")
            assert not failed and "\ufffd.txt" in text, tool


@pytest.fixture
def operations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "examples" / "filesystem")
    return import_module("file_operations").FileOperations(import_module("folders").Folders([str(folder)]))


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("sub/c.txt", lambda does, path: does.read(path)),
        ("sub/c.txt", lambda does, path: does.tail(path, 1)),
        ("sub/c.txt", lambda does, path: does.info(path)),
        ("sub", lambda does, path: does.entries(path)),
        ("sub/deep", lambda does, path: does.tree(path, [])),
        ("sub/deep", lambda does, path: does.search(path, "**", [])),
        ("sub/new", lambda does, path: does.write(path, "x")),
        ("sub/c.txt", lambda does, path: does.write(path, "x")),
        ("sub/made/in/it", lambda does, path: does.make_folder(path)),
        ("sub/moved", lambda does, path: does.move(str(Path(path).parent.parent / "a.txt"), path)),
        ("sub/c.txt", lambda does, path: does.move(path, str(Path(path).parent.parent / "moved"))),
    ],
)
def test_a_folder_that_becomes_a_link_after_the_check_leads_nowhere(
    folder: Path, operations: Any, name: str, operation: Any
) -> None:
    denied = import_module("folders").AccessDeniedError
    outside = folder.parent / "outside"
    (outside / "deep").mkdir()
    (outside / "c.txt").write_text("hidden treasure")
    before = state_outside(folder)
    real = operations._folders.resolve(f"{folder}/{name}")
    shutil.rmtree(folder / "sub")
    (folder / "sub").symlink_to(outside)
    with pytest.raises(denied):
        operation(operations, real)
    assert state_outside(folder) == before


def test_a_file_that_appears_during_a_move_is_not_replaced(folder: Path, operations: Any, monkeypatch: Any) -> None:
    link = os.link

    def link_late(*arguments: Any, **keywords: Any) -> None:
        (folder / "new").write_text("made meanwhile")
        link(*arguments, **keywords)

    monkeypatch.setattr(os, "link", link_late)
    with pytest.raises(import_module("folders").AccessDeniedError, match="already exists"):
        operations.move(f"{folder}/a.txt", f"{folder}/new")
    assert (folder / "new").read_text() == "made meanwhile" and (folder / "a.txt").exists()
