"""Notes that belong to whoever signed in: an MCP server behind an authorization server, which tells it what tokens are worth.

Run it: `NOTES_SECRET=… python examples/protected/server.py [PORT] [URL OF THE AUTHORIZATION SERVER]`; the endpoint is /mcp.
"""

from __future__ import annotations

import logging
import os
import sys

from mcp_generated import App, Context
from mcp_runtime.auth.resource_server.protection import ResourceServer
from mcp_runtime.auth.resource_server.verifiers import IntrospectionVerifier

app = App("notes", version="1.0")
NOTES: dict[str, list[str]] = {}


@app.tool(scopes=["notes:read"])
def list_notes(ctx: Context) -> str:
    """All notes of whoever asks."""
    return "; ".join(NOTES.get(owner(ctx), []))


@app.tool(scopes=["notes:write"])
def add_note(ctx: Context, text: str) -> str:
    """Write a note down."""
    NOTES.setdefault(owner(ctx), []).append(text)
    return f"{owner(ctx)} has {len(NOTES[owner(ctx)])} notes"


def owner(ctx: Context) -> str:
    """Who signed in; the endpoint takes no request without a token."""
    assert ctx.user is not None and ctx.user.subject is not None
    return ctx.user.subject


def main(port: str = "8000", issuer: str = "http://127.0.0.1:9000") -> None:
    resource = f"http://127.0.0.1:{port}/mcp"
    verifier = IntrospectionVerifier(
        f"{issuer}/introspect",
        client_id="notes-server",
        client_secret=os.environ["NOTES_SECRET"],
        audience=resource,
        issuer=issuer,
    )
    protection = ResourceServer(resource, [issuer], verifier=verifier, scopes_supported=["notes:read", "notes:write"])
    app.run("http", port=int(port), auth=protection)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
