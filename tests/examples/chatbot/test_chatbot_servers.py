"""The chatbot with servers of every kind: of all protocol versions, with changing tools, with tools that act."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from client import run
from model import Reply, Result, Results
from servers import Launch
from support.chatbot import ECHO, Scripted, calls, chat, converse, launch, within_deadline
from support.matrices import long_after
from support.peers import example_served

# A server of one version, whose tools note in a file that they ran; the names of the tools are their hints.
NOTING = """
import importlib, pathlib, sys
package = importlib.import_module(f"mcp_generated.{sys.argv[1]}")
t, notes = package.types, pathlib.Path(sys.argv[2])
HINTS = {
    "bare": None,
    "empty": {},
    "reads": {"readOnlyHint": True},
    "adds": {"readOnlyHint": False, "destructiveHint": False},
    "idempotent": {"idempotentHint": True},
}

class Noting(package.Server):
    async def list_tools(self, ctx, params):
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in HINTS]
        for tool in tools:
            if HINTS[tool["name"]] is not None and "2024" not in sys.argv[1]:
                tool["annotations"] = HINTS[tool["name"]]
        return t.ListToolsResult(tools=[t.Tool.model_validate(tool) for tool in tools])

    async def call_tool(self, ctx, params):
        notes.open("a").write(params.name + " ")
        return t.CallToolResult(content=[t.TextContent(text="done")])

Noting(name="noting", version="1").run("stdio", revisions=[package.methods.REVISION.id])
"""

# A server whose tool adds another tool.
GROWING = """
import sys
from mcp_generated import App
app = App("growing")

@app.tool(annotations={"readOnlyHint": True})
def grow() -> str:
    @app.tool(annotations={"readOnlyHint": True})
    def grown() -> str:
        return "I am new."
    return "grew"

app.run("stdio", revisions=[sys.argv[1]])
"""


@pytest.mark.parametrize("package", long_after(1, ["v2024_11_05", "v2026_07_28", "v2025_03_26", "v2025_11_25"]))
def test_only_tools_that_declare_that_they_read_run_without_a_question(package: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    has_hints = package != "v2024_11_05"  # The oldest version has none: its tools may do anything.
    names = ["bare", "empty", "reads", "adds", "idempotent"]
    replies = {"bare": "no", "empty": "y", "reads": "n", "adds": "yes", "idempotent": "maybe"}
    model = Scripted(calls(*((name, {}) for name in names)), Reply("Done."))
    server = launch([sys.executable, "-c", NOTING, package, str(notes)], "it")
    typed = [replies[name] for name in names if name != "reads" or not has_hints]
    _, output = chat([server], model, "do it", *typed)
    questions = [line for line in output if line.endswith("[y/N]")]
    assert [line.split(" of it ")[0] for line in questions] == [
        name for name in names if name != "reads" or not has_hints
    ]
    adding = [line.split(" of it ")[0] for line in questions if "adds things" in line]
    assert adding == ["adds"] * has_hints
    assert set(notes.read_text().split()) == {"empty", "adds", *["reads"] * has_hints}
    results = model.conversations[-1][-1]
    assert isinstance(results, Results)
    assert results.results[0] == Result("c0", "The user did not allow this call.", failed=True)
    assert [result.text == "done" for result in results.results] == [False, True, has_hints, True, False]


@pytest.mark.long
def test_the_end_of_the_input_allows_nothing(tmp_path: Path) -> None:
    model = Scripted(calls(("bare", {})), Reply("Done."))
    server = launch([sys.executable, "-c", NOTING, "v2024_11_05", str(tmp_path / "notes")])
    assert chat([server], model, "do it")[1][-1] == "Done."
    assert not (tmp_path / "notes").exists()


@pytest.mark.long
@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_a_tool_that_a_server_adds_is_there_for_the_next_question(version: str) -> None:
    output: list[str] = []

    async def lines() -> AsyncIterator[str]:
        for typed in ("grow", "y") if version == "2024-11-05" else ("grow",):  # Tools of this version have no hints.
            yield typed
        while not any("the tools have changed: grow, grown" in line for line in output):
            await asyncio.sleep(0)
        for typed in ("call it", "y") if version == "2024-11-05" else ("call it",):
            yield typed

    model = Scripted(calls(("grow", {})), Reply("Grown."), calls(("grown", {})), Reply("Done."))

    async def conversation() -> None:
        server = launch([sys.executable, "-c", GROWING, version], "it")
        assert await run([server], model, lines(), output.append) == 0

    within_deadline(conversation())
    assert model.conversations[-1][-1] == Results((Result("c0", "I am new."),))
    assert [tool.name for tool in model.tools] == ["grow", "grown"]


@pytest.mark.long
def test_a_url_is_a_server_too() -> None:
    with example_served("echo") as url:
        model = Scripted(calls(("echo", {"text": "over HTTP"})), Reply("Done."))
        code, output = chat([Launch({"url": f"{url}/mcp"}), launch(["/no/such/program"])], model, "hello", "y")
    assert code == 0 and "/no/such/program" in output[0]
    assert model.conversations[-1][-1] == Results((Result("c0", "over HTTP"),))


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the stand-in for java is a shell script")
def test_a_jar_runs_in_java(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(f'#!/bin/sh\n[ "$1 $2" = "-jar server.jar" ] && exec {sys.executable} {ECHO[1]} stdio\n')
    java.chmod(0o755)
    done = converse("server.jar", typed="quit\n", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.stdout.splitlines()[1].startswith("Tools: echo"), done.stdout + done.stderr
