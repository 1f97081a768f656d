"""Servers of PyPI run with only their import lines changed, and answer as they do on the official SDK."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.clients import connect
from support.official.imports import changed_lines, rewrite
from support.peers import clean, python_peer

pytestmark = pytest.mark.long

MAX_CHANGED = 8


class Published(NamedTuple):
    """A server of PyPI: its requirement, its package, the words after its command, and calls that it answers."""

    requirement: str
    package: str
    words: tuple[str, ...]
    calls: tuple[tuple[str, dict[str, Any]], ...]


# What an App has no counterpart of: docs/migration.md says to leave it out.
OMITTED = re.compile(r"\bsubscriptions=False\b,?")


SERVERS = [
    Published(
        "mcp-server-time==2026.10.19",
        "mcp_server_time",
        ("--local-timezone", "Europe/Paris"),
        (
            ("convert_time", {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"}),
            ("convert_time", {"source_timezone": "Nowhere/None", "time": "12:00", "target_timezone": "Asia/Kolkata"}),
            ("get_current_time", {}),
        ),
    ),
    Published(
        "mcp-server-git==2026.10.19",
        "mcp_server_git",
        (),
        (
            ("git_status", {"repo_path": "REPOSITORY"}),
            ("git_log", {"repo_path": "REPOSITORY", "max_count": 1}),
            ("git_status", {"repo_path": "/nowhere"}),
        ),
    ),
    Published(
        "mcp-server-fetch==2026.10.24",
        "mcp_server_fetch",
        ("--ignore-robots-txt",),
        (("fetch", {"url": "http://127.0.0.1:9/"}), ("fetch", {"url": "no url"}), ("fetch", {})),
    ),
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with one commit."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "a.txt").write_text("a\n")
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    for words in (("init", "-q", "-b", "main"), ("add", "a.txt"), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)
    return folder


def rewritten(server: Published, site: Path, folder: Path) -> int:
    """Write the server's package with other import lines into a folder; return how many lines were changed."""
    count = 0
    for path in sorted((site / server.package).rglob("*.py")):
        source = path.read_text()
        count += changed_lines(source)
        changed = rewrite(source)
        lines = changed.splitlines(keepends=True)
        code = [OMITTED.sub("", line) if not line.lstrip().startswith("#") else line for line in lines]
        count += sum(line != old for line, old in zip(code, lines, strict=True))
        changed = "".join(code)
        copy = folder / path.relative_to(site)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(changed)
    return count


async def answers(command: list[str], env: dict[str, str], calls: tuple[tuple[str, dict[str, Any]], ...]) -> Any:
    """Return the tools of a server, and its answers to the calls."""
    async with connect(command, env=env) as client:
        tools = [tool.model_dump() async for tool in client.iter_tools()]
        results = [(await client.call_tool(name, arguments)).model_dump() for name, arguments in calls]
    return tools, results


@pytest.mark.edges("mcp_server_time")
@pytest.mark.deadline(500)
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.package)
async def test_a_published_server_answers_as_on_its_own_sdk(
    server: Published, repository: Path, tmp_path: Path
) -> None:
    python = await asyncio.to_thread(python_peer, server.requirement)
    [site] = python.parents[1].glob("lib/*/site-packages")
    assert rewritten(server, site, tmp_path) <= MAX_CHANGED
    calls = tuple(
        (name, {key: value.replace("REPOSITORY", str(repository)) if isinstance(value, str) else value
                for key, value in arguments.items()})
        for name, arguments in server.calls
    )  # fmt: skip
    theirs = await answers([str(python), "-m", server.package, *server.words], clean(), calls)
    paths = [str(tmp_path), *filter(None, sys.path), str(site)]
    env = {**clean(), "PYTHONPATH": os.pathsep.join(paths)}
    ours = await answers([sys.executable, "-m", server.package, *server.words], env, calls)
    assert [tool["name"] for tool in ours[0]] == [tool["name"] for tool in theirs[0]]
    assert [arguments_of(tool) for tool in ours[0]] == [arguments_of(tool) for tool in theirs[0]]
    for (name, arguments), own, other in zip(calls, ours[1], theirs[1], strict=True):
        assert own.get("isError", False) == other.get("isError", False), (name, own)
        if not own.get("isError"):
            assert (own["content"], own.get("structuredContent")) == (
                other["content"],
                other.get("structuredContent"),
            ), (name, arguments)


def arguments_of(tool: Any) -> dict[str, Any]:
    """Return the types and descriptions of the arguments of a tool."""
    properties: dict[str, Any] = tool["inputSchema"].get("properties", {})
    return {name: (schema.get("type"), schema.get("description")) for name, schema in properties.items()}
