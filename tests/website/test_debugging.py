"""The page "Debugging": it has every host, the variables that a child inherits, and a request that a server answers."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import Final

import pytest
from support.peers import example_served
from support.project import ROOT

from mcp_codegen.servers.hosts import HOSTS
from mcp_runtime.transports.stdio.child import child_environment

PAGE: Final = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")


def test_each_host_has_a_row_with_its_log_state_folder_and_restart() -> None:
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\| `[a-z-]+` \|.*\|$", PAGE, re.M)
    ]
    assert [row[0].strip("`") for row in rows] == list(HOSTS)
    assert [row for row in rows if len(row) != 5 or not all(row)] == []


def test_the_variables_that_the_page_names_are_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = re.search(r"The child inherits (.+?) and a few others", PAGE, re.S)
    assert sentence is not None
    names = re.findall(r"`([A-Z]+)`", sentence[1])
    assert len(names) >= 4
    for name in (*names, "CURRENCY"):
        monkeypatch.setenv(name, "value")
    variables = child_environment(None)
    assert {name for name in names if name not in variables} == set() and "CURRENCY" not in variables


@pytest.mark.long
def test_the_request_of_the_page_is_answered() -> None:
    block = re.search(r"^\$ (curl .+?)\n```", PAGE, re.M | re.S)
    assert block is not None
    words = shlex.split(block[1].replace("\\\n", " "))
    with example_served("weather") as origin:
        command = [word.replace("http://127.0.0.1:8000", origin) for word in words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    [message] = [line.removeprefix("data:") for line in done.stdout.splitlines() if '"jsonrpc"' in line]
    assert json.loads(message)["result"]["protocolVersion"] == "2025-11-25"
