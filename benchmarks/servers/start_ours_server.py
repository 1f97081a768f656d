"""The server of README, over stdio or over HTTP on the port that its argument names."""

from __future__ import annotations

import sys

from mcp_generated import App

app = App("calculator")


@app.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if len(sys.argv) == 1:
    app.run("stdio")
else:
    app.run("http", port=int(sys.argv[1]))
