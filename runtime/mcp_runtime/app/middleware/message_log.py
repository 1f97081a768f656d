"""Middleware that logs messages."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from pydantic_core import to_json

from ...usage.shortened import error_text
from .hooks import CallNext, Middleware, MiddlewareContext

_log: Final = logging.getLogger(__name__)


class LoggingMiddleware(Middleware):
    """Log when a message is received, when its handler ends, and when it fails, as `name=value` words.

    Payloads hold what users send: they are not logged unless `include_payloads` is set.
    """

    _structured = False

    def __init__(
        self,
        *,
        logger: logging.Logger | None = None,
        log_level: int = logging.INFO,
        include_payloads: bool = False,
        include_payload_length: bool = False,
        max_payload_length: int = 1000,
        methods: Collection[str] | None = None,
        payload_serializer: Callable[[Any], str] | None = None,
    ) -> None:
        """Create a middleware.

        Args:
            logger: The logger; by default one below `mcp_runtime`.
            log_level: The level of messages that succeed; failures have the level ERROR.
            include_payloads: Whether the params are logged.
            include_payload_length: Whether the length of the params as JSON is logged, in characters.
            max_payload_length: Characters of the params that are logged.
            methods: The methods to log; by default all.
            payload_serializer: Turns params into text; by default JSON.
        """
        self.logger = logger or _log
        self.log_level = log_level
        self.include_payloads = include_payloads
        self.include_payload_length = include_payload_length
        self.max_payload_length = max_payload_length
        self.methods = methods
        self.payload_serializer = payload_serializer or _serialize

    async def on_message(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Log a message before and after its handler."""
        if self.methods is not None and context.method not in self.methods:
            return await call_next(context)
        fields: dict[str, Any] = {"method": context.method or "unknown", "source": context.source}
        self._write(self.log_level, {"event": f"{context.type}_start", **fields, **self._payload(context)})
        start = time.perf_counter()
        try:
            result = await call_next(context)
        except Exception as error:
            reason = f"{type(error).__name__}: {error_text(error)}"
            ended = {**fields, "duration_ms": _milliseconds(start), "error": reason}
            self._write(logging.ERROR, {"event": f"{context.type}_error", **ended})
            raise
        event = f"{context.type}_{'error' if getattr(result, 'is_error', None) is True else 'success'}"
        self._write(self.log_level, {"event": event, **fields, "duration_ms": _milliseconds(start)})
        return result

    def _payload(self, context: MiddlewareContext) -> dict[str, Any]:
        if not self.include_payloads and not self.include_payload_length:
            return {}
        text = self.payload_serializer(context.message)
        fields: dict[str, Any] = {"payload_length": len(text)} if self.include_payload_length else {}
        if self.include_payloads:
            limit = self.max_payload_length
            fields["payload"] = text if len(text) <= limit else f"{text[:limit]}..."
        return fields

    def _write(self, level: int, fields: dict[str, Any]) -> None:
        if self.logger.isEnabledFor(level):
            words = (f"{name}={_one_line(value)}" for name, value in fields.items())
            self.logger.log(level, "%s", json.dumps(fields) if self._structured else " ".join(words))


class StructuredLoggingMiddleware(LoggingMiddleware):
    """Log messages as JSON objects, one a line, for programs that collect logs."""

    _structured = True


def _one_line(value: object) -> str:
    """Return a value as text without line breaks, which would look like another record."""
    text = str(value)
    return text if text.isprintable() else json.dumps(text)


def _milliseconds(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 2)


def _serialize(message: Any) -> str:
    return to_json(message, fallback=str, by_alias=True, exclude_none=True).decode()
