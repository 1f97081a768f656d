"""Cache hints: how long clients may cache the results of a server's handlers.

MCP specification, https://modelcontextprotocol.io/specification/draft/server/utilities/caching
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..endpoint.checks import Handler
from ..errors import LocalError
from ..protocol.revision import Request, Sent
from ..usage.keywords import checked_fields
from ..usage.rules import instance

if TYPE_CHECKING:
    from pydantic import BaseModel

_MAX_TTL = 2**53 // 1000  # Seconds; more milliseconds are not an exact integer in every language.


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
