"""What the schema calls deprecated warns its users, at run time and in type checkers, and nobody who only reads it."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from support.checkers import pyright
from support.endpoints import ALL_REVISIONS, Rev, among, client_of, server_of

from mcp_generated import App, v2026_07_28
from mcp_runtime.bindings.client import BaseClient
from mcp_runtime.protocol.models import validator

t = v2026_07_28.types
DEPRECATED = " is deprecated in MCP 2026-07-28"


@pytest.fixture(autouse=True)
def recorded() -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def messages(caught: list[warnings.WarningMessage]) -> list[str]:
    """What was warned of, each time of this file."""
    assert all(warning.category is DeprecationWarning and warning.filename == __file__ for warning in caught)
    return [str(warning.message).removesuffix(DEPRECATED) for warning in caught]


def test_whoever_makes_an_object_of_a_deprecated_type_is_warned(recorded: Any) -> None:
    t.Root(uri="file:///a")
    t.ModelHint(name="m")
    t.Tool.model_validate({"name": "x", "inputSchema": {"type": "object"}})
    assert messages(recorded) == ["Root", "ModelHint"]


def test_whoever_reads_one_from_the_wire_is_not(recorded: Any) -> None:
    listed = validator(t.ListRootsResult)({"roots": [{"uri": "file:///a"}]})
    assert listed.roots[0].uri == "file:///a" and listed.model_copy(deep=True) == listed
    can = validator(t.ClientCapabilities)({"roots": {}, "sampling": {}})
    assert can.model_dump() == {"roots": {}, "sampling": {}} and "roots" in repr(can)
    assert recorded == []


def test_a_deprecated_property_warns_where_it_is_used(recorded: Any) -> None:
    can = t.ClientCapabilities.model_validate({"roots": {}})
    assert can.roots is not None and can.elicitation is None
    assert messages(recorded) == ["ClientCapabilities.roots"]


@among(ALL_REVISIONS)
async def test_what_a_handler_asks_and_logs_warns_in_the_revision_that_deprecates_it(rev: Rev, recorded: Any) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.log("info", "x")
        await ctx.list_roots()
        return rev.text("done")

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return validator(rev.t.ListRootsResult)({"roots": []})

    server = server_of(rev, {"logging": {}}, call_tool=call_tool)
    async with client_of(rev, server, on_list_roots=on_list_roots) as client:
        await client.call_tool(name="x")
    # The newest handler runs twice: it has to ask by its result.
    once = ["LoggingMessageNotification", "ListRootsRequest"]
    assert messages(recorded) == (once * 2 if rev.stateless else [])


def test_overriding_what_answers_older_servers_does_not_warn(recorded: Any) -> None:
    class Answering(v2026_07_28.Client):
        async def on_list_roots(self, ctx: Any, params: Any) -> t.ListRootsResult:
            return validator(t.ListRootsResult)({"roots": []})

    assert isinstance(Answering.memory(App("answering")), BaseClient) and recorded == []


def test_what_is_ours_warns_of_nothing_when_it_is_loaded() -> None:
    modules = (
        "from mcp_generated.v2026_07_28 import Client, Server, SyncClient, types, methods; import mcp_generated.app"
    )
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", modules]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_type_checker_says_so(tmp_path: Path) -> None:
    (tmp_path / "used.py").write_text(
        '"""Uses what is deprecated."""\n'
        "from mcp_generated.v2026_07_28 import Context, types as t\n\n\n"
        "async def use(ctx: Context) -> None:\n"
        "    await ctx.list_roots()\n"
        '    await ctx.log("info", "x")\n'
        '    t.Root(uri="file:///a")\n'
        '    await ctx.elicit(t.ElicitRequestURLParams(message="x", url="x", elicitation_id="x"))\n'
    )
    deprecations = [line for line in pyright(tmp_path, "used.py") if "deprecated" in line]
    assert len(deprecations) == 3, deprecations
    assert all(name in "".join(deprecations) for name in ("list_roots", "log", "Root"))
