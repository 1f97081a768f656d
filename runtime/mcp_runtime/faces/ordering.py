"""Handlers of lists go in; they come out noting where the same things come in another order than before (2026:
server/tools, Capabilities): what clients and models keep of a list would be of no use to them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel

from ..exchange import log
from ..spec import Request, Sent
from ..wire import is_list
from .guards import Handler

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
                log.warning("%r: the same list came in another order; clients cannot keep what they make of it", method)
        return answer

    return watched


def _names(result: Any) -> _Names:
    """What tells the items of the answer's list apart; nothing, where they have neither a URI nor a name."""
    fields: Iterable[Any] = vars(result).values() if isinstance(result, BaseModel) else ()
    items = next((value for value in fields if is_list(value)), None) or []
    return tuple(str(next((found for key in _KEYS if (found := getattr(each, key, None))), "")) for each in items)
