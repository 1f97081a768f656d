"""The first messages of a connection, and the protocol version of its transport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..errors import HTTPStatusError, MCPError, RemoteJSONRPCError, RequestTimeoutError
from ..protocol.models import is_list, is_object
from ..protocol.revision import Notification, Revision
from ..session.interfaces import Candidate, RequestTransport
from ..session.requests import RequestOptions
from ..session.session import Session

if TYPE_CHECKING:
    from ..endpoint.base import Endpoint

EndpointT = TypeVar("EndpointT", bound="Endpoint")

_log: Final = logging.getLogger(__name__)
_NO_RESPONSE_SECONDS: Final = 5.0  # Seconds without a response after which a server may have a handshake lifecycle.


def discovery_options(
    options: RequestOptions, session: Session, candidates: Sequence[Candidate[EndpointT]]
) -> RequestOptions:
    """Return the options of the first request: with a short timeout if old servers may not respond to it.

    Old servers over stdio may ignore what precedes `initialize`; over HTTP they respond to each request. See
    https://modelcontextprotocol.io/specification/draft/basic/transports#stdio (backward compatibility)
    """
    if isinstance(session.transport, RequestTransport) or not any(candidate.stateful for candidate in candidates):
        return options
    timeout = _NO_RESPONSE_SECONDS if options.timeout is None else min(_NO_RESPONSE_SECONDS, options.timeout / 2)
    return replace(options, timeout=timeout)


def supported_versions(error: MCPError) -> list[Any]:
    """Return the protocol versions that an error lists as supported; an empty list if it lists none."""
    data = error.data if isinstance(error, RemoteJSONRPCError) else None
    versions = data.get("supported") if is_object(data) else None
    return versions if is_list(versions) else []


def set_transport_revision(
    session: Session, revision: Revision, candidates: Sequence[Candidate[EndpointT]] = ()
) -> None:
    """Set the protocol version of a transport that adapts to it, and all versions that the client accepts."""
    if isinstance(session.transport, RequestTransport):
        session.transport.set_revision(revision, lambda: (candidate.get().revision for candidate in candidates))


async def send_initialized(session: Session, row: Notification, began: float, seconds: float | None) -> None:
    """Send the notification that ends the handshake; raise RequestTimeoutError if the server has not accepted it
    `seconds` after `began`, a time of the event loop.

    A server that refuses it has answered before, and most go on to: those that know no notifications, for instance.
    """
    try:
        async with asyncio.timeout_at(None if seconds is None else began + seconds):
            await session.send_notification(row, None)
    except TimeoutError:
        raise RequestTimeoutError(f"{row.method!r}: the server did not accept it within {seconds:g} s") from None
    except (HTTPStatusError, RemoteJSONRPCError) as error:
        if error.status in (401, 403):
            raise
        _log.warning("the server has refused %r: %s", row.method, error)
