"""`Client(target)` of `compat`: the targets that FastMCP's client takes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_generated.compat import Client

SERVER = """
from mcp_generated.compat import FastMCP
mcp = FastMCP("Demo")
@mcp.tool
def add(a: int, b: int) -> int:
    return a + b
if __name__ == "__main__":
    mcp.run()
"""


@pytest.fixture(scope="module")
def server_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("server") / "server.py"
    path.write_text(SERVER)
    return path


@pytest.mark.long
@pytest.mark.parametrize("kind", ["text", "path", "configuration"])
async def test_a_client_is_created_from_a_file_and_from_a_configuration(kind: str, server_file: Path) -> None:
    entry = {"command": sys.executable, "args": [str(server_file)]}
    targets: dict[str, Any] = {
        "text": str(server_file),
        "path": server_file,
        "configuration": {"mcpServers": {"one": entry}},
    }
    async with Client(targets[kind]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


def test_a_file_that_is_not_there_and_a_text_that_is_no_target_are_refused(tmp_path: Path) -> None:
    for target in (str(tmp_path / "nothing.py"), tmp_path / "nothing.py", {"mcpServers": {}}, 5):
        with pytest.raises(Exception, match=r"nothing\.py|configuration|needs a server") as caught:
            Client(target)
        assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.long
async def test_a_client_needs_no_import_of_the_package_before(server_file: Path) -> None:
    program = f"""
import asyncio
from mcp_products.compat.sessions.fastmcp_client import Client

async def main():
    async with Client({str(server_file)!r}) as client:
        print([tool.name for tool in await client.list_tools()])

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0 and output.strip().startswith(b"['")
