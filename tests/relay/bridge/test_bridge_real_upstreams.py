"""Our clients of all revisions use servers of others through a bridge, as they do without it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from support.clients import connect
from support.feature_cells.bridge.bridge_processes import bridge_command, bridge_origin
from support.peers import clean, node_peer, python_peer

from mcp_generated import RemoteJSONRPCError

pytestmark = [pytest.mark.long, pytest.mark.deadline(90)]

FRONTS: Final = ("2024-11-05", "2025-11-25", "2026-07-28")
FASTMCP: Final = """
from fastmcp import FastMCP
mcp = FastMCP("peer")
@mcp.tool
def add(a: int, b: int) -> int: return a + b
@mcp.resource("note://one")
def note() -> str: return "hello"
@mcp.prompt
def question(about: str) -> str: return f"What is {about}?"
mcp.run(show_banner=False)
"""


class Upstream(NamedTuple):
    """A server of another project: how its command is made, and calls with texts that their results have."""

    command: Callable[[Path], list[str]]
    calls: tuple[tuple[str, dict[str, Any], str], ...]


def npm(package: str, program: str, *words: str) -> Callable[[Path], list[str]]:
    """Return what makes the command of an npm package."""
    return lambda folder: [str(node_peer(package) / "node_modules" / ".bin" / program), *words, str(folder)]


def pypi(package: str, module: str, *words: str) -> Callable[[Path], list[str]]:
    """Return what makes the command of a package of PyPI."""
    return lambda folder: [str(python_peer(package)), "-m", module, *words]


def git(folder: Path) -> list[str]:
    """Return the command of the server of a repository."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return [str(python_peer("mcp-server-git==2026.10.19")), "-m", "mcp_server_git", "--repository", str(folder)]


UPSTREAMS: Final = {
    "everything": Upstream(
        npm("@modelcontextprotocol/server-everything@2026.8.31", "mcp-server-everything", "stdio"),
        (("echo", {"message": "héllo"}, "héllo"), ("get-sum", {"a": 2, "b": 3}, "5")),
    ),
    "filesystem": Upstream(
        npm("@modelcontextprotocol/server-filesystem@2026.8.31", "mcp-server-filesystem"),
        (("list_allowed_directories", {}, "Allowed"),),
    ),
    "memory": Upstream(
        npm("@modelcontextprotocol/server-memory@2026.8.31", "mcp-server-memory"),
        (("read_graph", {}, "entities"),),
    ),
    "time": Upstream(
        pypi("mcp-server-time==2026.10.19", "mcp_server_time"),
        (("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"}, "12:00"),),
    ),
    "fetch": Upstream(
        pypi("mcp-server-fetch==2026.10.24", "mcp_server_fetch"), (("fetch", {"url": "http://127.0.0.1:9/"}, ""),)
    ),
    "git": Upstream(git, ()),
    "FastMCP": Upstream(
        lambda folder: [str(python_peer("fastmcp==4.1.2")), "-c", FASTMCP], (("add", {"a": 2, "b": 3}, "5"),)
    ),
}


@cache
def folder_of(name: str) -> Path:
    """Return a folder of this process for an upstream."""
    return Path(tempfile.mkdtemp(prefix=f"bridge-{name}-"))


@cache
def words_of(name: str) -> tuple[str, ...]:
    """Return the command of an upstream."""
    return tuple(["env", "-i", f"PATH={clean()['PATH']}", "HOME=/tmp", *UPSTREAMS[name].command(folder_of(name))])


async def use(target: Any, revision: str, upstream: Upstream) -> dict[str, Any]:
    """Return what a client of a revision sees of an upstream."""
    async with connect(target, revisions=[revision]) as client:
        capabilities = client.server.to_dict()["capabilities"]
        seen: dict[str, Any] = {"tools": sorted([tool.name async for tool in client.iter_tools()])}
        if "resources" in capabilities:
            seen["resources"] = sorted([item.uri async for item in client.iter_resources()])
        if "prompts" in capabilities:
            seen["prompts"] = sorted([item.name async for item in client.iter_prompts()])
        for name, arguments, expected in upstream.calls:
            result = (await client.call_tool(name, arguments)).model_dump()
            texts = [content["text"] for content in result["content"]]
            assert expected in " ".join(texts)
            seen[name] = re.sub(r"\d{4}-\d\d-\d\d", "DATE", str(texts)), result.get("isError", False)
        try:
            seen["unknown"] = (await client.call_tool("no-such-tool", {})).model_dump().get("isError")
        except RemoteJSONRPCError as error:
            seen["unknown"] = error.code
    return seen


_direct: dict[str, dict[str, Any]] = {}


@pytest.mark.edges("everything-2024-11-05", "time-2024-11-05")
@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", UPSTREAMS)
async def test_a_server_of_another_project_is_the_same_through_a_bridge(name: str, front: str) -> None:
    upstream, words = UPSTREAMS[name], words_of(name)
    if name not in _direct:
        async with connect(list(words)) as client:
            native = client.server.to_dict()["supportedVersions"][0]
        _direct[name] = await use(list(words), native, upstream)
    place = "/mcp" if front >= "2025-03-26" else "/sse"
    target: Any = bridge_command(*words) if front == "2025-11-25" else bridge_origin(*words) + place
    through = await use(target, front, upstream)
    assert through == {**_direct[name], "tools": through["tools"]}
    # A server may list tools by the capabilities or the revision of a client.
    assert {*through["tools"]} <= {*_direct[name]["tools"]} and len(through["tools"]) >= len(_direct[name]["tools"]) - 2
