"""The protocol versions to fall back to after a server has rejected the first request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from mcp_runtime.client.negotiation import supported_versions
from mcp_runtime.errors import HTTPStatusError, RemoteError, RemoteJSONRPCError, RequestTimeoutError
from mcp_runtime.http.client_rules import may_know_other_lifecycle
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.revision import Revision
from mcp_runtime.session.interfaces import Candidate

if TYPE_CHECKING:
    from mcp_runtime.endpoint.base import Endpoint

EndpointT = TypeVar("EndpointT", bound="Endpoint")
OpeningError: TypeAlias = RemoteError | RequestTimeoutError

# The constant of the error for a version that the server does not support.
UNSUPPORTED_VERSION: Final = "UNSUPPORTED_PROTOCOL_VERSION"


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
    stateful = [candidate for candidate in candidates if candidate.stateful]
    if isinstance(error, RequestTimeoutError):
        return stateful
    if not isinstance(error, (RemoteJSONRPCError, HTTPStatusError)):  # An answer that nobody can read, such as a page.
        if not stateful:
            raise error
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
