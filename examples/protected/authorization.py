"""An authorization server as a process of its own: users log in, see the requested scopes, and give or deny consent.

Run it: `NOTES_SECRET=… python examples/protected/authorization.py [PORT] [URL OF THE MCP SERVER] [FILE]`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator

import uvicorn
from signin import SignIn

from mcp_generated.auth import AuthorizationServer, OAuthClient, SQLiteStorage
from mcp_generated.http import listen

SCOPES = ("notes:read", "notes:write")


def static_clients() -> Iterator[OAuthClient]:
    """Yield the clients with a secret: the MCP server, which uses introspection, and delegated.py if it is used."""
    yield OAuthClient.static("notes-server", secret=os.environ["NOTES_SECRET"], may_introspect=True)
    if secret := os.environ.get("DELEGATE_SECRET"):
        yield OAuthClient.static("delegate", ("http://127.0.0.1/callback",), secret=secret, may_introspect=True)


def main(port: str = "9000", resource: str = "http://127.0.0.1:8000/mcp", file: str = ":memory:") -> None:
    """Serve until SIGINT or SIGTERM."""
    with listen("127.0.0.1", int(port)) as listening:
        issuer = f"http://127.0.0.1:{listening.getsockname()[1]}"
        signin = SignIn(issuer, {"ada": os.environ.get("ADAS_PASSWORD", "lovelace")})
        server = AuthorizationServer(
            issuer,
            resources=[resource],
            scopes=SCOPES,
            login=signin,
            storage=SQLiteStorage(file),
            clients=list(static_clients()),
        )
        logging.getLogger("mcp_runtime").info("listening at %s", issuer)
        app = signin.wrap(server)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False)).run(sockets=[listening])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
