"""Handlers of lists go in; they come out noting where the same things come in another order than before (2026:
server/tools, Capabilities): what clients and models keep of a list would be of no use to them."""

from __future__ import annotations

import base64
import binascii
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from ..endpoint.checks import Handler
from ..errors import JSONRPCError
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.models import is_list
from ..protocol.revision import Request, Sent

_log: Final = logging.getLogger(__name__)

_MAX_NAMES: Final = 100  # Pages of one list that are remembered.
_KEYS: Final = ("uri", "uri_template", "name")
_Names = tuple[str, ...]


def warn_on_reordering(handlers: dict[str, Handler], rows: Iterable[Sent]) -> None:
    """Watch the handlers of lists, which are those with pages; a change of order is a warning in the log, once each."""
    for row in rows:
        if isinstance(row, Request) and row.method in handlers and "cursor" in getattr(row.params, "model_fields", ()):
            handlers[row.method] = _with_order_check(row.method, handlers[row.method])


def _with_order_check(method: str, handler: Handler) -> Handler:
    before: OrderedDict[str | None, _Names] = OrderedDict()
    told = False

    async def watched(ctx: Any, params: Any) -> Any:
        nonlocal told
        answer = await handler(ctx, params)
        if not told:
            names, last = _names(answer), before.get(params.cursor)
            before[params.cursor] = names
            if len(before) > _MAX_NAMES:
                before.popitem(last=False)
            if last is not None and last != names and sorted(last) == sorted(names):
                told = True
                _log.warning(
                    "%r: the same list came in another order; clients cannot keep what they make of it", method
                )
        return answer

    return watched


def _names(result: Any) -> _Names:
    """What tells the items of the answer's list apart; nothing, where they have neither a URI nor a name."""
    fields: Iterable[Any] = vars(result).values() if isinstance(result, BaseModel) else ()
    items = next((value for value in fields if is_list(value)), None) or []
    return tuple(str(next((found for key in _KEYS if (found := getattr(each, key, None))), "")) for each in items)


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
