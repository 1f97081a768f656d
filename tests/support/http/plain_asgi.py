"""An application for servers of other projects, `support.http.plain_asgi:application`, with small limits."""

from __future__ import annotations

import asyncio

from mcp_generated import App
from mcp_generated.http import HTTPLimits

MAX_BODY, MAX_PARTS = 20_000, 2_000

_served = App("elsewhere")
_calls = {"running": 0, "cancelled": 0}


@_served.tool()
def echo(text: str) -> str:
    return text


@_served.tool()
async def wait() -> str:
    _calls["running"] += 1
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        _calls["cancelled"] += 1
        raise
    return "never"


@_served.tool()
def calls() -> dict[str, int]:
    return _calls


application = _served.asgi(limits=HTTPLimits(max_body=MAX_BODY, max_parts=MAX_PARTS, body_timeout=1.0))
