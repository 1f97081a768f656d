"""Notes as in server.py, where one process is the MCP server and its authorization server: what clients of 2025-03-26 know.

Run it: `python examples/protected/together.py [PORT] [FILE]`; the endpoint is /mcp.
"""

from __future__ import annotations

import logging
import os
import sys

import uvicorn
from server import app
from signin import SignIn

from mcp_runtime.auth.resource_server.protection import ResourceServer
from mcp_runtime.auth.authorization_server.app import AuthorizationServer
from mcp_runtime.auth.authorization_server.storage import SQLiteStorage
from mcp_runtime.transports.http_server.run import listen


def main(port: str = "8000", file: str = ":memory:") -> None:
    with listen("127.0.0.1", int(port)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        resource, scopes = f"{origin}/mcp", ("notes:read", "notes:write")
        signin = SignIn(origin, {"ada": os.environ.get("ADAS_PASSWORD", "lovelace")})
        house = AuthorizationServer(
            origin, resources=[resource], scopes=scopes, login=signin, storage=SQLiteStorage(file)
        )
        protection = ResourceServer(resource, [origin], verifier=house.verifier(resource), scopes_supported=scopes)
        everything = signin.wrap(house.wrap(app.asgi(path="/mcp", auth=protection)))
        logging.getLogger("mcp_runtime").info("listening at %s", resource)
        uvicorn.Server(uvicorn.Config(everything, log_level="warning", server_header=False)).run(sockets=[listening])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
