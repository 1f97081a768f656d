"""OpenTelemetry trace context in the `_meta` of requests, in the formats of W3C Trace Context and W3C Baggage.

MCP specification, Basic, "OpenTelemetry Trace Context". This module never imports OpenTelemetry first: there is no
trace unless the application has imported it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

from .._lazy import load
from ..errors import LocalError
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.meta import request_meta
from ..protocol.models import is_object
from .interfaces import Channel

Handle = Callable[[Channel, RequestReceived | NotificationReceived], Awaitable[Any]]

_log: Final = logging.getLogger(__name__)

OPENTELEMETRY: Final = "opentelemetry"  # Traces are possible if `sys.modules` has it.
_TRACE: Final = f"{OPENTELEMETRY}.trace"
_CHOSEN: Final = "OTEL_PYTHON_TRACER_PROVIDER"  # The provider by the environment, which OpenTelemetry loads.
_KEYS: Final = ("traceparent", "tracestate", "baggage")
_NO_PROVIDER: Final = "_ProxyMeterProvider"  # What OpenTelemetry has until the application sets another one.
_MAX_VALUE_LENGTH: Final = 8192  # Characters of one value, the limit of W3C Baggage.


def trace_meta() -> dict[str, str]:
    """Return the current trace and baggage as keys of `_meta`; empty without a trace."""
    carrier: dict[str, str] = {}
    if OPENTELEMETRY in sys.modules:
        for propagator in _propagators():
            propagator.inject(carrier)
    return {key: carrier[key] for key in _KEYS if key in carrier}


def is_recorded() -> bool:
    """Return True if the application has a provider of traces. Libraries such as redis-py import OpenTelemetry, too."""
    trace = sys.modules.get(_TRACE)
    if trace is None:
        return False
    # To ask OpenTelemetry costs more than the rest of what is traced: it looks into the environment each time.
    if getattr(trace, "_TRACER_PROVIDER", trace) is None and not _is_chosen():
        return False
    return type(trace.get_tracer_provider()) is not trace.ProxyTracerProvider


@cache
def _is_chosen() -> bool:
    return _CHOSEN in os.environ


def is_traced(message: RequestReceived | NotificationReceived) -> bool:
    """Return True if a message gets a span, or names the trace that it is part of."""
    if OPENTELEMETRY not in sys.modules:
        return False
    return is_recorded() or _names_trace(message.params)


def _names_trace(params: Any) -> bool:
    """Return True if the `_meta` of params may have a trace. Nothing is copied, because this runs for each message."""
    meta: Any = getattr(params, "meta", None)
    if meta is None:
        further: Any = getattr(params, "__pydantic_extra__", None)
        meta = further.get("_meta") if further else None
    elif not is_object(meta):
        members: dict[str, Any] = meta.__dict__
        more: dict[str, Any] = meta.__pydantic_extra__ or {}
        return not (members.keys().isdisjoint(_KEYS) and more.keys().isdisjoint(_KEYS))
    return is_object(meta) and not meta.keys().isdisjoint(_KEYS)


def metrics_module(name: str) -> Any:
    """Return a module of `session.metrics` if the application has a provider of metrics, else None."""
    metrics = sys.modules.get(f"{OPENTELEMETRY}.metrics")
    if metrics is None or type(metrics.get_meter_provider()).__name__ == _NO_PROVIDER:
        return None
    return _metrics_module(name)


@cache
def _metrics_module(name: str) -> Any:
    try:
        return load(f"{__package__}.metrics.{name}")
    except LocalError as error:
        _log.warning("nothing is measured: %s", error)
        return None


def observe_endpoint(endpoint: object, *parts: Any) -> None:
    """Count the sessions, streams and requests of an HTTP endpoint; without parts of it, count them no more."""
    if (metrics := metrics_module("endpoint_gauges")) is not None:
        metrics.observe(endpoint, *parts)


def with_trace_context(handle: Handle) -> Handle:
    """Return a function that handles each message with the trace of its `_meta` as the current one."""

    def handle_with_context(channel: Channel, message: RequestReceived | NotificationReceived) -> Awaitable[Any]:
        return handle_in_trace(handle, channel, message) if is_traced(message) else handle(channel, message)

    return handle_with_context


async def handle_in_trace(handle: Handle, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
    """Handle a message with the trace of its `_meta` as the current one, and in a span of its own."""
    from .spans import traced

    method, revision = message.row.method, channel.connection.revision.id
    id = str(message.id) if isinstance(message, RequestReceived) else None
    attributes = {"mcp.protocol.version": revision, "jsonrpc.request.id": id}

    def handle_in_span() -> Awaitable[Any]:
        return traced("server", method, message.params, attributes, lambda: handle(channel, message))

    meta = request_meta(message)
    carrier = {
        key: value for key in _KEYS if isinstance(value := meta.get(key), str) and len(value) <= _MAX_VALUE_LENGTH
    }
    if not carrier:
        return await handle_in_span()
    from opentelemetry.context import attach, detach, get_current

    context = get_current()
    for propagator in _propagators():
        context = propagator.extract(carrier, context)
    token = attach(context)
    try:
        return await handle_in_span()
    finally:
        detach(token)


@cache
def _propagators() -> tuple[Any, ...]:
    # The specification requires these two formats, whatever propagators the application has configured.
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator(), W3CBaggagePropagator()
