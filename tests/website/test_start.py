"""The page "Start", followed word for word in an empty environment with the built wheel, down to what a host starts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from support.installation.distributions import built_distributions
from support.peers import clean, driven, python_peer
from support.project import ROOT

pytestmark = pytest.mark.long

PAGE: Final = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
_BLOCK: Final = re.compile(r"^(?:<!-- test: (?P<options>.*?) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_MARK: Final = "-- the end of block"
_LIMIT: Final = 300  # Seconds for the whole page; it installs packages.


def script() -> tuple[str, list[str]]:
    """The page as a script of bash, and the output that it shows below each block of commands, or an empty text."""
    lines = ["set -e"]
    expected: list[str] = []
    above = ""
    for match in _BLOCK.finditer(PAGE):
        if match["kind"] == "python":
            file = re.search(r"file=(\S+)", match["options"])
            assert file is not None, "a reader does not know where to save this block"
            lines.append(f"cat > {file[1]} <<'END-OF-FILE'\n{match['text']}END-OF-FILE")
        elif match["kind"] == "sh":
            lines += [match["text"].rstrip(), f"echo '{_MARK}'"]
            expected.append("")
        elif match["kind"] == "text" and above == "sh":
            expected[-1] = match["text"]
        above = match["kind"]
    return "\n".join(lines), expected


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A home folder in which the page was followed, and what each block of commands wrote."""
    wheels = built_distributions(tmp_path_factory)
    home = tmp_path_factory.mktemp("home")
    constraint = home / "constraint.txt"
    versions = [wheel.name.split("-")[:2] for wheel in wheels.glob("*.whl")]  # As if they were the release on PyPI.
    constraint.write_text("".join(f"{name}=={version}\n" for name, version in versions))
    env = {name: value for name, value in clean().items() if not name.startswith(("XDG_", "VIRTUAL_ENV"))}
    env["PIP_FIND_LINKS"] = f"{wheels} {env.get('PIP_FIND_LINKS', '')}".strip()
    env |= {
        "HOME": str(home),
        "PIP_CONSTRAINT": str(constraint),
        "PIP_NO_COMPILE": "1",  # Most of what is installed is not imported.
        "PATH": f"{Path(sys.executable).parent}:{env['PATH']}",
    }
    command = ["bash", "-c", script()[0]]
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=_LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return home, done.stdout.split(f"{_MARK}\n")[:-1]


def test_the_page_has_every_step() -> None:
    text, expected = script()
    for part in ("pip install", "mcp-generated call", "python client.py", "pytest", "mcp-generated install"):
        assert part in text
    assert len(expected) >= 6


def test_each_block_of_commands_writes_what_the_page_shows(followed: tuple[Path, list[str]]) -> None:
    _, expected = script()
    assert len(followed[1]) == len(expected)
    for output, shown in zip(followed[1], expected, strict=True):
        if shown:
            pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
            assert re.fullmatch(pattern, output.strip(), re.S), output


def test_the_client_of_a_host_reaches_the_server(followed: tuple[Path, list[str]]) -> None:
    """The client is that of the official SDK, started with the folder and the environment that a host has."""
    [file] = followed[0].rglob("claude_desktop_config.json")
    entries: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    entry = entries["calculator"]
    assert Path(entry["command"]).is_absolute() and os.access(entry["command"], os.X_OK)
    arguments = json.dumps({"a": 1, "b": 2})
    python = python_peer("mcp==2.3.0")
    result = driven(python, "call_stdio.py", "add", arguments, entry["command"], *entry["args"])
    assert result == {"result": 3}
