"""Servers go in, and are served over HTTP by uvicorn until the process is told to end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from typing import Any, Final

from ...errors import LocalError
from ...session.interfaces import Service
from .app import MCPASGIApp

_log: Final = logging.getLogger(__name__)

_DRAIN_SECONDS: Final = 1  # Seconds that answers may still take once the process was told to end.


def serve_with_uvicorn(
    servers: Sequence[Service],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    uvicorn: dict[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Serve at `http://host:port` + `path` until SIGINT or SIGTERM. Port 0 takes a free one; where the server listens
    goes to the log. `uvicorn` are settings for its Config, `settings` those of MCPASGIApp."""
    try:
        from uvicorn import Config, Server
    except ImportError as fault:
        raise LocalError("HTTP needs uvicorn: pip install 'mcp-codegen[http]'") from fault

    class Ending(Server):
        """Ends the streams first, for which uvicorn would wait."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await application.close()
            await super().shutdown(sockets)

    if "hosts" not in settings and host not in ("127.0.0.1", "localhost", "::1"):
        _log.warning(
            "listening on %s, but only requests for localhost are answered; say with hosts=[…] what the server is called",
            host,
        )
    application = MCPASGIApp(servers, path=path, **settings)
    chosen: dict[str, Any] = {
        "log_level": "warning",
        "timeout_graceful_shutdown": _DRAIN_SECONDS,
        "server_header": False,
        **(uvicorn or {}),
    }
    with listen(host, port) as listening:
        where = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}{path}"
        _log.info("listening at %s", where)
        Ending(Config(application, **chosen)).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. What it accepts sends each part at once."""
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio does so only for sockets that name their protocol, which those of create_server do not; a body that
    # waits for the acknowledgement of its head comes 40 ms late.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
