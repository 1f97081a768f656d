"""The official clients talk to servers that serve a draft beside the releases: with a handshake, and in the stateless
release."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support.peers import driven, python_peer
from support.schemas.draft_packages import draft_package
from support.schemas.proposals import PROPOSALS

pytestmark = [pytest.mark.long, pytest.mark.deadline(400)]
# The newest official client is stateless, and the older one has a handshake.
CLIENTS = {"mcp==2.3.0": ("call_stdio.py", {"result": 5}), "mcp==1.30.0": ("call_session.py", "5")}
SERVERS = {
    "app": """
        from beside_drafts import App
        server = App("trial")

        @server.tool
        def add(a: int, b: int) -> int:
            return a + b
    """,
    "class": """
        from beside_drafts.vdraft import Server, types as t

        class Adding(Server):
            async def list_tools(self, ctx, params):
                schema = t.ToolParameters(properties={"a": {}, "b": {}})
                return t.ListToolsResult(tools=[t.Tool(name="add", parameters=schema, risk="low")])

            async def call_tool(self, ctx, params):
                total = params.arguments["a"] + params.arguments["b"]
                return t.CallToolResult(
                    content=[t.TextContent(text=str(total))], structured_content={"result": total}
                )

        server = Adding(name="trial", version="1")
    """,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The releases, and a draft that renames a property and a method and requires another property."""
    chosen = [PROPOSALS[name] for name in ("a renamed property", "a renamed method", "a new required property")]
    folder = tmp_path_factory.mktemp("beside")
    changes = [proposal.change_of_types for proposal in chosen]
    draft_package(folder, "beside_drafts", {"draft": changes}, "".join(proposal.rows for proposal in chosen))
    return folder


@pytest.mark.edges("mcp==2.3.0-app")
@pytest.mark.parametrize("form", SERVERS)
@pytest.mark.parametrize("requirement", CLIENTS)
def test_an_official_client_calls_a_tool(requirement: str, form: str, folder: Path) -> None:
    program = folder / f"{form}.py"
    program.write_text(textwrap.dedent(SERVERS[form]) + '\nserver.run("stdio")\n')
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    command = ["env", f"PYTHONPATH={path}", sys.executable, str(program)]
    driver, expected = CLIENTS[requirement]
    seen: Any = driven(python_peer(requirement), driver, "add", '{"a": 2, "b": 3}', *command)
    assert seen == expected
