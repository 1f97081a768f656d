"""OpenTelemetry trace context in the `_meta` of requests, in the formats of W3C Trace Context and W3C Baggage.

MCP specification, Basic, "OpenTelemetry Trace Context". This module never imports OpenTelemetry first: there is no
trace unless the application has imported it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from mcp_runtime._lazy import LazyModule, load
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.connection import Connection, NotificationReceived, RequestReceived, request_meta
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import Request
from mcp_runtime.session.instruments import OPENTELEMETRY, Handle, SendRequest
from mcp_runtime.session.interfaces import Channel, Dispatcher, channel_of_connection

from .call_log import LoggedDispatcher
from .client_calls import ClientObserver

if TYPE_CHECKING:
    from . import spans
else:  # Imported when they are used.
    spans = LazyModule("mcp_products.telemetry.spans")

_log: Final = logging.getLogger("mcp_runtime.telemetry")
_calls: Final = logging.getLogger("mcp_runtime.server.calls")

_TRACE: Final = f"{OPENTELEMETRY}.trace"
_CHOSEN: Final = "OTEL_PYTHON_TRACER_PROVIDER"  # The provider by the environment, which OpenTelemetry loads.
_KEYS: Final = ("traceparent", "tracestate", "baggage")
_NO_PROVIDER: Final = "_ProxyMeterProvider"  # What OpenTelemetry has until the application sets another one.
_converted: Final[ContextVar[Connection | None]] = ContextVar("_converted", default=None)
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
    return bool(os.environ.get(_CHOSEN))


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


def metrics_module() -> Any:
    """Return the module `telemetry.metrics` if the application has a provider of metrics, else None."""
    metrics = sys.modules.get(f"{OPENTELEMETRY}.metrics")
    if metrics is None or type(metrics.get_meter_provider()).__name__ == _NO_PROVIDER:
        return None
    return _metrics_module()


@cache
def _metrics_module() -> Any:
    try:
        return load("mcp_products.telemetry.metrics")
    except LocalError as error:
        _log.warning("nothing is measured: %s", error)
        return None


def endpoint_opened(endpoint: object, handlers: Sequence[Any], streams: Any) -> None:
    """Count the sessions, streams and requests of an HTTP endpoint."""
    if (metrics := metrics_module()) is not None:
        metrics.observe(endpoint, handlers, streams)


def endpoint_closed(endpoint: object) -> None:
    """Count those of an HTTP endpoint no more."""
    if (metrics := metrics_module()) is not None:
        metrics.observe(endpoint)


def counted(what: str, attributes: Mapping[str, str], count: int = 1) -> None:
    """Count what happens, such as parts of a message that could not be read."""
    if (metrics := metrics_module()) is not None:
        metrics.count(what, attributes, count)


def new_observer() -> ClientObserver:
    """Return what calls the callbacks of a client; at first, it has none."""
    return ClientObserver()


def around_dispatch(dispatcher: Dispatcher, has_sessions: bool) -> Dispatcher:
    """Return the dispatcher of a connection, or one around it that measures and logs it."""
    if OPENTELEMETRY in sys.modules and (metrics := metrics_module()) is not None:
        dispatcher = metrics.MeteredDispatcher(dispatcher, has_sessions)
    return LoggedDispatcher(dispatcher) if _calls.isEnabledFor(logging.DEBUG) else dispatcher


def around_request(row: Request[Any], params: Any, channel: Channel, send: SendRequest) -> SendRequest:
    """Return a function that sends a request in a span of its own, whose trace its params have, and measures it."""
    if (metrics := metrics_module()) is not None:
        send = metrics.timed(row.method, params, channel, send)
    wire = channel_of_connection(channel).connection
    if not is_recorded() or (channel.connection is wire and _converted.get() is wire):
        return send

    attributes = {"mcp.protocol.version": wire.revision.id}
    if channel.connection is not wire:
        send = partial(_send_converted, wire, send)
    return partial(spans.traced, "client", row.method, params, attributes, send)


async def _send_converted(wire: Connection, send: SendRequest) -> Any:
    """Send a request that is converted for the version of a connection, where it is sent with the span that it has."""
    token = _converted.set(wire)
    try:
        return await send()
    finally:
        _converted.reset(token)


async def relayed(method: str, params: Any, revision: str, send: SendRequest) -> Any:
    """Send a request of a client on to a server, in a span of its own: the server's is below it."""
    if not is_recorded():
        return await send()
    return await spans.traced("client", method, params, {"mcp.protocol.version": revision}, send)


async def handle_in_trace(handle: Handle, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
    """Handle a message with the trace of its `_meta` as the current one, and in a span of its own."""
    method, revision = message.row.method, channel.connection.revision.id
    id = str(message.id) if isinstance(message, RequestReceived) else None
    transport = "pipe" if channel.auth is None else "tcp"
    attributes = {"mcp.protocol.version": revision, "jsonrpc.request.id": id, "network.transport": transport}

    def handle_in_span() -> Awaitable[Any]:
        return spans.traced("server", method, message.params, attributes, lambda: handle(channel, message))

    carrier = _carrier(request_meta(message)) or _carrier_of_headers(channel.scope)
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


def _carrier(found: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key in _KEYS if isinstance(value := found.get(key), str) and len(value) <= _MAX_VALUE_LENGTH}


def _carrier_of_headers(scope: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the trace in the headers of an HTTP request, which a proxy may have begun. If the current span is in that
    trace already, such as that of an ASGI middleware, it is kept."""
    names = {key.encode(): key for key in _KEYS}
    headers: Sequence[tuple[bytes, bytes]] = () if scope is None else scope["headers"]
    carrier = _carrier({names[name]: value.decode("latin-1") for name, value in headers if name in names})
    if "traceparent" not in carrier or not is_recorded():
        return {}
    current = sys.modules[_TRACE].get_current_span().get_span_context()
    return {} if f"{current.trace_id:032x}" in carrier["traceparent"] else carrier


@cache
def _propagators() -> tuple[Any, ...]:
    # The specification requires these two formats, whatever propagators the application has configured.
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator(), W3CBaggagePropagator()
