"""Run servers over HTTP with uvicorn."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from typing import Any, Final

from ...errors import LocalError
from ...session.interfaces import Service
from .app import MCPASGIApp

_log: Final = logging.getLogger(__name__)

_DRAIN_SECONDS: Final = 1  # Seconds for responses to complete after SIGINT or SIGTERM.


def serve_with_uvicorn(
    servers: Sequence[Service],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    uvicorn: dict[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Serve at `http://host:port` + `path` until SIGINT or SIGTERM. The URL is logged.

    Args:
        servers: One server for each protocol version, oldest first.
        host: Address to listen at. Default: this machine only.
        port: TCP port; 0 selects a free one. Default 8000.
        path: Path of the endpoint. Default `/mcp`.
        uvicorn: Settings of `uvicorn.Config`. Default None: those of uvicorn, with few log messages.
        settings: Keyword arguments of `MCPASGIApp`.

    Raises LocalError if uvicorn is not installed.
    """
    try:
        from uvicorn import Config, Server
    except ImportError as error:
        raise LocalError("a server over HTTP needs uvicorn: pip install 'mcp-codegen[http]'") from error

    class UvicornServer(Server):
        """A uvicorn server that ends all streams before uvicorn waits for them."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await application.close()
            await super().shutdown(sockets)

    if "hosts" not in settings and host not in ("127.0.0.1", "localhost", "::1"):
        _log.warning(
            "listening on %s, but requests to other hosts than localhost are rejected; pass hosts=[…] to accept them",
            host,
        )
    application = MCPASGIApp(servers, path=path, **settings)
    config: dict[str, Any] = {
        "log_level": "warning",
        "timeout_graceful_shutdown": _DRAIN_SECONDS,
        "server_header": False,
        **(uvicorn or {}),
    }
    with listen(host, port) as listener:
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}{path}"
        _log.info("listening at %s", url)
        UvicornServer(Config(application, **config)).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket, whose connections have TCP_NODELAY set."""
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio sets TCP_NODELAY only for sockets whose `proto` is TCP, and create_server leaves it 0. Without it, a body
    # waits 40 ms for the acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
