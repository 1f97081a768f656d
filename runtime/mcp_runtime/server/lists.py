"""Lists of a server: pagination, and a warning if the order of a list changes between requests."""

from __future__ import annotations

import base64
import binascii
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from ..endpoint.checks import Handler
from ..errors import JSONRPCError, LocalError
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.models import PreSerialized, is_list, is_model, is_object
from ..protocol.revision import Request, Sent
from ..usage.keywords import checked_fields
from ..usage.rules import instance

if TYPE_CHECKING:
    from pydantic import BaseModel

_log: Final = logging.getLogger(__name__)

_MAX_PAGES: Final = 100  # Pages of one list whose order is remembered.
_ITEM_KEYS: Final = ("uri", "uri_template", "name")
_Names = tuple[str, ...]
T = TypeVar("T")
_CURSOR_PREFIX: Final = b"from "
_MAX_TTL = 2**53 // 1000  # Seconds; more milliseconds are not an exact integer in every language.


def warn_on_reordering(handlers: dict[str, Handler], rows: Iterable[Sent]) -> None:
    """Wrap the handlers of paginated lists: each logs one warning if the same items come in another order.

    Clients and models cannot cache what they derive from a list whose order changes. See
    https://modelcontextprotocol.io/specification/draft/server/tools#capabilities
    """
    for row in rows:
        if isinstance(row, Request) and row.paginated and row.method in handlers:
            handlers[row.method] = _with_order_check(row.method, handlers[row.method])


def _with_order_check(method: str, handler: Handler) -> Handler:
    names_by_cursor: OrderedDict[str | None, _Names] = OrderedDict()
    has_warned = False

    async def handle(ctx: Any, params: Any) -> Any:
        nonlocal has_warned
        result = await handler(ctx, params)
        if not has_warned:
            names, previous = _item_names(result), names_by_cursor.get(params.cursor)
            names_by_cursor[params.cursor] = names
            if len(names_by_cursor) > _MAX_PAGES:
                names_by_cursor.popitem(last=False)
            if previous is not None and previous != names and sorted(previous) == sorted(names):
                has_warned = True
                _log.warning(
                    "%r: the same list came in another order; return items in a stable order, so that clients can"
                    " cache the list",
                    method,
                )
        return result

    return handle


def _item_names(result: Any) -> _Names:
    """Return the URI or the name of each item of a result's list; empty strings for items that have neither."""
    if type(result) is PreSerialized:
        result = result.value  # JSON, or a model that is the same in the version of the connection.
    if is_object(result):
        values: Iterable[Any] = result.values()
        listed: list[Any] = next(filter(is_list, values), list[Any]())
        return tuple([str(item.get("uri") or item.get("uriTemplate") or item.get("name") or "") for item in listed])
    fields: Iterable[Any] = vars(result).values() if is_model(result) else ()
    items = next((value for value in fields if is_list(value)), None) or []
    return tuple([str(next(filter(None, (getattr(item, key, None) for key in _keys(item))), "")) for item in items])


def _keys(item: Any) -> Sequence[str]:
    return _keys_of(cast(Any, type(item)))


@lru_cache(maxsize=64)
def _keys_of(item_type: type[Any]) -> Sequence[str]:
    """Return the properties that may name an item: a model looks long for one that it does not have."""
    fields = getattr(item_type, "__pydantic_fields__", _ITEM_KEYS)
    return [key for key in _ITEM_KEYS if key in fields]


def paginate(items: Sequence[T], cursor: str | None, size: int = 50) -> tuple[list[T], str | None]:
    """Return one page of a list, and the cursor of the next page, None after the last page.

    See https://modelcontextprotocol.io/specification/draft/server/utilities/pagination

    Args:
        items: The whole list.
        cursor: The cursor of the request; None for the first page.
        size: The maximum number of items on a page.

    Raises JSONRPCError (invalid params) for a cursor that this function did not create, or that is past the end.
    """
    start = 0 if cursor is None else _offset(cursor)
    if cursor is not None and start >= len(items):
        raise JSONRPCError(INVALID_PARAMS, "the cursor is past the end of the list; request the list without a cursor")
    end = start + size
    next_cursor = base64.urlsafe_b64encode(_CURSOR_PREFIX + str(end).encode()).decode() if end < len(items) else None
    return list(items[start:end]), next_cursor


def _offset(cursor: str) -> int:
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        text = b""
    digits = text.removeprefix(_CURSOR_PREFIX)
    if not text.startswith(_CURSOR_PREFIX) or not digits.isdigit() or len(digits) > 12:
        raise JSONRPCError(INVALID_PARAMS, "the cursor is not one that this server sent")
    return int(digits)


# Cache hints: how long clients may cache the results of a server's handlers.
#
# MCP specification, https://modelcontextprotocol.io/specification/draft/server/utilities/caching


@checked_fields(rules={"ttl": instance((int, float), "a number of seconds")})
@dataclass(frozen=True, slots=True)
class CacheHint:
    """A cache hint: the time to live and the scope of a result in the caches of clients.

    See https://modelcontextprotocol.io/specification/draft/server/utilities/caching

    Args:
        ttl: The time to live of the result, in seconds; 0 forbids to cache it.
        scope: "private" (the default) if the result depends on the user, "public" if it is the same for every user.

    Raises LocalError for a negative or too large `ttl`, and for another `scope`.
    """

    ttl: float
    scope: Literal["private", "public"] = "private"

    def __post_init__(self) -> None:
        if not 0 <= self.ttl <= _MAX_TTL:
            raise LocalError(f"CacheHint(): ttl must be a number of seconds from 0; {self.ttl!r} is not")
        if self.scope not in ("private", "public"):
            raise LocalError(f"CacheHint(): scope must be 'private' or 'public'; {self.scope!r} is not")

    def fields(self) -> dict[str, Any]:
        """Return the attributes of a result that carry this hint."""
        return {"ttl_ms": round(self.ttl * 1000), "cache_scope": self.scope}


def add_cache_hints(handlers: dict[str, Handler], rows: Iterable[Sent], cache_hints: Mapping[str, CacheHint]) -> None:
    """Wrap handlers so that their results carry cache hints. Hints that a handler sets itself take precedence.

    Args:
        handlers: The handlers by method; wrapped in place.
        rows: The rows of all messages that the server receives.
        cache_hints: The hints by handler name, such as "list_tools".

    Raises LocalError for a name whose result cannot be cached.
    """
    if not cache_hints:  # The types of the results are not needed.
        return
    cacheable = {row.name: row for row in rows if isinstance(row, Request) and row.cacheable}
    for name, cache_hint in cache_hints.items():
        if name not in cacheable:
            names = ", ".join(cacheable) or "none"
            raise LocalError(
                f"cache_hints: results of {name!r} cannot be cached; results of these handlers can: {names}"
            )
        method = cacheable[name].method
        if method in handlers:
            handlers[method] = _with_cache_hint(handlers[method], cacheable[name].result, cache_hint.fields())


def _with_cache_hint(handler: Handler, result_type: type[BaseModel], fields: Mapping[str, Any]) -> Handler:
    async def handle(ctx: Any, params: Any) -> Any:
        result = await handler(ctx, params)
        if not isinstance(result, result_type):
            return result
        update = {name: value for name, value in fields.items() if name not in result.model_fields_set}
        return result.model_copy(update=update)

    return handle
