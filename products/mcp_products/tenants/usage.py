"""What each request has used, for bills and metrics of tenants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Literal

from mcp_runtime.aio import clock
from mcp_runtime.protocol.connection import RequestReceived
from mcp_runtime.protocol.jsonrpc import serialize
from mcp_runtime.protocol.models import PreSerialized
from mcp_runtime.protocol.records import records

from .limits import LimitError

_log: Final = logging.getLogger("mcp_runtime.tenants.usage")

Outcome = Literal["result", "error", "refused", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one request has used.

    Attributes:
        tenant: The tenant.
        method: The method of the request.
        tool: The tool that was called; None for another request.
        began: When it began, in seconds since 1970.
        seconds: How long it took.
        cost: Its cost units; 0 for a refused request.
        bytes_received: Bytes of its params as JSON.
        bytes_sent: Bytes of its result as JSON.
        outcome: "result", "error", "refused" by a limit, or "cancelled".
        limit: The limit that has refused it; None for others.
    """

    tenant: str
    method: str
    tool: str | None
    began: float
    seconds: float
    cost: float
    bytes_received: int
    bytes_sent: int
    outcome: Outcome
    limit: str | None = None


OnUsage = Callable[[Usage], object]


def size_of(value: Any) -> int:
    """Return the bytes of params or of a result as JSON."""
    if value is None:
        return 0
    if type(value) is PreSerialized:
        value = value.value
    return len(value if isinstance(value, bytes) else serialize(records().as_model(value)))


async def metered(
    on_usage: OnUsage, tenant: str, message: RequestReceived, cost: float, handle: Callable[[], Awaitable[Any]]
) -> Any:
    """Return the result of a request, and report what it has used. A report that fails is logged, and harms no request.

    Args:
        on_usage: Gets the record.
        tenant: The name of the tenant.
        message: The request.
        cost: Its cost units.
        handle: Handles it.
    """
    began, clock_began, received = clock.wall(), perf_counter(), size_of(message.params)
    tool: str | None = message.params.name if message.row.name == "call_tool" else None
    method, sent, limit = message.row.method, 0, None
    outcome: Outcome = "error"
    try:
        result = await handle()
        sent, outcome = size_of(result), "result"
        return result
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    except LimitError as error:
        outcome, limit = "refused", error.limit
        raise
    finally:
        used = Usage(
            tenant=tenant,
            method=method,
            tool=tool,
            began=began,
            seconds=perf_counter() - clock_began,
            cost=0.0 if outcome == "refused" else cost,
            bytes_received=received,
            bytes_sent=sent,
            outcome=outcome,
            limit=limit,
        )
        try:
            on_usage(used)
        except Exception:
            _log.exception("the use of the tenant %r was not reported", tenant)
