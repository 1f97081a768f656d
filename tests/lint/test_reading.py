"""A server is read as it is: over stdio and HTTP, with its noise, its faults and its end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lint.incidents import tool

from mcp_products.lint import Snapshot, lint
from mcp_products.lint.reading import read_server
from mcp_products.lint.table import protocol

WIRE = Path(__file__).with_name("wire.py")
INFO = {"name": "shop", "version": "1.0.0"}
OPENED = {
    "protocolVersion": "2025-11-25",
    "serverInfo": INFO,
    "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
    "instructions": "Find things.",
}
LISTS = {
    "tools/list": {"tools": [tool("search"), tool("meta.index")]},
    "prompts/list": {"prompts": [{"name": "greet", "description": "Greet."}]},
    "resources/list": {"resources": [{"uri": "notes://1", "name": "one", "description": "One."}]},
    "resources/templates/list": {"resourceTemplates": []},
}


def write(folder: Path, results: dict[str, Any] | None = None, **script: Any) -> Path:
    file = folder / "script.json"
    file.write_text(json.dumps({"results": {"initialize": OPENED, **LISTS, **(results or {})}, **script}))
    return file


def read(snapshot: Snapshot, **settings: Any) -> Snapshot:
    read_server(snapshot, **{"env": {}, "cwd": None, "headers": {}, "timeout": 30.0, **settings})
    return snapshot


def over_stdio(file: Path, **settings: Any) -> Snapshot:
    return read(Snapshot(command=[sys.executable, str(WIRE), str(file)]), **settings)


@contextmanager
def over_http(file: Path) -> Iterator[str]:
    port = file.with_suffix(".port")
    with subprocess.Popen([sys.executable, str(WIRE), str(file), str(port)]) as process:
        try:
            deadline = time.monotonic() + 30
            while not (port.is_file() and port.read_text()):
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port.read_text()}/mcp"
        finally:
            process.kill()


def assert_is_read(snapshot: Snapshot) -> None:
    assert snapshot.broken == ""
    assert [item["name"] for item in snapshot.tools] == ["search", "meta.index"]
    assert [item["name"] for item in snapshot.prompts] == ["greet"]
    assert [item["uri"] for item in snapshot.resources] == ["notes://1"]
    assert (snapshot.info, snapshot.instructions, snapshot.failed) == (INFO, "Find things.", {})


def test_everything_is_read_over_stdio(tmp_path: Path) -> None:
    snapshot = over_stdio(write(tmp_path))
    assert_is_read(snapshot)
    assert (snapshot.ended, snapshot.noise, snapshot.revision) == (True, [], "2025-11-25")
    assert snapshot.start is not None and snapshot.start > 0
    assert "name-characters" in {finding.rule.name for finding in lint(snapshot)}


@pytest.mark.parametrize("events", [True, False], ids=["events", "json"])
def test_everything_is_read_over_http(tmp_path: Path, events: bool) -> None:
    with over_http(write(tmp_path, events=events)) as url:
        assert_is_read(read(Snapshot(url=url)))


def test_a_token_is_sent_and_its_absence_is_named(tmp_path: Path) -> None:
    with over_http(write(tmp_path, token="Bearer x")) as url:
        assert_is_read(read(Snapshot(url=url), headers={"Authorization": "Bearer x"}))
        assert read(Snapshot(url=url)).broken == "HTTP 401; pass --header for a token"


def test_pages_are_read_to_the_last(tmp_path: Path) -> None:
    pages = [{"tools": [tool(f"find_{number}")]} for number in range(3)]
    assert len(over_stdio(write(tmp_path, {"tools/list": pages})).tools) == 3


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_server_without_a_handshake_is_discovered(tmp_path: Path, transport: str) -> None:
    found = {"capabilities": {"tools": {}}, "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
    file = write(tmp_path, {"initialize": None, "server/discover": found})
    if transport == "stdio":
        snapshot = over_stdio(file)
    else:
        with over_http(file) as url:
            snapshot = read(Snapshot(url=url))
    assert (snapshot.broken, snapshot.revision, snapshot.info, len(snapshot.tools)) == (
        "",
        protocol().stateless,
        INFO,
        2,
    )


def test_noise_is_kept_and_is_no_end(tmp_path: Path) -> None:
    snapshot = over_stdio(write(tmp_path, noise=["Loading shop", "{}", "[1]"], asks=True))
    assert_is_read(snapshot)
    assert [line.strip() for line in snapshot.noise] == ["Loading shop", "{}", "[1]"]
    (finding,) = [row for row in lint(snapshot) if row.rule.name == "stdout-noise"]
    assert "Loading shop" in finding.message and finding.hosts >= {"claude-desktop"}


def test_what_does_not_start_says_its_last_words(tmp_path: Path) -> None:
    file = write(tmp_path, dies="ModuleNotFoundError: No module named 'shop'")
    assert over_stdio(file).broken.endswith("ModuleNotFoundError: No module named 'shop'")
    assert read(Snapshot(command=["/nowhere/at/all"])).broken.startswith("/nowhere/at/all: ")
    (finding,) = [row for row in lint(over_stdio(file)) if row.level == "error"]
    assert finding.rule.name == "start-failed"


def test_a_server_that_does_not_answer_is_left_in_time(tmp_path: Path) -> None:
    snapshot = read(Snapshot(command=[sys.executable, "-c", "import sys; sys.stdin.read()"]), timeout=0.2)
    assert snapshot.broken == "no answer to initialize in time"


def test_a_process_that_remains_is_reported_and_ended(tmp_path: Path) -> None:
    snapshot = over_stdio(write(tmp_path, stays=True), grace=0.2)
    assert snapshot.ended is False
    assert "shutdown" in {finding.rule.name for finding in lint(snapshot)}


def test_a_list_that_fails_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    snapshot = over_stdio(write(tmp_path, {"prompts/list": None, "resources/templates/list": None}))
    assert snapshot.failed == {"prompts": "no prompts/list (-32601)"}  # Templates need no handler of their own.
    assert len(snapshot.tools) == 2


@pytest.mark.parametrize("wrong", ["", None], ids=["an empty cursor", "null"])
def test_an_empty_cursor_is_one_and_null_is_none(tmp_path: Path, wrong: str | None) -> None:
    page = {"tools": [tool("search")], "nextCursor": wrong}
    snapshot = over_stdio(write(tmp_path, {"tools/list": page}))
    assert ("repeats the cursor ''" in snapshot.failed.get("tools", "")) == (wrong is not None)
    assert {item["name"] for item in snapshot.tools} == {"search"}


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_list_whose_cursors_come_again_is_a_list_that_fails(tmp_path: Path, transport: str) -> None:
    file = write(tmp_path, {"tools/list": [{"tools": []}, {"tools": [tool("search")]}]}, cycle=True)
    if transport == "stdio":
        snapshot = over_stdio(file)
    else:
        with over_http(file) as url:
            snapshot = read(Snapshot(url=url))
    assert "repeats the cursor '1'" in snapshot.failed["tools"]
    assert len(snapshot.prompts) == 1


def test_a_stream_that_only_says_that_it_is_alive_is_left_in_time(tmp_path: Path) -> None:
    with over_http(write(tmp_path, events=True, endless="tools/list")) as url:
        assert read(Snapshot(url=url), timeout=0.5).broken == "no answer in time"


def test_a_redirect_is_named_and_gets_no_token(tmp_path: Path) -> None:
    with over_http(write(tmp_path, moved="http://127.0.0.1:9/elsewhere")) as url:
        snapshot = read(Snapshot(url=url), headers={"Authorization": "Bearer secret"})
    assert snapshot.broken == "HTTP 307: it has moved to http://127.0.0.1:9/elsewhere; pass that address"


def test_tools_are_called_only_if_asked_and_if_they_only_read(tmp_path: Path) -> None:
    item = tool("count", {})
    writing = {**tool("clear", {}), "annotations": {"readOnlyHint": False}}
    needing = {**tool("find"), "inputSchema": {**tool()["inputSchema"], "required": ["text"]}}
    result = {"content": [{"type": "text", "text": "3"}]}
    called = {"tools/list": {"tools": [item, writing, needing]}, "tools/call": {"count": result}}
    file = write(tmp_path, called)
    assert over_stdio(file).calls == {}
    assert over_stdio(file, call=True).calls == {"count": result}
