"""The trace that is current goes into the metadata of what is asked, and comes out of it where the handler runs.

Metadata carries it as W3C Trace Context and Baggage have it (2026: basic, OpenTelemetry trace context). OpenTelemetry is
never loaded from here: where nothing else has, there is no trace.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.meta import request_meta
from .interfaces import Channel

Handle = Callable[[Channel, RequestReceived | NotificationReceived], Awaitable[Any]]

_LOADED: Final = "opentelemetry"
_KEYS: Final = ("traceparent", "tracestate", "baggage")
_MAX_VALUE_LENGTH: Final = 8192  # Characters of one value, as W3C Baggage has it.


def is_tracing() -> bool:
    """Whether there can be a trace in this process."""
    return _LOADED in sys.modules


def trace_meta() -> dict[str, str]:
    """The current trace and baggage, as metadata; nothing where there is none."""
    carrier: dict[str, str] = {}
    if is_tracing():
        for each in _propagators():
            each.inject(carrier)
    return {key: carrier[key] for key in _KEYS if key in carrier}


def with_trace_context(handle: Handle) -> Handle:
    """What handles messages, each with the trace of its metadata as the current one."""

    def handle_with_context(channel: Channel, message: RequestReceived | NotificationReceived) -> Awaitable[Any]:
        return handle_in_trace(handle, channel, message) if is_tracing() else handle(channel, message)

    return handle_with_context


async def handle_in_trace(handle: Handle, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
    """Handle a message with the trace of its metadata as the current one."""
    meta = request_meta(message)
    carrier = {
        key: value for key in _KEYS if isinstance(value := meta.get(key), str) and len(value) <= _MAX_VALUE_LENGTH
    }
    if not carrier:
        return await handle(channel, message)
    from opentelemetry.context import attach, detach, get_current

    context = get_current()
    for each in _propagators():
        context = each.extract(carrier, context)
    token = attach(context)
    try:
        return await handle(channel, message)
    finally:
        detach(token)


@cache
def _propagators() -> tuple[Any, ...]:
    # Not those that the process has chosen for itself: the specification names these two.
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.trace.propagation.tracecontext import (
        TraceContextTextMapPropagator,
    )

    return TraceContextTextMapPropagator(), W3CBaggagePropagator()
