"""A server's refusal of the first request goes in; what it speaks instead, and who may go on with it, come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..errors import ErrorResponse, Rejected
from ..spec import Revision
from ..wire import is_list, is_object
from .face import Speaking

FaceT = TypeVar("FaceT")


def supported(refused: ErrorResponse | Rejected) -> list[Any]:
    """The revisions that a server says it speaks, in refusing another."""
    told = refused.data if isinstance(refused, ErrorResponse) else None
    said = told.get("supported") if is_object(told) else None
    return said if is_list(said) else []


def older(
    revision: Revision, refused: ErrorResponse | Rejected, candidates: Sequence[Speaking[FaceT]]
) -> Sequence[Speaking[FaceT]]:
    """The candidates that may go on with a server that gave this answer to the first request of a revision; raises it
    again where it says nothing of what the server speaks."""
    from ..http.asking import speaks_otherwise  # Not loaded where no server refuses.

    code = refused.code if isinstance(refused, ErrorResponse) else 0
    shaking = [each for each in candidates if each.shakes_hands]
    if not shaking or speaks_otherwise(refused.status, code, revision):
        return shaking
    spoken = supported(refused)
    if not spoken:
        raise refused
    return [each for each in shaking if each.speaks in spoken]
