"""A library is a guest: it leaves the garbage collector of its user's process as it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

WATCH = """
import gc
calls = []
gc.disable = lambda: calls.append("disable")
gc.freeze = lambda: calls.append("freeze")
gc.set_threshold = lambda *_: calls.append("set_threshold")
"""
PROGRAMS = {
    "an app": """
from mcp_generated import App
app = App("guest")
app.tool(lambda text: text, name="echo")
app.run("stdio")
""",
    "a server": """
from mcp_generated import v2025_11_25
v2025_11_25.Server(name="guest", version="1.0").run("stdio")
""",
    "a client": """
from mcp_generated import connect
from mcp_generated.v2025_11_25 import Client, SyncClient
""",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_start_leaves_the_garbage_collector_as_it_is(program: str) -> None:
    code = f"{WATCH}{PROGRAMS[program]}\nimport sys\nprint(calls, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "[]\n")
