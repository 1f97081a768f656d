"""An MCP server whose users log in at an upstream provider, and a tool that uses the upstream token.

No client sees the upstream token.

Run it: `DELEGATE_SECRET=… python examples/protected/delegated.py [PORT] [URL OF THE PROVIDER]`; the endpoint is /mcp.
The provider may be `authorization.py`, with the same secret.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import httpx2
import uvicorn

from mcp_generated import App, AuthorizationError, Context
from mcp_generated.auth import (
    AuthorizationServer,
    OAuthClientInformation,
    OAuthToken,
    ResourceServer,
    UpstreamProvider,
    URLPolicy,
)
from mcp_generated.http import listen

CLIENT = "delegate"  # The client id of this server at the provider, the same for all MCP clients.


async def account(issuer: str, token: OAuthToken) -> dict[str, Any]:
    """Return the introspection response of the provider. Raises AuthorizationError for a token that is not active."""
    form = {"client_id": CLIENT, "client_secret": os.environ["DELEGATE_SECRET"], "token": token.access_token}
    async with httpx2.AsyncClient(trust_env=False) as web:
        claims: dict[str, Any] = (await web.post(f"{issuer}/introspect", data=form)).raise_for_status().json()
    if not claims["active"]:
        raise AuthorizationError("the upstream token is not active any more; log in again")
    return claims


def main(port: str = "8000", issuer: str = "http://127.0.0.1:9000") -> None:
    """Serve until SIGINT or SIGTERM."""
    app = App("delegated", version="1.0")

    @app.tool()
    async def my_account(ctx: Context) -> str:
        """Return the account of the user at the upstream provider."""
        assert ctx.user is not None
        token = await server.upstream_token(ctx.user.claims["sid"])
        assert token is not None
        claims = await account(issuer, token)
        return f"{claims['sub']} may {claims['scope']} there"

    async def identify(token: OAuthToken) -> str:
        """Return the user name."""
        return str((await account(issuer, token))["sub"])

    with listen("127.0.0.1", int(port)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        upstream = UpstreamProvider(
            issuer=issuer,
            client=OAuthClientInformation(CLIENT, os.environ["DELEGATE_SECRET"]),
            identify=identify,
            name="the notes people",
            scopes=("notes:read",),
            policy=URLPolicy(local=True),
        )
        server = AuthorizationServer(origin, resources=[f"{origin}/mcp"], upstream=upstream)
        auth = ResourceServer(f"{origin}/mcp", [origin], verifier=server.verifier(f"{origin}/mcp"))
        logging.getLogger("mcp_runtime").info("listening at %s/mcp", origin)
        application = server.wrap(app.asgi(path="/mcp", auth=auth))
        uvicorn.Server(uvicorn.Config(application, log_level="warning", server_header=False)).run(sockets=[listening])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
