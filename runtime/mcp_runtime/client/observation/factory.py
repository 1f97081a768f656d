"""Makes the observers and the sessions of clients; what only some clients need is imported when they need it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ...protocol.connection import Connection
from ...session.interfaces import RequestTransport, Transport
from ...session.session import Session
from ...session.tracing import Handle

if TYPE_CHECKING:
    from .observer import ClientObserver

_calls: Final = logging.getLogger("mcp_runtime.client.calls")


def new_observer() -> ClientObserver:
    """Return an observer without callbacks."""
    from .observer import ClientObserver

    return ClientObserver()


def observer_for_log() -> ClientObserver | None:
    """Return an observer if the calls of clients are logged, else None."""
    return new_observer() if _calls.isEnabledFor(logging.DEBUG) else None


def open_session(
    observer: ClientObserver | None, connection: Connection, transport: Transport | RequestTransport, handle: Handle
) -> Session:
    """Return the session of a client. Without an observer it does nothing besides."""
    if observer is None:
        return Session(connection, transport, handle)
    from .observed_session import ObservedSession

    return ObservedSession(observer, connection, transport, handle)
