"""An MCP server whose users sign in with a third party, and a tool that calls the third party with the user's token there.

Clients never see that token. Run it: `DELEGATE_SECRET=… python examples/protected/delegated.py [PORT] [URL OF THE THIRD
PARTY]`; the endpoint is /mcp. The third party may be `authorization.py`, with the same secret.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import httpx2
import uvicorn

from mcp_generated import App, Context
from mcp_runtime.auth import (
    AuthorizationServer,
    OAuthClientInformation,
    OAuthToken,
    ResourceServer,
    UpstreamProvider,
    URLPolicy,
)
from mcp_runtime.errors import AuthorizationError
from mcp_runtime.transports.http_server.run import listen

CLIENT_ID = "delegate"  # This server's client id at the third party, whichever client sends a request here.


async def introspect(third_party: str, token: OAuthToken) -> dict[str, Any]:
    """Return the claims of a token of the third party. Raises AuthorizationError if it is no longer valid."""
    form = {"client_id": CLIENT_ID, "client_secret": os.environ["DELEGATE_SECRET"], "token": token.access_token}
    async with httpx2.AsyncClient(trust_env=False) as web:
        response = await web.post(f"{third_party}/introspect", data=form)
    claims: dict[str, Any] = response.raise_for_status().json()
    if not claims["active"]:
        raise AuthorizationError("the token is no longer valid at the third party")
    return claims


def main(port: str = "8000", third_party: str = "http://127.0.0.1:9000") -> None:
    app = App("delegated", version="1.0")

    @app.tool()
    async def my_account(ctx: Context) -> str:
        """The account of the user at the third party."""
        assert ctx.user is not None
        token = await server.upstream_token(ctx.user.claims["sid"])
        assert token is not None
        claims = await introspect(third_party, token)
        return f"{claims['sub']} may {claims['scope']} there"

    async def identify(token: OAuthToken) -> str:
        return str((await introspect(third_party, token))["sub"])

    with listen("127.0.0.1", int(port)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        upstream = UpstreamProvider(
            issuer=third_party,
            client=OAuthClientInformation(CLIENT_ID, os.environ["DELEGATE_SECRET"]),
            identify=identify,
            name="the notes service",
            scopes=("notes:read",),
            policy=URLPolicy(local=True),
        )
        server = AuthorizationServer(origin, resources=[f"{origin}/mcp"], upstream=upstream)
        protection = ResourceServer(f"{origin}/mcp", [origin], verifier=server.verifier(f"{origin}/mcp"))
        logging.getLogger("mcp_runtime").info("listening at %s/mcp", origin)
        wrapped = server.wrap(app.asgi(path="/mcp", auth=protection))
        uvicorn.Server(uvicorn.Config(wrapped, log_level="warning", server_header=False)).run(sockets=[listener])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
