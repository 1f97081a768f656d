"""The transports: stdio, Streamable HTTP, HTTP+SSE of 2024, in memory; and the stores of HTTP endpoints."""

from typing import TYPE_CHECKING

from .._lazy import lazy_module

if TYPE_CHECKING:
    from ..stores.in_memory import InMemoryStore as InMemoryStore
    from ..stores.primitives import Store as Store
    from ..stores.primitives import StoreUnavailableError as StoreUnavailableError
    from ..stores.redis_store import RedisStore as RedisStore
    from ..stores.sqlite_store import SQLiteStore as SQLiteStore
    from .http_client.connection import HTTPOptions as HTTPOptions
    from .http_server.app import HTTPLimits as HTTPLimits
    from .http_server.app import MCPASGIApp as MCPASGIApp
    from .http_server.event_store import EventStore as EventStore
    from .http_server.event_store import InMemoryEventStore as InMemoryEventStore
    from .http_server.run import listen as listen

__all__ = [
    "EventStore",
    "HTTPLimits",
    "HTTPOptions",
    "InMemoryEventStore",
    "InMemoryStore",
    "MCPASGIApp",
    "RedisStore",
    "SQLiteStore",
    "Store",
    "StoreUnavailableError",
    "listen",
]

__getattr__, __dir__ = lazy_module(
    __name__,
    names={
        "HTTPOptions": "http_client.connection",
        "HTTPLimits": "http_server.app",
        "MCPASGIApp": "http_server.app",
        "EventStore": "http_server.event_store",
        "InMemoryEventStore": "http_server.event_store",
        "listen": "http_server.run",
        "InMemoryStore": ".stores.in_memory",
        "RedisStore": ".stores.redis_store",
        "SQLiteStore": ".stores.sqlite_store",
        "Store": ".stores.primitives",
        "StoreUnavailableError": ".stores.primitives",
    },
)
