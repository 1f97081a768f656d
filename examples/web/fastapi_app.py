"""A FastAPI application with an MCP server mounted at /mcp; both share their state.

Run it: `uvicorn --app-dir examples/web fastapi_app:web` or `python examples/web/fastapi_app.py 8000`. The endpoint is http://127.0.0.1:8000/mcp.
"""

from __future__ import annotations

import sys

from fastapi import FastAPI

from mcp_generated import App

web = FastAPI(title="Notes")
mcp = App("notes", "Notes of a web application.", version="1.0")
notes: dict[str, str] = {}


@web.get("/notes")
def page() -> dict[str, str]:
    """Return the notes for people."""
    return notes


@mcp.tool(annotations={"destructiveHint": False, "idempotentHint": True, "openWorldHint": False})
async def write_note(name: str, text: str) -> str:
    """Write a note that the web page shows."""
    notes[name] = text
    return f"{name} is at /notes"


@mcp.resource("note://{name}", mime_type="text/plain")
async def note(name: str) -> str:
    """Return one note for models."""
    return notes.get(name, "")


web.add_route("/mcp", mcp.asgi())

if __name__ == "__main__":
    import uvicorn

    uvicorn.run(web, port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
