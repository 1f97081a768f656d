"""A program for an environment with the least versions: it builds all types, and calls an app in each revision."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

from pydantic import BaseModel

from mcp_generated import App

REVISIONS = ("v2024_11_05", "v2025_03_26", "v2025_06_18", "v2025_11_25", "v2026_07_28")

app = App("least")


@app.tool
def add(a: int, b: float = 1.0, notes: list[str] | None = None) -> dict[str, float]:
    """Add two numbers."""
    return {"sum": a + b}


@app.resource("note://{name}")
def note(name: str) -> str:
    """Return a note."""
    return name


@app.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}."


def build(types: Any) -> None:
    """Build every type, and write content of each kind."""
    for name in dir(types):
        defined = getattr(types, name)
        if isinstance(defined, type) and issubclass(defined, BaseModel):
            defined.model_rebuild()
    image = types.ImageContent(data=b"image", mime_type="image/png")
    link = types.EmbeddedResource(resource=types.TextResourceContents(uri="note://a", text="a"))
    result = types.CallToolResult(content=[types.TextContent(text="text"), image, link])
    assert types.CallToolResult.model_validate(result.to_dict()) == result
    assert types.CallToolResult.model_json_schema()["properties"]["content"]["type"] == "array"


async def call(client: Any) -> None:
    """Call a tool rightly and wrongly, and read and get the rest."""
    right, wrong = await client.call_tool("add", {"a": 1}), await client.call_tool("add", {"a": "x"})
    assert "2.0" in right.content[0].text and wrong.is_error
    assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
    assert (await client.read_resource("note://a")).contents[0].text == "a"
    assert (await client.get_prompt("greet", {"name": "you"})).messages[0].content.text == "Greet you."


async def main(over_http: bool) -> None:
    """Serve each revision in memory, and the newest over HTTP."""
    for name in REVISIONS:
        package = importlib.import_module(f"mcp_generated.{name}")
        build(package.types)
        async with package.Client.memory(app) as client:
            await call(client)
    if over_http:
        await serve()
    print("served")


async def serve() -> None:
    """Serve the app with uvicorn, and call it."""
    import uvicorn

    from mcp_generated import connect
    from mcp_generated.v2026_07_28 import Client

    server = uvicorn.Server(uvicorn.Config(app.asgi(), port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with connect(f"http://127.0.0.1:{port}/mcp", client=Client) as client:
        await call(client)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main("http" in sys.argv))
