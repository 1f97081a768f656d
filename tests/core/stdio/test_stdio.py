"""Servers as child processes: one message a line, nothing else on their output, and an orderly end."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, clause, client_of, linked_streams, server_of
from support.processes import runs

from mcp_generated import REVISIONS
from mcp_runtime.bindings.server import serve

SERVER = """
import os, sys
from mcp_generated.{package} import Server, types as t

class Echo(Server):
    def call_tool(self, ctx, params):
        print("printed by a tool")
        os.write(1, b"written by a tool\\n")
        text = os.environ.get("TOKEN", "") if params.name == "token" else (params.arguments or {{}})["text"]
        return t.CallToolResult(content=[t.TextContent(text=text)])

Echo(name="echo", version="1").run("stdio")
"""

# Answers the handshake, keeps every line it is given, and notes what makes it end.
SCRIPTED = """
import json, signal, sys, time
kept, notes = open(sys.argv[1], "ab"), open(sys.argv[2], "w")
def note(text):
    print(text, file=notes, flush=True)
def told(number, frame):
    note("SIGTERM")
    if "stubborn" not in sys.argv:
        sys.exit(0)
signal.signal(getattr(signal, "SIGBREAK", signal.SIGTERM), told)  # Windows has Ctrl-Break instead.
for line in sys.stdin.buffer:
    kept.write(line)
    kept.flush()
    message = json.loads(line)
    if "id" in message:
        result = {"protocolVersion": "%s", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        if message["method"] != "initialize":
            result = {"content": []}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
note("end of input")
while "orderly" not in sys.argv:
    time.sleep(0.05)
note("exit")
"""

TEXTS = ["plain", "two\nlines\r\n", "\u2028\u2029\x85", "é 日本語 😀", "\0\x1f\x7f", '"\\']


def echo_client(rev: Rev, **settings: Any) -> Any:
    source = SERVER.format(package=REVISIONS[rev.id])
    return rev.package.Client.stdio(sys.executable, "-c", source, **settings)


@clause("2024-11-05/transports/01", "2025-03-26/transports/02", "draft/transports/02")
@clause("2024-11-05/transports/02", "2025-03-26/transports/03", "draft/transports/03")
@clause("2024-11-05/transports/03", "2025-03-26/transports/04", "draft/transports/04")
@clause("2025-03-26/transports/01", "draft/transports/01")
@among(ALL_REVISIONS)
async def test_any_text_goes_through_and_what_a_tool_prints_does_not(rev: Rev) -> None:
    lines: list[str] = []
    async with echo_client(rev, stderr=lines.append) as client:
        for text in TEXTS:
            result = await client.call_tool(name="echo", arguments={"text": text})
            assert result.content[0].text == text
    assert lines.count("printed by a tool") == lines.count("written by a tool") == len(TEXTS)


@pytest.mark.long
@clause("2025-03-26/basic/15", "draft/basic/14")
@among(HANDSHAKE)
async def test_credentials_reach_the_server_in_its_environment_and_no_others_do(
    rev: Rev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "of somebody else")
    async with echo_client(rev, stderr=lambda line: None) as client:
        assert (await client.call_tool(name="token")).content[0].text == ""
    async with echo_client(rev, env={"TOKEN": "t0k3n"}, stderr=lambda line: None) as client:
        assert (await client.call_tool(name="token")).content[0].text == "t0k3n"


async def scripted(rev: Rev, folder: Path, behaviour: str) -> tuple[list[Any], list[str], int]:
    """The lines that a scripted server was given, what it noted about its end, and its process id."""
    messages_path, notes = folder / "kept", folder / "notes"
    client = rev.package.Client.stdio(
        sys.executable, "-c", SCRIPTED % rev.id, str(messages_path), str(notes), behaviour
    )
    async with client:
        await client.call_tool(name="x", arguments={"text": "".join(TEXTS)})
        pid = client._session.transport._child.pid
    lines = messages_path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    return [json.loads(line) for line in lines], notes.read_text().splitlines(), pid


@clause("2024-11-05/transports/04", "2025-03-26/transports/05", "draft/transports/05")
@clause("2024-11-05/lifecycle/15", "2025-03-26/lifecycle/16", "draft/lifecycle/16")
@among(HANDSHAKE)
async def test_a_server_gets_messages_alone_and_ends_when_its_input_is_closed(rev: Rev, tmp_path: Path) -> None:
    lines, notes, pid = await scripted(rev, tmp_path, "orderly")
    assert [line["method"] for line in lines] == ["initialize", "notifications/initialized", "tools/call"]
    assert all(line["jsonrpc"] == "2.0" for line in lines)
    assert lines[2]["params"]["arguments"] == {"text": "".join(TEXTS)}
    assert notes == ["end of input", "exit"] and not runs(pid)


@clause("2024-11-05/lifecycle/16", "2025-03-26/lifecycle/17", "draft/lifecycle/17")
@among(HANDSHAKE)
async def test_a_server_that_stays_is_told_to_end(rev: Rev, tmp_path: Path) -> None:
    _, notes, pid = await scripted(rev, tmp_path, "lingering")
    assert notes == ["end of input", "SIGTERM"] and not runs(pid)


@clause("2024-11-05/lifecycle/17", "2025-03-26/lifecycle/18", "draft/lifecycle/18", "2024-11-05/lifecycle/21")
@among(HANDSHAKE)
async def test_a_server_that_does_not_listen_is_ended(rev: Rev, tmp_path: Path) -> None:
    _, notes, pid = await scripted(rev, tmp_path, "stubborn")
    assert notes == ["end of input", "SIGTERM"] and not runs(pid)


@clause("2024-11-05/transports/12", "2025-03-26/transports/40", "draft/transports/44")
@among(ALL_REVISIONS)
async def test_a_transport_of_ones_own_carries_the_same_conversation(rev: Rev) -> None:
    """Over a pair of sockets, each message with its length before it."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        return rev.text(params.name)

    ours, theirs = await linked_streams()
    serving = asyncio.create_task(serve([server_of(rev, call_tool=call_tool)], theirs))

    async def connect() -> Any:
        return ours

    async with client_of(rev, connect) as client:
        assert (await client.call_tool(name="é\n")).content[0].text == "é\n"
    await serving
