"""Routes beside the MCP endpoint, and the endpoint as a route of another application (Starlette, FastAPI)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from ...errors import LocalError
from ...http.asgi import Receive, Scope, Send, path_of


class CustomRoutes:
    """Starlette routes that an HTTP endpoint serves beside the MCP endpoint, without authentication."""

    def __init__(self, routes: Sequence[Any], debug: bool = False) -> None:
        """Create the application of the routes. Raises LocalError if Starlette is not installed."""
        try:
            from starlette.applications import Starlette
        except ImportError:
            raise LocalError("custom routes need Starlette: pip install 'mcp-generated[http]'") from None
        self._application = Starlette(debug=debug, routes=routes)

    def serves(self, scope: Scope, endpoint: str | None) -> bool:
        """Return True if a route has the path of the request, and the MCP endpoint has not."""
        if endpoint is not None and path_of(scope) == endpoint:
            return False
        return any(route.matches(scope)[0].value for route in self._application.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that a route matches."""
        await self._application(scope, receive, send)


def serve_mount_path(application: type) -> None:
    """Let Starlette pass requests to the path of a mount itself, such as `POST /mcp`, to applications of this type.

    Starlette redirects such a request to `/mcp/`, which costs a round trip, and which some clients do not follow with a
    POST. Other mounted applications are not affected.
    """
    if "starlette.routing" not in sys.modules and find_spec("starlette") is None:
        return
    from starlette.routing import Match, Mount

    if hasattr(Mount.matches, "serves_mount_path"):
        return
    matches = Mount.matches

    def matches_mount_path(self: Mount, scope: Any) -> Any:
        match, child = matches(self, scope)
        if match is Match.NONE and scope["type"] == "http" and isinstance(self.app, application):
            match, child = matches(self, {**scope, "path": scope["path"] + "/"})
        return match, child

    matches_mount_path.serves_mount_path = True  # type: ignore[attr-defined]
    Mount.matches = matches_mount_path  # type: ignore[method-assign]
