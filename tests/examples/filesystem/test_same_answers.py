"""The filesystem example gives the same answers as the server that it is modelled on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.peers import node_peer
from support.servers.filesystem import SERVER, fill

from mcp_generated.v2025_11_25 import Client

ORIGINAL = "@modelcontextprotocol/server-filesystem@2026.8.31"

Call = tuple[str, dict[str, Any]]
Answer = tuple[Any, Any, bool]


def reading(at: str) -> list[Call]:
    paths = ["a.txt", "B.md", "crlf.txt", "empty.txt", "ünï cödé.txt", "binary", "sub", "none", "none/x", "a.txt/x"]
    paths += ["to a file", "link/c.txt", "out/secret", "../outside/secret", "out", "dangling", "sub/../a.txt", "./B.md"]
    names = [f"{at}/{path}" for path in paths] + ["a.txt", "sub/c.txt", "none", "/", "~", "C:\\x", "C:/x", ""]
    calls: list[Call] = [("read_text_file", {"path": name}) for name in names]
    for path in ("a.txt", "long.txt", "crlf.txt", "empty.txt", "B.md", "ünï cödé.txt"):
        for count in (0, 1, 2, 5, 399, 1000):
            calls += [("read_text_file", {"path": f"{at}/{path}", side: count}) for side in ("head", "tail")]
    calls += [("read_file", {"path": f"{at}/a.txt", "head": 1, "tail": 1}), ("read_file", {"path": f"{at}/a.txt"})]
    calls += [
        ("read_media_file", {"path": f"{at}/{path}"}) for path in ("pixel.PNG", "tone.wav", "ünï cödé.txt", "sub")
    ]
    calls += [("read_multiple_files", {"paths": [f"{at}/a.txt", f"{at}/none", "/etc/passwd"]})]
    calls += [("read_multiple_files", {"paths": []}), ("read_text_file", {})]
    calls += [("get_file_info", {"path": f"{at}/{path}"}) for path in ("a.txt", "to a file", "empty", "none", "../x")]
    return [*calls, ("list_allowed_directories", {})]


def listing(at: str) -> list[Call]:
    calls: list[Call] = []
    for path in ("", "/sub", "/link", "/empty", "/a.txt", "/none", "/out", "/.."):
        calls += [(tool, {"path": at + path}) for tool in ("list_directory", "directory_tree")]
    calls += [
        ("list_directory_with_sizes", {"path": f"{at}/sub", "sortBy": order}) for order in ("name", "size", "age")
    ]
    patterns = [
        "*",
        "**",
        "**/*",
        "*.txt",
        "**/*.txt",
        "**/*.{txt,js}",
        "sub/**",
        "sub",
        "**/[a-c]*",
        "**/[!a-c]*",
        "?.*",
    ]
    patterns += [
        "**/*.TXT",
        "!*.txt",
        "#a",
        "",
        "sub/*/d*",
        "**/deep/**",
        "@(a|B).*",
        "!(a).txt",
        "*(sub|a.txt)",
        "sub/\\[x\\].txt",
    ]
    patterns += [
        "**/node_modules/**",
        "{a..c}*",
        "{1..3}",
        "{a}*",
        "l+(i|n)*",
        "sub/[[]x].txt",
        "a.txt/**",
        "**/**/c.txt",
        "[z",
    ]
    calls += [("search_files", {"path": at, "pattern": pattern}) for pattern in patterns]
    excluded = [["sub"], ["**/deep"], ["*.txt"], ["node_modules"], ["deep/**"], ["**/*.txt", ".*"], ["a.txt", "out"]]
    calls += [("search_files", {"path": at, "pattern": "**/*", "excludePatterns": one}) for one in excluded]
    calls += [("directory_tree", {"path": at, "excludePatterns": one}) for one in excluded]
    return calls


def writing(at: str) -> list[Call]:
    def edit(name: str, *replacements: tuple[str, str], **others: Any) -> Call:
        edits = [{"oldText": old, "newText": new} for old, new in replacements]
        return "edit_file", {"path": f"{at}/{name}", "edits": edits, **others}

    calls: list[Call] = [
        edit("a.txt", ("two", "2"), dryRun=True),
        edit("a.txt", ("two", "2"), ("five\n", "5")),
        edit("a.txt", ("none of it", "x")),
        edit("a.txt"),
        edit("crlf.txt", ("b\r\nc", "B\r\nC\r\n")),
        edit("_x.py", ("if x:\n    return 1", "if y:\n        return 3\n    else:\n  pass")),
        edit("ünï cödé.txt", ("mehr", "$& weniger")),
        edit("long.txt", *((f"line {number}\n", "x\n") for number in (3, 11, 20, 50, 399))),
        edit("long.txt", ("line 100\n", "line 100\nnew\n"), ("line 200\n", "")),
        edit("empty.txt", ("", "text")),
        edit("B.md", ("no", "a\nb")),
        edit("sub", ("a", "b")),
        edit("none", ("a", "b")),
        edit("to a file", ("one", "1")),
        edit("out/secret", ("h", "x")),
    ]
    return calls + _creating(at)


def _creating(at: str) -> list[Call]:
    calls: list[Call] = []
    for name in (
        "new.txt",
        "B.md",
        "to a file",
        "sub/new",
        "none/new",
        "out/new",
        "out/secret",
        "../new",
        "dangling",
        "a.txt/x",
    ):
        calls.append(("write_file", {"path": f"{at}/{name}", "content": "wrïtten\n"}))
    for name in ("made", "made/in/it", "made", "a.txt", "a.txt/x", "out/made", "../made", "link/made", ""):
        calls.append(("create_directory", {"path": f"{at}/{name}"}))
    moves = [("new.txt", "made/moved.txt"), ("none", "x"), ("a.txt", "B.md"), ("made", "sub/made"), ("sub", "empty")]
    moves += [
        ("a.txt", "none/x"),
        ("out/secret", "s"),
        ("a.txt", "out/a"),
        ("B.md", "../b"),
        ("empty", "full"),
        ("sub", "sub/in"),
    ]
    calls += [("move_file", {"source": f"{at}/{old}", "destination": f"{at}/{new}"}) for old, new in moves]
    return [
        *calls,
        ("directory_tree", {"path": at}),
        *(("read_text_file", {"path": f"{at}/{name}"}) for name in ("a.txt", "_x.py")),
    ]


async def answers(command: Sequence[str], folder: Path, calls: Sequence[Call]) -> list[Answer]:
    fill(folder)
    environment = {"TZ": "UTC", "HOME": "/root"}
    async with Client.stdio(*command, str(folder), env=environment, stderr=lambda line: None) as client:
        results = [(await client.call_tool(name, arguments)).to_dict() for name, arguments in calls]
    return [(result["content"], result.get("structuredContent"), result.get("isError", False)) for result in results]


def comparable(answer: Answer) -> Answer:
    """An answer without what differs by right: the text for wrong arguments, and times that nobody can set."""
    content, structured, is_error = answer
    if is_error and re.search("Invalid arguments|argument", content[0]["text"]):
        return None, None, True
    created = re.compile(r"created: .*?\\n")
    return created.sub("", str(content)), created.sub("", str(structured)), is_error


@pytest.mark.edges("reading", "writing")
@pytest.mark.long
@pytest.mark.parametrize("kind", [reading, listing, writing])
async def test_the_same_calls_have_the_same_answers_as_the_original(kind: Any, tmp_path: Path) -> None:
    folder = tmp_path / "root" / "in side"
    package = node_peer(ORIGINAL) / "node_modules" / "@modelcontextprotocol" / "server-filesystem"
    calls = kind(str(folder))
    ours = await answers(SERVER, folder, calls)
    files = sorted((path, path.read_bytes()) for path in folder.parent.rglob("*") if path.is_file())
    theirs = await answers(["node", str(package / "dist" / "index.js")], folder, calls)
    assert sorted((path, path.read_bytes()) for path in folder.parent.rglob("*") if path.is_file()) == files
    differing = [
        (call, one, other)
        for call, one, other in zip(calls, map(comparable, ours), map(comparable, theirs), strict=True)
        if one != other
    ]
    assert not differing, "\n".join("\n  ".join(map(str, difference)) for difference in differing)
    assert {is_error for _, _, is_error in ours} == {True, False}
