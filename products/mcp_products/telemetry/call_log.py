"""The parts of the lines that clients and servers log about their calls, and records of logs as lines of JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from mcp_runtime.aio.tasks import BackgroundTasks
from mcp_runtime.protocol.connection import Connection, NotificationReceived, RequestReceived, request_meta
from mcp_runtime.protocol.models import PreSerialized, is_object, plain_of
from mcp_runtime.protocol.revision import META, Handshake
from mcp_runtime.session.interfaces import Channel, Dispatcher
from mcp_runtime.usage.texts import error_text, shortened

if TYPE_CHECKING:
    from pydantic import BaseModel

_log: Final = logging.getLogger("mcp_runtime.server.calls")
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_TRACE: Final = "opentelemetry.trace"


def milliseconds(began: float) -> str:
    """Return the time since a value of `perf_counter`, such as "3.2 ms"."""
    return f"{(perf_counter() - began) * 1000:.1f} ms"


def subject_of(method: str, params: object) -> str:
    """Return a method with the name or the URI that the params are about; nothing else of them, as it may be secret."""
    for key in ("name", "uri"):
        value = params.get(key) if is_object(params) else getattr(params, key, None)
        if isinstance(value, str):
            return f"{method} {value[:200]!r}"
    return method


def outcome_of(result: Any) -> str:
    """Return what kind of a result this is."""
    value = result.value if isinstance(result, PreSerialized) else result
    is_error = value.get("isError") if is_object(value) else getattr(value, "is_error", None)
    return "an error result" if is_error is True else "a result"


# A dispatcher that logs the connection, the calls and the errors of a client with their times.


class LoggedDispatcher:
    """The dispatcher of a server whose logger `mcp_runtime.server.calls` has the level DEBUG."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        """Log what another dispatcher does."""
        self._dispatcher = self.wrapped = dispatcher
        self._client = "a client"
        self._opened = perf_counter()
        self._is_detached = False
        self.identify = dispatcher.identify
        self.attach = dispatcher.attach
        self.stamp_server_info = dispatcher.stamp_server_info

    @property
    def background_tasks(self) -> BackgroundTasks:
        """The asyncio tasks that outlive the request that started them."""
        return self._dispatcher.background_tasks

    async def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Return the result of a message, and log how long it took."""
        began, subject = perf_counter(), subject_of(message.row.method, message.params)
        client = _name_of(request_meta(message).get(f"{META}clientInfo")) or self._client
        _log.debug("%s: %s begins", client, subject)
        try:
            result = await self._dispatcher.handle(channel, message)
        except asyncio.CancelledError as error:
            _log.debug("%s: %s was cancelled after %s: %s", client, subject, milliseconds(began), error_text(error))
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error_text(error)}"
            _log.debug("%s: %s failed after %s: %s", client, subject, milliseconds(began), reason)
            raise
        if isinstance(message, RequestReceived):
            _log.debug("%s: %s has %s after %s", client, subject, outcome_of(result), milliseconds(began))
        return result

    def initialize(self, connection: Connection, request: RequestReceived) -> BaseModel | None:
        """Negotiate the protocol version, and log the client and the version."""
        lifecycle = connection.revision.lifecycle
        assert isinstance(lifecycle, Handshake), "only a handshake lifecycle has an initialize request"
        info = plain_of(request.params).get(lifecycle.fields.client_info)
        self._client = _name_of(info) or self._client
        result = self._dispatcher.initialize(connection, request)
        version = info.get("version") if is_object(info) else None
        _log.debug("%s %s has connected with %s", self._client, shortened(str(version)), connection.revision.id)
        return result

    def detach(self) -> None:
        """End the client's subscriptions, and log how long the connection lasted."""
        self._dispatcher.detach()
        if not self._is_detached:
            self._is_detached = True
            _log.debug("%s has disconnected after %s", self._client, milliseconds(self._opened))


def _name_of(info: object) -> str | None:
    name = info.get("name") if is_object(info) else None
    return shortened(name) if isinstance(name, str) else None


# Log records as lines of JSON, with the ids of the trace that they belong to.


class JSONLogFormatter(logging.Formatter):
    """Formats a log record as one line of JSON.

    Its members are `time` (ISO 8601, UTC), `level`, `logger`, `message`, what `extra=` of the call has, `exception`,
    and `trace_id` and `span_id` if a span of OpenTelemetry is current. Set it on a handler:

        handler = logging.StreamHandler()
        handler.setFormatter(JSONLogFormatter())
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without a line break."""
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_trace_ids(),
            **{name: value for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return json.dumps(members, ensure_ascii=False, default=str)


def _trace_ids() -> dict[str, str]:
    trace = sys.modules.get(_TRACE)
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"} if context.is_valid else {}
