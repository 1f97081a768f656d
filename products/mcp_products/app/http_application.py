"""An app as a Starlette application, for code that mounts or extends one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_runtime.transports.http_server.app import MCPASGIApp


class SessionManager:
    """The sessions of an HTTP application, as a context manager."""

    def __init__(self, endpoint: MCPASGIApp) -> None:
        """Create the manager of the sessions of an application."""
        self._endpoint = endpoint

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Start the lifespan of the app; at the end, end all sessions and the lifespan."""
        await self._endpoint.open()
        try:
            yield
        finally:
            await self._endpoint.close()


class HTTPApplication(Starlette):
    """The Starlette application of an app: its MCP endpoint and its custom routes."""

    def __init__(
        self,
        endpoint: MCPASGIApp,
        path: str | None,
        routes: Sequence[BaseRoute],
        middleware: Sequence[Any],
        debug: bool,
    ) -> None:
        """Create the application; requests to the path, and those that no route matches, go to the MCP endpoint."""
        self.sessions = SessionManager(endpoint)
        own = [] if path is None else [Route(path, endpoint)]  # Before a route that has each path.
        super().__init__(debug=debug, routes=[*own, *routes], middleware=middleware, lifespan=self.lifespan)
        self.router.redirect_slashes = False
        self.router.default = _http_only(endpoint, self.router.default)

    @property
    def lifespan(self) -> Callable[[Any], AbstractAsyncContextManager[None]]:
        """The lifespan to pass on to an application that mounts this one: `FastAPI(lifespan=mcp_app.lifespan)`."""
        return lambda application: self.sessions.run()


def _http_only(endpoint: ASGIApp, otherwise: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await (endpoint if scope["type"] == "http" else otherwise)(scope, receive, send)

    return serve
