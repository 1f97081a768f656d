"""The pages for authors of servers, each followed word for word in an empty environment with the built wheels."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any, Final

import pytest
from lint import wire
from lint.incidents import tool
from support.docs.literal import Reader, steps_of

pytestmark = pytest.mark.long  # One page; the others in the exhaustive run: each makes environments of its own.

# A server of the reader's own, for the page that is about one.
SHIPPED: Final = {
    "server.py": """import os

from mcp_generated import App

app = App("shop", version="1.2.0")
KEY = os.environ.get("SHOP_API_KEY", "")


@app.tool()
def price(name: str) -> int:
    \"\"\"Return the price of something.\"\"\"
    return len(name)


def main() -> None:
    app.run("stdio")


if __name__ == "__main__":
    main()
""",
    "pyproject.toml": """[project]
name = "shop"
version = "1.2.0"
description = "What the shop sells."
readme = "README.md"
dependencies = ["mcp-generated"]

[project.scripts]
shop = "server:main"
""",
    "README.md": "# The shop\n",
}
ENTRY: Final = {"mcpServers": {"weather": {"command": "python", "args": ["server.py"]}}}


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that needs a token, in the place of the example of the page."""
    opened: dict[str, Any] = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "web", "version": "1"}}
    lists = {"tools/list": {"tools": [tool("search"), tool("fetch")]}}
    results: dict[str, Any] = {"initialize": {**opened, "capabilities": {"tools": {}}}, **lists}
    monkeypatch.setattr(wire, "SCRIPT", {"results": results, "token": "Bearer token"})
    with ThreadingHTTPServer(("127.0.0.1", 0), wire.Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()


@pytest.mark.exhaustive
@pytest.mark.deadline(300)
def test_check_your_server(tmp_path_factory: pytest.TempPathFactory, url: str) -> None:
    reader = Reader(tmp_path_factory, {"https://example.com/mcp": url, "Bearer …": "Bearer token"})
    (reader.folder / ".cursor").mkdir()
    (reader.folder / ".cursor" / "mcp.json").write_text(json.dumps(ENTRY))
    assert reader.follow("lint.md") == 2


@pytest.mark.exhaustive
@pytest.mark.deadline(300)
def test_move_to_mcp_generated(tmp_path_factory: pytest.TempPathFactory) -> None:
    reader = Reader(tmp_path_factory)
    subprocess.run(("git", "init", "-q"), cwd=reader.folder, check=True)
    assert reader.follow("migrate.md") == 2


@pytest.mark.exhaustive
@pytest.mark.deadline(300)
def test_ship_your_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    reader = Reader(tmp_path_factory)
    for name, text in SHIPPED.items():
        (reader.folder / name).write_text(text)
    assert reader.follow("ship.md") == 4


@pytest.mark.exhaustive
@pytest.mark.deadline(300)
def test_many_tools_few_tokens(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert Reader(tmp_path_factory).follow("tokens.md") == 2


@pytest.mark.parametrize("page", ["lint.md", "migrate.md", "ship.md", "tokens.md"])
def test_each_page_begins_with_an_empty_environment(page: str) -> None:
    commands = [step.text for step in steps_of(page) if step.kind == "commands"]
    assert commands[0].startswith("pip install 'mcp-generated[cli")
