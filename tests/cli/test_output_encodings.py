"""What a server says is written whatever the encoding of the output is: a pipe of Windows has a code page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SERVER = """
from mcp_generated import App
app = App("encodings")

@app.tool
def show(text: str) -> str:
    "Show é 日本 →."
    return text

app.run("stdio")
"""


def run(words: list[str], folder: Path, encoding: str | None) -> bytes:
    """Return the output of a command. Raises AssertionError if it fails."""
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHONIO")}
    env |= {"PYTHONIOENCODING": encoding} if encoding else {}
    command = [sys.executable, "-m", "mcp_codegen", *words]
    done = subprocess.run(command, capture_output=True, env=env, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout


SHOWN = {  # Not ASCII: click takes that for an environment without a locale, and writes UTF-8.
    "cp1252": b"\xe9 \\u65e5\\u672c \\u2192",
    None: "é 日本 →".encode(),
}


@pytest.mark.long
@pytest.mark.parametrize("words", [["call", "server.py", "show", "text=é 日本 →"], ["inspect", "server.py"]])
@pytest.mark.parametrize("encoding", SHOWN)
def test_a_character_that_the_output_lacks_is_escaped(words: list[str], encoding: str | None, tmp_path: Path) -> None:
    assert SHOWN[encoding] in run(words, tmp_path, encoding)
