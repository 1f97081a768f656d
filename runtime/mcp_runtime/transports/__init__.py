"""The transports: stdio, Streamable HTTP, the HTTP+SSE transport of 2024, and in memory."""

from typing import TYPE_CHECKING

from .._lazy import lazy_module

if TYPE_CHECKING:
    from .http_client.connection import HTTPOptions as HTTPOptions
    from .http_server.app import HTTPLimits as HTTPLimits
    from .http_server.app import MCPASGIApp as MCPASGIApp
    from .http_server.event_store import EventStore as EventStore
    from .http_server.event_store import InMemoryEventStore as InMemoryEventStore
    from .http_server.run import listen as listen

__all__ = ["EventStore", "HTTPLimits", "HTTPOptions", "InMemoryEventStore", "MCPASGIApp", "listen"]

__getattr__, __dir__ = lazy_module(
    __name__,
    names={
        "HTTPOptions": "http_client.connection",
        "HTTPLimits": "http_server.app",
        "MCPASGIApp": "http_server.app",
        "EventStore": "http_server.event_store",
        "InMemoryEventStore": "http_server.event_store",
        "listen": "http_server.run",
    },
)
