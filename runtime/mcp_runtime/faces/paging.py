"""A list and a cursor go in, one page of it and the next cursor come out; for handlers of list requests."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final, TypeVar

from ..errors import JSONRPCError
from ..jsonrpc import INVALID_PARAMS

T = TypeVar("T")

_MARK: Final = b"from "


def paginate(items: Sequence[T], cursor: str | None, size: int = 50) -> tuple[list[T], str | None]:
    """The page of at most `size` items that the cursor points to, and the cursor of the one after it.

    Raises JSONRPCError (invalid params) for a cursor that this function did not make, or that points past the end.
    """
    start = 0 if cursor is None else _offset(cursor)
    if cursor is not None and start >= len(items):
        raise JSONRPCError(INVALID_PARAMS, "the cursor is of a list that is shorter now; start again without one")
    end = start + size
    following = base64.urlsafe_b64encode(_MARK + str(end).encode()).decode() if end < len(items) else None
    return list(items[start:end]), following


def _offset(cursor: str) -> int:
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        text = b""
    digits = text.removeprefix(_MARK)
    if not text.startswith(_MARK) or not digits.isdigit() or len(digits) > 12:
        raise JSONRPCError(INVALID_PARAMS, "the cursor is not one that this server gave")
    return int(digits)
