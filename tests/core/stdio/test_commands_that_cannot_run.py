"""Commands that are not a program: one that is not there, one without the permission, a folder, and a file of text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.clients import connect

from mcp_generated import ConnectionClosedError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no permission to execute")


def command_of(kind: str, folder: Path) -> list[str]:
    path = folder / kind
    if kind == "folder":
        path.mkdir()
    elif kind != "absent":
        path.write_text("no program\n")
        path.chmod(0o755 if kind == "text" else 0o644)
    return [str(path)]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("absent", "No such file or directory"),
        ("unprivileged", "Permission denied"),
        ("folder", "Permission denied"),
        ("text", "Exec format error"),
    ],
)
@pytest.mark.parametrize("mode", ["", "threads"])
async def test_a_command_that_cannot_run_is_one_error_that_names_it(
    kind: str, reason: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode:
        monkeypatch.setenv("MCP_STDIO", mode)
    command = command_of(kind, tmp_path)
    with pytest.raises(ConnectionClosedError) as refused:
        async with connect(command):
            pass
    assert str(refused.value) == f"{command[0]!r} cannot be started: {reason}"
