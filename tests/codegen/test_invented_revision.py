"""A revision that nobody has heard of needs its schema and one command, and not one line of hand-written code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.checkers import mypy, pyright
from support.project import ROOT
from support.schemas.invented import message, record

from mcp_codegen.cli.main import main

pytestmark = pytest.mark.long

CONVERSATION = """
import asyncio
from future.v2099_01_01 import Client, Context, Server
from future.v2099_01_01 import types as t
from mcp_runtime.client.core import ClientContext


class Notes(Server):
    async def search_notes(self, ctx: Context, params: t.SearchNotesRequestParams) -> t.SearchNotesResult:
        await ctx.notify_notes_changed(titles=["new"])
        return t.SearchNotesResult(notes=[t.NoteContent(title=params.text), t.TextContent(text="plain")])


class Reader(Client):
    heard: list[str] = []

    async def on_notes_changed(self, ctx: ClientContext, params: t.NotesChangedNotificationParams) -> None:
        self.heard.extend(params.titles)


async def talk() -> None:
    async with Reader.memory(Notes(name="notes", version="1")) as client:
        assert isinstance(client.server, t.InitializeResult)
        assert client.server.protocol_version == "2099-01-01"
        assert client.server.capabilities.notes is not None
        result = await client.search_notes(text="milk")
        note, plain = result.notes
        assert isinstance(note, t.NoteContent) and isinstance(plain, t.TextContent)
        assert note.title == "milk"
        assert client.heard == ["new"]


asyncio.run(talk())
print("talked")
"""

ACROSS = """
import asyncio
from typing import Any
import future
from future import v2026_07_28 as old
from future.v2099_01_01 import Client, Context, Server
from future.v2099_01_01 import types as t
from mcp_products.versions.conversion import ConversionReport
from mcp_runtime.errors import ConversionError
from mcp_products.versions.adapters import server_candidates


class Notes(Server):
    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        return t.CallToolResult(content=[t.TextContent(text=params.name)])


class Older(old.Server):
    async def call_tool(self, ctx: old.Context, params: old.types.CallToolRequestParams) -> old.types.CallToolResult:
        return old.types.CallToolResult(content=[old.types.TextContent(text="old")])


async def talk() -> None:
    async with old.Client.memory(*server_candidates(Notes(name="notes", version="1"))) as client:
        answer = await client.call_tool(name="new")
        assert isinstance(answer, old.types.CallToolResult) and answer.content == [old.types.TextContent(text="new")]
    async with future.connect(Older(name="old", version="1"), client=Client) as newest:
        assert type(newest) is Client
        result = await newest.call_tool(name="x")
        assert isinstance(result, t.CallToolResult) and result.content == [t.TextContent(text="old")]


asyncio.run(talk())

older = future.converter("2099-01-01", "2026-07-28")
newer = future.converter("2026-07-28", "2099-01-01")


def show(converter: Any, content: Any) -> None:
    report = ConversionReport()
    result = converter.result("client_to_server", "tools/call", {"content": content}, report)
    print([block["type"] for block in result["content"]], [(loss.path, loss.rule) for loss in report.losses])


NOTE, KEPT = {"type": "note", "title": "milk"}, {"type": "text", "text": "kept"}
show(older, [NOTE, KEPT])
show(newer, [KEPT])
try:  # A request without one of its items would be another request.
    used: Any = {"type": "tool_result", "toolUseId": "1", "content": [NOTE, KEPT]}
    asked = {"messages": [{"role": "user", "content": [used]}], "maxTokens": 5}
    older.params("server_to_client", "sampling/createMessage", asked, ConversionReport())
except ConversionError as refused:
    print(refused)
"""


@pytest.fixture(scope="module")
def future(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package `future` that holds the bindings of 2099-01-01, and a conversation."""
    root = tmp_path_factory.mktemp("future")
    shutil.copytree(ROOT / "schema", root / "schema")
    newest = root / "schema" / "2099-01-01"
    shutil.copytree(root / "schema" / "2025-11-25", newest)
    pins = (newest / "pins.toml").read_text().replace('follows = "2025-06-18"', 'follows = "2026-07-28"')
    (newest / "pins.toml").write_text(pins.replace('revision = "2025-11-25"', 'revision = "2099-01-01"'))
    schema = json.loads((newest / "schema.json").read_text())
    types = schema["$defs"]
    types["NoteContent"] = record(
        {"type": {"type": "string", "const": "note"}, "title": {"type": "string"}}, "type", "title"
    )
    types["ContentBlock"]["anyOf"].append({"$ref": "#/$defs/NoteContent"})
    types["ServerCapabilities"]["properties"]["notes"] = record({"changed": {"type": "boolean"}})
    search = record({"text": {"type": "string"}}, "text")
    types["SearchNotesRequest"] = message("notes/search", search) | {"x-extends": []}
    notes = {"type": "array", "items": {"$ref": "#/$defs/ContentBlock"}}
    types["SearchNotesResult"] = record({"notes": notes}, "notes")
    titles = record({"titles": {"type": "array", "items": {"type": "string"}}}, "titles")
    types["NotesChangedNotification"] = message("notifications/notes", titles)
    types["ClientRequest"]["anyOf"].append({"$ref": "#/$defs/SearchNotesRequest"})
    types["ServerNotification"]["anyOf"].append({"$ref": "#/$defs/NotesChangedNotification"})
    (newest / "schema.json").write_text(json.dumps(schema))
    options = [
        "--revision",
        "2026-07-28",
        "--revision",
        "2099-01-01",
        "--schema",
        str(root / "schema"),
        "--output",
        str(root / "future"),
    ]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.output
    (root / "conversation.py").write_text(CONVERSATION)
    (root / "across.py").write_text(ACROSS)
    return root


@pytest.mark.long
def test_the_old_revisions_still_generate_beside_it(future: Path) -> None:
    result = CliRunner().invoke(main, ["list", "--schema", str(future / "schema")])
    assert (
        result.exit_code == 0
        and "2099-01-01  handshake               18                8             15" in result.output
    )


def test_its_table_has_the_new_rows_with_their_capability(future: Path) -> None:
    text = (future / "future" / "v2099_01_01" / "methods.py").read_text()
    [row] = [line for line in text.splitlines() if '"notes/search"' in line]
    assert "t.SearchNotesResult" in row and 'capability="server.notes"' in row


@pytest.mark.exhaustive
@pytest.mark.parametrize("check", [mypy, pyright])
def test_it_passes_the_type_checkers(future: Path, check: object) -> None:
    assert callable(check)
    assert check(future, "future", "conversation.py", "across.py") == []


def test_it_holds_a_conversation(future: Path) -> None:
    assert run(future, "conversation.py") == "talked\n"


def test_its_messages_become_those_of_its_neighbour_and_back(future: Path) -> None:
    output = run(future, "across.py")
    left_out, back, refused = output.splitlines()
    assert left_out == "['text'] [('content.0', 'refuse NoteContent')]", "an item of a list of a result costs itself"
    assert back == "['text'] []"
    assert refused == (
        "2099-01-01 → 2026-07-28: messages.0.content.0.content.0: refuse NoteContent: "
        "2026-07-28 has no NoteContent and no substitute for it."
    )


def run(future: Path, script: str) -> str:
    """What a script prints that has the package beside it."""
    path = os.pathsep.join([str(future), str(ROOT / "runtime"), str(ROOT / "products")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, script], cwd=future, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
