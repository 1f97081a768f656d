"""What a server knows of how long its answers hold goes in; its handlers come out, saying so in each result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from ..endpoint.checks import Handler
from ..errors import LocalError
from ..protocol.revision import Request, Sent

_MAX_TTL = 2**53 // 1000  # Seconds; more milliseconds are no whole number in every language.


@dataclass(frozen=True, slots=True)
class CacheHint:
    """For how many seconds clients may keep a result, and for whom: `public` is the same for every user
    (2026: server/utilities/caching)."""

    ttl: float
    scope: Literal["private", "public"] = "private"

    def __post_init__(self) -> None:
        if not 0 <= self.ttl <= _MAX_TTL:
            raise LocalError(f"a result is kept for 0 seconds or more, not for {self.ttl!r}")
        if self.scope not in ("private", "public"):
            raise LocalError(f"a result is 'private' or 'public', not {self.scope!r}")

    def fields(self) -> dict[str, Any]:
        """The hint as a result has it."""
        return {"ttl_ms": round(self.ttl * 1000), "cache_scope": self.scope}


def add_cache_hints(handlers: dict[str, Handler], rows: Iterable[Sent], cache_hints: Mapping[str, CacheHint]) -> None:
    """Let the results of these handlers, by name, have hints; what a handler says itself goes first. Raises LocalError
    for a name that is none of a result that can be kept."""
    known = {row.name: row for row in rows if isinstance(row, Request) and row.cacheable}
    for name, each in cache_hints.items():
        if name not in known:
            raise LocalError(f"no result of {name!r} can be kept; those of {', '.join(known) or 'nothing'} can")
        method = known[name].method
        if method in handlers:
            handlers[method] = _with_cache_hint(handlers[method], known[name].result, each.fields())


def _with_cache_hint(handler: Handler, result: type[BaseModel], fields: Mapping[str, Any]) -> Handler:
    async def hinted(ctx: Any, params: Any) -> Any:
        answer = await handler(ctx, params)
        if not isinstance(answer, result):
            return answer
        said = answer.model_fields_set
        return answer.model_copy(update={name: value for name, value in fields.items() if name not in said})

    return hinted
