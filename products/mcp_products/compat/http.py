"""`TransportSecuritySettings` of the official SDK: the hosts and origins that a server accepts."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import Any, Final, cast

from pydantic_core import from_json

from mcp_products.app.app import BaseApp
from mcp_products.app.settings import AppKeywords
from mcp_runtime.bindings.arguments import HTTPServerSettings
from mcp_runtime.protocol.models import is_list
from mcp_runtime.transports.http_server.events import InMemoryEventStore

from .forms.form import FORM, written

_log: Final = logging.getLogger("mcp_runtime.compat.http")
_OFFICIAL: Final = frozenset(
    "request_state_security transport_security host_origin_protection allowed_hosts allowed_origins".split()
    + "list_page_size strict_input_validation subscriptions".split()
)

# Keywords of FastMCP that an `App` has under other names.
_RENAMED: Final = {"list_page_size": "page_size", "allowed_hosts": "hosts", "allowed_origins": "origins"}


@dataclass
class TransportSecuritySettings:
    """The Host and Origin headers to accept; a port may be `*`."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = field(default_factory=list[str])
    allowed_origins: list[str] = field(default_factory=list[str])

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `asgi`."""
        if not self.enable_dns_rebinding_protection:
            return {"hosts": ["*"], "origins": ["*"]}
        hosts = [host.removesuffix(":*") for host in self.allowed_hosts]
        return {"hosts": hosts, "origins": [origin.removesuffix(":*") for origin in self.allowed_origins]}


LOCAL: Final = TransportSecuritySettings(
    allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
    allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
)
"""The headers that a server of this machine accepts."""


# `EventStore` of the official SDK: asynchronous storage for the messages of SSE streams.


@dataclass
class EventMessage:
    """A message of an SSE stream, and the id of its event."""

    message: Any
    event_id: str | None = None


class StreamEventStore(ABC):
    """`EventStore` of the official SDK: asynchronous storage for the messages of SSE streams."""

    @abstractmethod
    async def store_event(self, stream_id: str, message: Any) -> str:
        """Store a message, and return the id of its event."""

    @abstractmethod
    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        """Send the messages after an event, and return the id of the stream."""


class ForwardingEventStore(InMemoryEventStore):
    """Passes the messages of streams to an event store of the official SDK, in order.

    Streams resume from memory: a session ends with its process, so a store has nothing that the memory has not.
    """

    def __init__(self, store: Any) -> None:
        """Create a store that passes all messages to `store`, which has `store_event`."""
        super().__init__()
        self._store = store
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._forwarding: asyncio.Task[None] | None = None

    def add(self, stream: str, number: int, message: bytes) -> None:
        """Store a message."""
        super().add(stream, number, message)
        self._waiting.append((stream, message))
        if self._forwarding is None:
            self._forwarding = asyncio.get_running_loop().create_task(self._forward())

    async def _forward(self) -> None:
        while self._waiting:
            stream, message = self._waiting.popleft()
            try:
                await self._store.store_event(stream, FORM.message(from_json(message)))
            except Exception:
                _log.exception("%s.store_event failed", type(self._store).__name__)
        self._forwarding = None


def to_event_store(store: Any) -> Any:
    """Return an event store of this package for one of either kind."""
    return ForwardingEventStore(store) if hasattr(store, "store_event") else store


# The keywords of servers of the official SDK, with the values that this package takes.


@cache
def _optional() -> frozenset[str]:
    """Return the keywords whose value None is the default."""
    named = (
        *signature(cast(Any, BaseApp).__init__).parameters,
        *AppKeywords.__annotations__,
        *HTTPServerSettings.__annotations__,
    )
    return _OFFICIAL.union(named)


def plain(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords with the types of the official SDK, such as `ToolAnnotations` and lists of `Icon`, as dicts."""
    return {
        name: [_as_dict(item) for item in value] if is_list(value) else _as_dict(value)
        for name, value in keywords.items()
    }


def _as_dict(value: Any) -> Any:
    return written(value) if isinstance(value, FORM.types.MCPModel) else value


def translated(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords of a server, of `run` and of HTTP applications as `App` takes them; None is the default."""
    given = {name: value for name, value in keywords.items() if value is not None or name not in _optional()}
    settings = plain({_RENAMED.get(name, name): value for name, value in given.items()})
    if "strict_input_validation" in settings:
        settings["coerce"] = not settings.pop("strict_input_validation")
    if settings.pop("host_origin_protection", None) is False:
        settings |= {"hosts": ["*"], "origins": ["*"]}
    if (store := settings.get("event_store")) is not None:
        settings["event_store"] = to_event_store(store)
    if (security := settings.pop("request_state_security", None)) is not None:
        settings["keys"] = security.key_ring()
    if (security := settings.pop("transport_security", None)) is not None:
        settings |= security.keywords()
    return settings
