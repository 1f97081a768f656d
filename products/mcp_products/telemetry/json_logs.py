"""Log records as lines of JSON, with the ids of the trace that they belong to."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_TRACE: Final = "opentelemetry.trace"


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
