"""Helpers of tests: a server at a free port of this machine, and clients of it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_products.compat.forms.absent import absent
from mcp_products.compat.sessions.fastmcp_client import Client, SSETransport, StreamableHttpTransport
from mcp_runtime._lazy import load

_log: Final = logging.getLogger("mcp_runtime.compat.fastmcp")
HeadlessOAuth = absent("fastmcp.utilities.tests.HeadlessOAuth")


class Settings(SimpleNamespace):
    """The settings of FastMCP by their names, for programs that read or set them."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep a value, and log that it has no effect. Raises AttributeError for another name."""
        if not hasattr(self, name):
            raise AttributeError(f"fastmcp.settings has no {name!r}: {', '.join(vars(self))} are there")
        _log.warning("fastmcp.settings.%s has no effect here: pass it to FastMCP(), run() or Client()", name)
        super().__setattr__(name, value)


settings: Final = Settings(home=None, client_disconnect_timeout=None, log_level="INFO", stateless_http=False)


@contextmanager
def temporary_settings(**values: Any) -> Generator[None]:
    """Change `settings` for a while. Raises AttributeError for another name."""
    before = {name: getattr(settings, name) for name in values}
    for name, value in values.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        vars(settings).update(before)


def find_available_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class ASGIServer:
    """A running server: its URL, its application, and clients of it."""

    url: str
    app: Any
    transport_type: str

    def http_client(self, **keywords: Any) -> Any:
        """Return an HTTP client whose relative URLs are those of the server."""
        return load("httpx2").AsyncClient(base_url="{0.scheme}://{0.netloc}".format(urlsplit(self.url)), **keywords)

    def transport(self, **keywords: Any) -> SSETransport | StreamableHttpTransport:
        """Return a transport to the server."""
        return (SSETransport if self.transport_type == "sse" else StreamableHttpTransport)(self.url, **keywords)

    def client(self, *, headers: Any = None, auth: Any = None, **keywords: Any) -> Client[Any]:
        """Return a client of the server that is not connected."""
        return Client(self.transport(headers=headers, auth=auth), **keywords)


@asynccontextmanager
async def asgi_server(
    server: Any, transport: str = "http", path: str | None = None, **http_app_kwargs: Any
) -> AsyncGenerator[ASGIServer]:
    """Serve an app over HTTP at a free port of 127.0.0.1, or at `host` and `port`."""
    path = path or ("/sse" if transport == "sse" else "/mcp")
    address = http_app_kwargs.pop("host", "127.0.0.1"), http_app_kwargs.pop("port", None) or 0
    application = server.http_app(transport=transport, path=path, **http_app_kwargs)
    uvicorn = load("uvicorn")
    with socket.create_server(address) as listening:
        url = "http://{}:{}{}".format(*listening.getsockname(), path)
        serving = uvicorn.Server(uvicorn.Config(application, log_level="critical", timeout_graceful_shutdown=1))
        task = asyncio.create_task(serving.serve(sockets=[listening]))
        try:
            yield ASGIServer(
                url, application, transport
            )  # The socket keeps who connects before the server has started.
        finally:
            serving.should_exit = True
            await task


@asynccontextmanager
async def asgi_client(
    server: Any, transport: str = "http", path: str | None = None, **keywords: Any
) -> AsyncGenerator[Any]:
    """Serve an app as `asgi_server` does, and yield a connected client; `keywords` are those of `Client`."""
    async with asgi_server(server, transport, path) as running, running.client(**keywords) as client:
        yield client


@asynccontextmanager
async def run_server_async(
    server: Any, port: int | None = None, transport: str = "http", path: str | None = None, host: str = "127.0.0.1"
) -> AsyncGenerator[str]:
    """Serve an app, and yield its URL."""
    async with asgi_server(server, transport, path, host=host, port=port) as running:
        yield running.url
