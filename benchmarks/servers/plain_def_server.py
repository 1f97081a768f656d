"""A server of one plain `def` tool, as README shows it: "ours" or "mcp", over stdio or on the port that follows."""

from __future__ import annotations

import sys

if sys.argv[1] == "ours":
    from mcp_generated import App
else:
    from mcp.server.mcpserver import MCPServer as App

app = App("echo")


@app.tool()
def echo(text: str) -> str:
    """Return the text."""
    return text


if len(sys.argv) == 2:
    app.run("stdio")
else:
    app.run("streamable-http", port=int(sys.argv[2]))
