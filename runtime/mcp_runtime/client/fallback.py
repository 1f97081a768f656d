"""Fall back to another protocol version after a server has rejected the first request of a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..errors import HTTPStatusError, RemoteJSONRPCError
from ..protocol.models import is_list, is_object
from ..protocol.revision import Revision
from ..session.interfaces import Candidate

EndpointT = TypeVar("EndpointT")


def supported_versions(error: RemoteJSONRPCError | HTTPStatusError) -> list[Any]:
    """Return the protocol versions that an error lists as supported; an empty list if it lists none."""
    data = error.data if isinstance(error, RemoteJSONRPCError) else None
    versions = data.get("supported") if is_object(data) else None
    return versions if is_list(versions) else []


def legacy_candidates(
    revision: Revision, error: RemoteJSONRPCError | HTTPStatusError, candidates: Sequence[Candidate[EndpointT]]
) -> Sequence[Candidate[EndpointT]]:
    """Return the candidates with a handshake lifecycle that the server may support.

    Args:
        revision: The protocol version of the request that the server has rejected.
        error: The error of the server.
        candidates: The clients of all protocol versions that may be negotiated.

    Raises the error again if it is not about the protocol version.
    """
    from ..http.client_rules import (
        may_know_other_lifecycle,  # Imported late, because few servers reject the first request.
    )

    code = error.code if isinstance(error, RemoteJSONRPCError) else 0
    stateful = [candidate for candidate in candidates if candidate.stateful]
    if not stateful or may_know_other_lifecycle(error.status, code, revision):
        return stateful
    versions = supported_versions(error)
    if not versions:
        raise error
    return [candidate for candidate in stateful if candidate.revision_id in versions]
