"""The notes of server.py, with MCP server and authorization server in one process, as clients of 2025-03-26 expect.

Run it: `python examples/protected/together.py [PORT] [FILE]`; the endpoint is /mcp.
"""

from __future__ import annotations

import logging
import os
import sys

import uvicorn
from server import app
from signin import SignIn

from mcp_runtime.auth import AuthorizationServer, ResourceServer, SQLiteStorage
from mcp_runtime.transports.http_server.run import listen


def main(port: str = "8000", file: str = ":memory:") -> None:
    with listen("127.0.0.1", int(port)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        resource, scopes = f"{origin}/mcp", ("notes:read", "notes:write")
        sign_in = SignIn(origin, {"ada": os.environ.get("ADAS_PASSWORD", "lovelace")})
        server = AuthorizationServer(
            origin, resources=[resource], scopes=scopes, login=sign_in, storage=SQLiteStorage(file)
        )
        protection = ResourceServer(resource, [origin], verifier=server.verifier(resource), scopes_supported=scopes)
        wrapped = sign_in.wrap(server.wrap(app.asgi(path="/mcp", auth=protection)))
        logging.getLogger("mcp_runtime").info("listening at %s", resource)
        uvicorn.Server(uvicorn.Config(wrapped, log_level="warning", server_header=False)).run(sockets=[listener])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
