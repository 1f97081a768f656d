"""What a tenant may use: a table of the limits, and the rules of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from mcp_runtime.aio.rates import RateLimit
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.usage.keywords import checked_fields
from mcp_runtime.usage.rules import COUNT, instance

_RATE: Final = instance(RateLimit, "a RateLimit, such as RateLimit(10, burst=50)").or_none()


class LimitKind(NamedTuple):
    """What one limit counts.

    Attributes:
        counts: What it counts, for errors.
        wait: Seconds after which what is held may be free again; None for a rate, which says itself when it is.
        in_debt: Whether a request that finds anything left may take more than that: its size is known too late.
    """

    counts: str
    wait: float | None = None
    in_debt: bool = False


# limit -> what it counts. Every limit that there is stands here, and nowhere else.
KINDS: Final[dict[str, LimitKind]] = {
    "calls": LimitKind("requests"),
    "cost": LimitKind("cost units of tools"),
    "bytes": LimitKind("bytes of params and results", in_debt=True),
    "at_once": LimitKind("requests that run at the same time", 1.0),
    "sessions": LimitKind("open sessions", 10.0),
    "subscriptions": LimitKind("open subscriptions", 10.0),
    "tasks": LimitKind("tasks that have not ended", 5.0),
}


@checked_fields(rules={name: COUNT.or_none() if kind.wait else _RATE for name, kind in KINDS.items()})
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one tenant may use, of all workers together. None means no limit.

    Args:
        calls: Requests a second: calls of tools, reads, prompts, completions, lists, and all others but `ping`,
            `initialize` and the discovery of a server.
        cost: Cost units of tools a second. A tool costs what it declares, or else 1.
        bytes: Bytes a second of params and results. A result may exceed what is left; the next request waits for it.
        at_once: Requests that run at the same time.
        sessions: Sessions that are open, in versions that have them.
        subscriptions: Streams of subscriptions that are open; in versions with sessions, subscribed resources.
        tasks: Tasks that have not ended.

    Raises LocalError for a wrong value.
    """

    calls: RateLimit | None = None
    cost: RateLimit | None = None
    bytes: RateLimit | None = None
    at_once: int | None = None
    sessions: int | None = None
    subscriptions: int | None = None
    tasks: int | None = None


class LimitError(JSONRPCError):
    """The error of a request above a limit. `data` has the limit and the seconds to wait, `limit` and `retryAfter`."""

    def __init__(self, message: str, limit: str, wait: float) -> None:
        super().__init__(INTERNAL_ERROR, message, {"limit": limit, "retryAfter": round(wait, 3)})
        self.limit = limit
