"""The trace that is current goes into the metadata of what is asked, and comes out of it where the handler runs.

Metadata carries it as W3C Trace Context and Baggage have it (2026: basic, OpenTelemetry trace context). OpenTelemetry is
never loaded from here: where nothing else has, there is no trace.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

from ..peer import Asked, Told
from ..seams import Speaker
from .meta import meta_of

Handle = Callable[[Speaker, Asked | Told], Awaitable[Any]]

_LOADED: Final = "opentelemetry"
_KEYS: Final = ("traceparent", "tracestate", "baggage")
_LONGEST: Final = 8192  # Characters of one value, as W3C Baggage has it.


def is_tracing() -> bool:
    """Whether there can be a trace in this process."""
    return _LOADED in sys.modules


def trace() -> dict[str, str]:
    """The current trace and baggage, as metadata; nothing where there is none."""
    carrier: dict[str, str] = {}
    if is_tracing():
        for each in _propagators():
            each.inject(carrier)
    return {key: carrier[key] for key in _KEYS if key in carrier}


def in_trace(handle: Handle) -> Handle:
    """What handles messages, each with the trace of its metadata as the current one."""

    def handle_in_trace(session: Speaker, message: Asked | Told) -> Awaitable[Any]:
        return within_trace(handle, session, message) if is_tracing() else handle(session, message)

    return handle_in_trace


async def within_trace(handle: Handle, session: Speaker, message: Asked | Told) -> Any:
    """Handle a message with the trace of its metadata as the current one."""
    meta = meta_of(message)
    carrier = {key: value for key in _KEYS if isinstance(value := meta.get(key), str) and len(value) <= _LONGEST}
    if not carrier:
        return await handle(session, message)
    from opentelemetry.context import attach, detach, get_current

    context = get_current()
    for each in _propagators():
        context = each.extract(carrier, context)
    token = attach(context)
    try:
        return await handle(session, message)
    finally:
        detach(token)


@cache
def _propagators() -> tuple[Any, ...]:
    # Not those that the process has chosen for itself: the specification names these two.
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator(), W3CBaggagePropagator()
