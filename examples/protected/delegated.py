"""An MCP server whose people sign in with a third party, and a tool that acts there for them, with a token no client sees.

Run it: `DELEGATE_SECRET=… python examples/protected/delegated.py [PORT] [URL OF THE THIRD PARTY]`; the endpoint is /mcp. The
third party may be `authorization.py`, with the same secret.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import httpx2
import uvicorn

from mcp_generated import App, Context
from mcp_runtime.auth.url_policy import URLPolicy
from mcp_runtime.auth.resource_server.protection import ResourceServer
from mcp_runtime.auth.client.storage import OAuthClientInformation, OAuthToken
from mcp_runtime.auth.authorization_server.app import AuthorizationServer
from mcp_runtime.auth.authorization_server.upstream import UpstreamProvider
from mcp_runtime.errors import AuthorizationError
from mcp_runtime.transports.http_server.run import listen

CLIENT = "delegate"  # What this server is at the third party, whichever client asks here.


async def account(third: str, token: OAuthToken) -> dict[str, Any]:
    """Whose token it is, as the third party says."""
    form = {"client_id": CLIENT, "client_secret": os.environ["DELEGATE_SECRET"], "token": token.access_token}
    async with httpx2.AsyncClient(trust_env=False) as web:
        said: dict[str, Any] = (await web.post(f"{third}/introspect", data=form)).raise_for_status().json()
    if not said["active"]:
        raise AuthorizationError("the third party does not know the token any more")
    return said


def main(port: str = "8000", third: str = "http://127.0.0.1:9000") -> None:
    app = App("delegated", version="1.0")

    @app.tool()
    async def my_account(ctx: Context) -> str:
        """What the third party knows of whoever asks."""
        assert ctx.user is not None
        token = await house.upstream_token(ctx.user.claims["sid"])
        assert token is not None
        said = await account(third, token)
        return f"{said['sub']} may {said['scope']} there"

    async def who(token: OAuthToken) -> str:
        return str((await account(third, token))["sub"])

    with listen("127.0.0.1", int(port)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        party = UpstreamProvider(
            issuer=third,
            client=OAuthClientInformation(CLIENT, os.environ["DELEGATE_SECRET"]),
            identify=who,
            name="the notes people",
            scopes=("notes:read",),
            policy=URLPolicy(local=True),
        )
        house = AuthorizationServer(origin, resources=[f"{origin}/mcp"], upstream=party)
        protection = ResourceServer(f"{origin}/mcp", [origin], verifier=house.verifier(f"{origin}/mcp"))
        logging.getLogger("mcp_runtime").info("listening at %s/mcp", origin)
        everything = house.wrap(app.asgi(path="/mcp", auth=protection))
        uvicorn.Server(uvicorn.Config(everything, log_level="warning", server_header=False)).run(sockets=[listening])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
