"""`mcp-generated call` and `inspect`: what a server writes, and the forms that it asks."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest

from mcp_products.tooling.terminal_forms import Form

SERVER = """
import sys
from typing import Literal
from mcp_generated import App, Context
from pydantic import BaseModel, Field
app = App("forms")

class Booking(BaseModel):
    name: str
    guests: int = Field(2, ge=1, le=9)
    window: bool = False
    menu: Literal["meat", "fish"] = "fish"

@app.tool
async def book(ctx: Context) -> str:
    return str(await ctx.elicit("Who \\x1b[31mcomes?", Booking))

@app.tool
async def visit(ctx: Context) -> str:
    return str(await ctx.elicit_url("Log in", "https://example.com/login"))

@app.tool
async def ask(ctx: Context) -> str:
    return (await ctx.sample("hi")).text

@app.tool
async def roots(ctx: Context) -> str:
    return str(await ctx.list_roots())

@app.tool
def fail() -> str:
    raise ValueError("broken \\x1b[31m inside")
"""
COMMAND = (sys.executable, "-m", "mcp_codegen")


@pytest.fixture
def server(tmp_path: Path) -> str:
    path = tmp_path / "forms.py"
    path.write_text(SERVER)
    return str(path)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def at_terminal(*words: str, lines: str) -> tuple[str, int]:
    """What a terminal shows of a command whose user writes these lines, and the exit code."""
    child, terminal = pty.fork()
    if not child:
        os.execv(COMMAND[0], [*COMMAND, *words])
    shown, pending, until = b"", lines.splitlines(keepends=True), time.monotonic() + 120
    try:
        while time.monotonic() < until:
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                break
            if pending and shown.rstrip(b" ").endswith((b":", b"cancels)")):
                os.write(terminal, pending.pop(0).encode())
                shown += b"\n"
        _, status = os.waitpid(child, 0)
    finally:
        os.close(terminal)
    return shown.decode(errors="replace"), os.waitstatus_to_exitcode(status)


@pytest.mark.long
@pytest.mark.parametrize("words", [("call", "{}", "fail"), ("inspect", "{}", "--tool", "fail")])
def test_the_traceback_of_a_server_is_shown_after_a_failure(server: str, words: tuple[str, ...]) -> None:
    done = run(*(word.format(server) for word in words))
    assert done.returncode == 1 and "the tool 'fail' failed" in done.stdout
    assert "ValueError: broken \\x1b[31m inside" in done.stderr and "\x1b" not in done.stderr


@pytest.mark.long
def test_what_a_server_writes_before_it_dies_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "dies.py"
    path.write_text("import sys\nprint('the last words', file=sys.stderr)\nraise KeyError('no database')\n")
    done = run("call", f"{sys.executable} {path}", "any")
    assert done.returncode == 2 and "the last words" in done.stderr and "KeyError: 'no database'" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("book", "which this command shows in a terminal only"),
        ("visit", "which this command shows in a terminal only"),
        ("ask", "this command has no model"),
        ("roots", "asks for the roots of the client, and this command has none"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_the_reason(server: str, tool: str, reason: str) -> None:
    done = run("call", server, tool)
    assert done.returncode and reason in done.stderr


@pytest.mark.long
def test_a_form_is_asked_field_by_field_in_a_terminal(server: str) -> None:
    shown, code = at_terminal("call", server, "book", lines="y\nAda\n12\n3\ny\n1\n")
    assert code == 0, shown
    assert "Who \\x1b[31mcomes?" in shown and "Guests (integer, from 1, to 9) [2]: " in shown
    assert "write a number from 1 to 9" in shown and "1. meat" in shown
    assert "Booking(name='Ada', guests=3, window=True, menu='meat')" in shown


@pytest.mark.long
def test_a_form_can_be_declined_and_the_end_of_the_input_cancels_it(server: str) -> None:
    shown, code = at_terminal("call", server, "book", lines="n\n")
    assert code == 0 and "action='decline'" in shown
    shown, code = at_terminal("call", server, "book", lines="\x04\n")
    assert code == 0 and "action='cancel'" in shown


@pytest.mark.long
def test_an_address_is_shown(server: str) -> None:
    shown, code = at_terminal("call", server, "visit", lines="y\n")
    assert code == 0 and "https://example.com/login" in shown and "action='accept'" in shown


FIELDS = {
    "text": {"type": "string", "minLength": 2, "maxLength": 3, "title": "A text", "description": "two or three"},
    "number": {"type": "number", "minimum": 1},
    "flag": {"type": "boolean", "default": True},
    "one": {"type": "string", "oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]},
    "several": {"type": "array", "items": {"type": "string", "enum": ["x", "y", "z"]}},
    "named": {"type": "string", "enum": ["p", "q"], "enumNames": ["Pea", "Queue"]},
    "left": {"type": "string"},
}
REQUIRED = [name for name in FIELDS if name != "left"]


def filled(lines: str) -> tuple[dict[str, object], str]:
    sink = StringIO()
    schema = {"type": "object", "properties": FIELDS, "required": REQUIRED}
    return Form(StringIO(lines), sink).answer({"message": "fill in", "requestedSchema": schema}), sink.getvalue()


def test_each_kind_of_field_is_read_and_a_wrong_value_is_asked_again() -> None:
    result, shown = filled("\nlonger\nab\nx\n0\n1.5\nmaybe\n\nc\n2\nx, 3\nq\n\n")
    assert result == {
        "action": "accept",
        "content": {"text": "ab", "number": 1.5, "flag": True, "one": "b", "several": ["x", "z"], "named": "q"},
    }
    for reason in ("write 2 to 3 characters", "'x' is not a number", "write a number from 1", "write y or n"):
        assert reason in shown
    assert "'c' is none of the choices" in shown and "2. Queue (q)" in shown and "(string, optional)" in shown


def test_the_end_of_the_input_cancels_the_form() -> None:
    assert filled("y\nab\n")[0] == {"action": "cancel"}
    assert filled("n\n")[0] == {"action": "decline"}
