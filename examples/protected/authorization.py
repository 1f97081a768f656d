"""An authorization server in a process of its own: users sign in, see which client requests what, and allow or deny it.

Run it: `NOTES_SECRET=… python examples/protected/authorization.py [PORT] [URL OF THE MCP SERVER] [FILE]`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator

import uvicorn
from signin import SignIn

from mcp_runtime.auth import AuthorizationServer, OAuthClient, SQLiteStorage
from mcp_runtime.transports.http_server.run import listen

SCOPES = ("notes:read", "notes:write")


def configured_clients() -> Iterator[OAuthClient]:
    """Yield the clients that have a secret: the MCP server, which introspects tokens, and delegated.py if it is used."""
    yield OAuthClient.static("notes-server", secret=os.environ["NOTES_SECRET"], may_introspect=True)
    if secret := os.environ.get("DELEGATE_SECRET"):
        yield OAuthClient.static("delegate", ("http://127.0.0.1/callback",), secret=secret, may_introspect=True)


def main(port: str = "9000", resource: str = "http://127.0.0.1:8000/mcp", file: str = ":memory:") -> None:
    with listen("127.0.0.1", int(port)) as listener:
        issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
        sign_in = SignIn(issuer, {"ada": os.environ.get("ADAS_PASSWORD", "lovelace")})
        server = AuthorizationServer(
            issuer,
            resources=[resource],
            scopes=SCOPES,
            login=sign_in,
            storage=SQLiteStorage(file),
            clients=list(configured_clients()),
        )
        logging.getLogger("mcp_runtime").info("listening at %s", issuer)
        app = sign_in.wrap(server)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False)).run(sockets=[listener])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
