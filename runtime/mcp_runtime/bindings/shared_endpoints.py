"""What the HTTP endpoint of a server shares with those of other workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..server.core import ServerCore
from ..server.sharing.server_sharing import ServerSharing
from ..session.interfaces import Service
from ..session.tracing import metrics_module
from ..stores.primitives import Store
from ..stores.store_urls import open_store
from ..transports.http_shared.shared_endpoint import SharedEndpoint

if TYPE_CHECKING:
    from ..auth.resource_server.protection import ResourceServer


def share_endpoint(
    store: str | Store, services: Sequence[Service], auth: ResourceServer | None = None
) -> SharedEndpoint | None:
    """Return what an endpoint shares over a store, a URL or a Store; None for "memory".

    Args:
        store: The store.
        services: The servers of the endpoint.
        auth: What authenticates its requests, if anything does.
    """
    opened, origin = open_store("asgi", store), services[-1].origin
    assert isinstance(origin, ServerCore), "a service has a server"
    if opened is None:
        return None
    if (metrics := metrics_module("metered_store")) is not None:
        opened = metrics.MeteredStore(opened)
    queue = origin._open_queue(store)  # pyright: ignore[reportPrivateUsage]
    endpoint = SharedEndpoint(opened, ServerSharing(origin), origin.name, queue)
    if auth is not None and hasattr(auth, "share"):  # Users may have written their own.
        auth.share(endpoint.worker.store, endpoint.worker.key("dpop"))
    return endpoint
