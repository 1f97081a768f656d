"""The app that the transports serve."""

from __future__ import annotations

from mcp_generated import App

app = App("greeter", version="1.0")


@app.tool(annotations={"readOnlyHint": True})
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"
