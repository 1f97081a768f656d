"""An authorization server as a process of its own: people sign in, see which program asks for what, and agree or not.

Run it: `NOTES_SECRET=… python examples/protected/authorization.py [PORT] [URL OF THE MCP SERVER] [FILE]`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator

import uvicorn
from signin import SignIn

from mcp_runtime.auth.authorization_server.models import OAuthClient
from mcp_runtime.auth.authorization_server.app import AuthorizationServer
from mcp_runtime.auth.authorization_server.storage import SQLiteStorage
from mcp_runtime.transports.http_server.run import listen

SCOPES = ("notes:read", "notes:write")


def known() -> Iterator[OAuthClient]:
    """Clients with a secret: the MCP server, which asks what tokens are worth, and delegated.py, where it is used."""
    yield OAuthClient.static("notes-server", secret=os.environ["NOTES_SECRET"], may_introspect=True)
    if secret := os.environ.get("DELEGATE_SECRET"):
        yield OAuthClient.static("delegate", ("http://127.0.0.1/callback",), secret=secret, may_introspect=True)


def main(port: str = "9000", resource: str = "http://127.0.0.1:8000/mcp", file: str = ":memory:") -> None:
    with listen("127.0.0.1", int(port)) as listening:
        issuer = f"http://127.0.0.1:{listening.getsockname()[1]}"
        signin = SignIn(issuer, {"ada": os.environ.get("ADAS_PASSWORD", "lovelace")})
        server = AuthorizationServer(
            issuer,
            resources=[resource],
            scopes=SCOPES,
            login=signin,
            storage=SQLiteStorage(file),
            clients=list(known()),
        )
        logging.getLogger("mcp_runtime").info("listening at %s", issuer)
        app = signin.wrap(server)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False)).run(sockets=[listening])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
