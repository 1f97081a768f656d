"""`--fix` writes what is certain; everything else in a file remains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lint.incidents import tool, tools

from mcp_products.lint import Snapshot, lint
from mcp_products.lint.environment import read_project
from mcp_products.lint.fixes import fixes_of

PROJECT = """# The shop.
[project]
name = "shop"
dependencies = [
    "mcp[cli]>=1.9",  # The SDK.
    "mcp-extras",
    'fastmcp',
]
"""


def fixed(snapshot: Snapshot, folder: Path) -> list[str]:
    """Write the fixes, and return what has changed."""
    changes: list[str] = []
    for fix in fixes_of(snapshot, lint(snapshot), folder):
        fix.path.write_text(fix.text, encoding="utf-8")
        changes.append(fix.change)
    return changes


def test_requirements_get_their_bound_and_comments_remain(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "requirements.txt").write_text("mcp>=1.9\nmcp-other>=1.9\n")
    snapshot = Snapshot()
    read_project(snapshot, tmp_path)
    assert len(fixed(snapshot, tmp_path)) == 3
    text = PROJECT.replace("mcp[cli]>=1.9", "mcp[cli]>=1.9,<2").replace("'fastmcp'", "'fastmcp>=4,<5'")
    assert (tmp_path / "pyproject.toml").read_text() == text
    assert (tmp_path / "requirements.txt").read_text() == "mcp>=1.9,<2\nmcp-other>=1.9\n"
    read_project(snapshot, tmp_path)
    assert fixed(snapshot, tmp_path) == []


@pytest.mark.parametrize(
    ("place", "section", "entry", "expected"),
    [
        (".gemini/settings.json", "mcpServers", {"url": "https://a.example"}, {"httpUrl": "https://a.example"}),
        (".vscode/mcp.json", "mcpServers", {"command": "/bin/sh"}, {"command": "/bin/sh"}),
    ],
    ids=["httpUrl", "servers"],
)
def test_a_configuration_gets_the_key_that_its_host_reads(
    tmp_path: Path, place: str, section: str, entry: dict[str, Any], expected: dict[str, Any]
) -> None:
    path = tmp_path / place
    path.parent.mkdir()
    path.write_text(json.dumps({"theme": "dark", section: {"shop": entry, "other": {"command": "/bin/sh"}}}))
    snapshot = Snapshot(name="shop", named=True, entry=entry, configuration=path, servers_key=section)
    assert len(fixed(snapshot, tmp_path)) == 1
    after = json.loads(path.read_text())
    key = "servers" if "vscode" in place else section
    assert after == {"theme": "dark", key: {"shop": expected, "other": {"command": "/bin/sh"}}}


def test_the_registry_gets_one_version_and_its_line(tmp_path: Path) -> None:
    document = {
        "name": "io.github.a/shop",
        "description": "A shop.",
        "version": "1.2.0",
        "packages": [{"registryType": "pypi", "identifier": "shop", "version": "1.1.0"}],
    }
    (tmp_path / "server.json").write_text(json.dumps(document))
    (tmp_path / "README.md").write_text("# shop\n")
    snapshot = Snapshot()
    read_project(snapshot, tmp_path)
    fixed(snapshot, tmp_path)
    read_project(snapshot, tmp_path)
    assert lint(snapshot) == []
    assert (tmp_path / "README.md").read_text() == "# shop\n\n<!-- mcp-name: io.github.a/shop -->\n"


def test_a_name_of_a_tool_is_not_changed(tmp_path: Path) -> None:
    assert fixed(tools(tool("meta.index")), tmp_path) == []
