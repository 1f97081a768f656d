"""A server's refusal of the first request goes in; what it speaks instead, and who may go on with it, come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..errors import HTTPStatusError, RemoteJSONRPCError
from ..protocol.models import is_list, is_object
from ..protocol.revision import Revision
from ..session.interfaces import Candidate

EndpointT = TypeVar("EndpointT")


def supported_versions(error: RemoteJSONRPCError | HTTPStatusError) -> list[Any]:
    """The revisions that a server says it speaks, in refusing another."""
    told = error.data if isinstance(error, RemoteJSONRPCError) else None
    said = told.get("supported") if is_object(told) else None
    return said if is_list(said) else []


def legacy_candidates(
    revision: Revision, error: RemoteJSONRPCError | HTTPStatusError, candidates: Sequence[Candidate[EndpointT]]
) -> Sequence[Candidate[EndpointT]]:
    """The candidates that may go on with a server that gave this answer to the first request of a revision; raises it
    again where it says nothing of what the server speaks."""
    from ..http.client_rules import (
        may_know_other_lifecycle,  # Not loaded where no server refuses.
    )

    code = error.code if isinstance(error, RemoteJSONRPCError) else 0
    shaking = [each for each in candidates if each.stateful]
    if not shaking or may_know_other_lifecycle(error.status, code, revision):
        return shaking
    spoken = supported_versions(error)
    if not spoken:
        raise error
    return [each for each in shaking if each.revision_id in spoken]
