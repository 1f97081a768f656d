"""The notes of server.py, with MCP server and authorization server in one process, as 2025-03-26 requires.

Run it: `python examples/protected/one_process.py [PORT] [FILE]`; the endpoint is /mcp.
"""

from __future__ import annotations

import logging
import os
import sys

import uvicorn
from server import app
from signin import SignIn

from mcp_generated.auth import AuthorizationServer, ResourceServer, SQLiteStorage
from mcp_generated.http import listen


def main(port: str = "8000", file: str = ":memory:") -> None:
    """Serve until SIGINT or SIGTERM."""
    with listen("127.0.0.1", int(port)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        resource, scopes = f"{origin}/mcp", ("notes:read", "notes:write")
        signin = SignIn(origin, {"ada": os.environ.get("ADAS_PASSWORD", "lovelace")})
        server = AuthorizationServer(
            origin, resources=[resource], scopes=scopes, login=signin, storage=SQLiteStorage(file)
        )
        auth = ResourceServer(resource, [origin], verifier=server.verifier(resource), scopes_supported=scopes)
        application = signin.wrap(server.wrap(app.asgi(path="/mcp", auth=auth)))
        logging.getLogger("mcp_runtime").info("listening at %s", resource)
        uvicorn.Server(uvicorn.Config(application, log_level="warning", server_header=False)).run(sockets=[listening])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
