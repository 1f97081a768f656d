"""What the HTTP endpoint of a server shares with those of other workers."""

from __future__ import annotations

from collections.abc import Sequence

from ..server.core import ServerCore
from ..server.sharing.server_sharing import ServerSharing
from ..session.interfaces import Service
from ..stores.primitives import Store
from ..stores.store_urls import open_store
from ..transports.http_shared.shared_endpoint import SharedEndpoint


def share_endpoint(store: str | Store, services: Sequence[Service]) -> SharedEndpoint | None:
    """Return what an endpoint shares over a store, a URL or a Store; None for "memory"."""
    opened, origin = open_store("asgi", store), services[-1].origin
    assert isinstance(origin, ServerCore), "a service has a server"
    return None if opened is None else SharedEndpoint(opened, ServerSharing(origin), origin.name)
