"""The protocol versions of a connection: those to fall back to after a server has rejected the first request, and that
of the transport."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from ..errors import HTTPStatusError, RemoteJSONRPCError, RequestTimeoutError
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.models import is_list, is_object
from ..protocol.revision import Notification, Revision
from ..session.interfaces import Candidate, RequestTransport
from ..session.requests import RequestOptions
from ..session.session import Session

if TYPE_CHECKING:
    from ..endpoint.base import Endpoint

EndpointT = TypeVar("EndpointT", bound="Endpoint")
OpeningError: TypeAlias = RemoteJSONRPCError | HTTPStatusError | RequestTimeoutError

# The constant of the error for a version that the server does not support.
UNSUPPORTED_VERSION: Final = "UNSUPPORTED_PROTOCOL_VERSION"
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


def supported_versions(error: RemoteJSONRPCError | HTTPStatusError) -> list[Any]:
    """Return the protocol versions that an error lists as supported; an empty list if it lists none."""
    data = error.data if isinstance(error, RemoteJSONRPCError) else None
    versions = data.get("supported") if is_object(data) else None
    return versions if is_list(versions) else []


def other_candidates(
    revision: Revision, error: OpeningError, candidates: Sequence[Candidate[EndpointT]]
) -> Sequence[Candidate[EndpointT]]:
    """Return the other candidates that the server may support, the one to try next as the last: a stateless one that
    the error lists, or else those with a handshake lifecycle.

    Args:
        revision: The protocol version of the request that the server has rejected.
        error: The error of the server, or that of the request that it has not responded to.
        candidates: The clients of all protocol versions that may be negotiated.

    Raises the error again if it is not about the protocol version.
    """
    from ..http.client_rules import may_know_other_lifecycle

    stateful = [candidate for candidate in candidates if candidate.stateful]
    if isinstance(error, RequestTimeoutError):
        return stateful
    if others := _other_stateless(revision, error, candidates):
        return [*stateful, *others]
    code = error.code if isinstance(error, RemoteJSONRPCError) else 0
    if not stateful and code == INTERNAL_ERROR:
        raise error  # The server has failed, which says nothing about its versions.
    if not stateful or may_know_other_lifecycle(error.status, code, revision):
        return stateful
    versions = supported_versions(error)
    if not versions:
        raise error
    return [candidate for candidate in stateful if candidate.revision_id in versions]


def _other_stateless(
    revision: Revision, error: RemoteJSONRPCError | HTTPStatusError, candidates: Sequence[Candidate[EndpointT]]
) -> Sequence[Candidate[EndpointT]]:
    """Return the stateless candidates that an error about the version lists; all others if it lists none."""
    others = [item for item in candidates if not item.stateful and item.revision_id != revision.id]
    versions = supported_versions(error)
    if versions:
        return [candidate for candidate in others if candidate.revision_id in versions]
    unsupported = revision.constants.get(UNSUPPORTED_VERSION)
    return others if isinstance(error, RemoteJSONRPCError) and error.code == unsupported else ()


def set_transport_revision(
    session: Session, revision: Revision, candidates: Sequence[Candidate[EndpointT]] = ()
) -> None:
    """Set the protocol version of a transport that adapts to it, and all versions that the client accepts."""
    if isinstance(session.transport, RequestTransport):
        session.transport.set_revision(revision, lambda: (candidate.get().revision for candidate in candidates))


async def send_initialized(session: Session, row: Notification, began: float, seconds: float | None) -> None:
    """Send the notification that ends the handshake; raise RequestTimeoutError if the server has not accepted it
    `seconds` after `began`, a time of the event loop."""
    try:
        async with asyncio.timeout_at(None if seconds is None else began + seconds):
            await session.send_notification(row, None)
    except TimeoutError:
        raise RequestTimeoutError(f"{row.method!r}: the server did not accept it within {seconds:g} s") from None
