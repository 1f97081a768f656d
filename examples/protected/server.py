"""Notes of the logged-in user: an MCP server that verifies tokens by introspection at an authorization server.

Run it: `NOTES_SECRET=… python examples/protected/server.py [PORT] [URL OF THE AUTHORIZATION SERVER]`; the endpoint is
/mcp.
"""

from __future__ import annotations

import logging
import os
import sys

from mcp_generated import App, Context
from mcp_generated.auth import IntrospectionVerifier, ResourceServer

app = App("notes", version="1.0")
NOTES: dict[str, list[str]] = {}


@app.tool(scopes=["notes:read"])
def list_notes(ctx: Context) -> str:
    """Return all notes of the user."""
    return "; ".join(NOTES.get(owner(ctx), []))


@app.tool(scopes=["notes:write"])
def add_note(ctx: Context, text: str) -> str:
    """Write a note."""
    NOTES.setdefault(owner(ctx), []).append(text)
    return f"{owner(ctx)} has {len(NOTES[owner(ctx)])} notes"


def owner(ctx: Context) -> str:
    """Return the user name; the endpoint rejects requests without a token."""
    assert ctx.user is not None and ctx.user.subject is not None
    return ctx.user.subject


def main(port: str = "8000", issuer: str = "http://127.0.0.1:9000") -> None:
    """Serve until SIGINT or SIGTERM."""
    resource = f"http://127.0.0.1:{port}/mcp"
    verifier = IntrospectionVerifier(
        f"{issuer}/introspect",
        client_id="notes-server",
        client_secret=os.environ["NOTES_SECRET"],
        audience=resource,
        issuer=issuer,
    )
    auth = ResourceServer(resource, [issuer], verifier=verifier, scopes_supported=["notes:read", "notes:write"])
    app.run("http", port=int(port), auth=auth)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
