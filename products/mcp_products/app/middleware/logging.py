"""Middleware that logs messages."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from pydantic_core import to_json

from mcp_runtime.errors import ClientCapabilityError, JSONRPCError, LocalError, ToolError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_runtime.usage.texts import error_text, quoted

from .hooks import CallNext, Middleware, MiddlewareContext

_log: Final = logging.getLogger("mcp_runtime.app.middleware.logging")

_CODES: Final[Mapping[type[Exception], tuple[int, str]]] = {
    ValueError: (INVALID_PARAMS, "invalid params"),
    TypeError: (INVALID_PARAMS, "invalid params"),
    LookupError: (INVALID_PARAMS, "not found"),
    FileNotFoundError: (INVALID_PARAMS, "not found"),
    PermissionError: (INTERNAL_ERROR, "permission denied"),
    TimeoutError: (INTERNAL_ERROR, "timed out"),
}
_OTHER: Final = (INTERNAL_ERROR, "internal error")


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


# Middleware that logs how long requests take.


class TimingMiddleware(Middleware):
    """Log the time of each request, in milliseconds."""

    def __init__(self, logger: logging.Logger | None = None, log_level: int = logging.INFO) -> None:
        """Create a middleware.

        Args:
            logger: The logger; by default one below `mcp_runtime`.
            log_level: The level of the records.
        """
        self.logger = logger or _log
        self.log_level = log_level

    async def on_request(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Measure a request."""
        start = time.perf_counter()
        outcome = "failed after"
        try:
            result = await call_next(context)
            outcome = "completed in"
            return result
        finally:
            milliseconds = (time.perf_counter() - start) * 1000
            self.logger.log(self.log_level, "%s %s %.2f ms", self._operation(context), outcome, milliseconds)

    def _operation(self, context: MiddlewareContext) -> str:
        """Return the text for a request."""
        return f"request {context.method}"


class DetailedTimingMiddleware(TimingMiddleware):
    """Log the time of each request with the name of the tool or prompt, or the URI of the resource."""

    def _operation(self, context: MiddlewareContext) -> str:
        """Return the text for a request, with the name of what it is about."""
        subject = getattr(context.message, "name", None) or getattr(context.message, "uri", None)
        return (
            super()._operation(context) if subject is None else f"{super()._operation(context)} {quoted(str(subject))}"
        )


# Middleware for requests that fail: error responses, statistics, and retries.


class ErrorHandlingMiddleware(Middleware):
    """Log and count the exceptions of handlers, and turn them into JSON-RPC errors."""

    def __init__(
        self,
        logger: logging.Logger | None = None,
        include_traceback: bool = False,
        error_callback: Callable[[Exception, MiddlewareContext], None] | None = None,
        transform_errors: bool = True,
    ) -> None:
        """Create a middleware.

        Args:
            logger: The logger; by default one below `mcp_runtime`.
            include_traceback: Whether records have the traceback.
            error_callback: Called with the exception and the message; what it raises is logged.
            transform_errors: Whether exceptions become JSON-RPC errors with a code and the text of the exception,
                which the client sees. False leaves them as they are: the client gets no text of them.
        """
        self.logger = logger or _log
        self.include_traceback = include_traceback
        self.error_callback = error_callback
        self.transform_errors = transform_errors
        self._counts: dict[str, int] = {}

    async def on_message(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle the exceptions of a message."""
        try:
            return await call_next(context)
        except Exception as error:
            self._record(error, context)
            if not self.transform_errors or isinstance(error, (JSONRPCError, ToolError, ClientCapabilityError)):
                raise
            code, text = next((_CODES[kind] for kind in _CODES if isinstance(error, kind)), _OTHER)
            raise JSONRPCError(code, f"{text}: {error}") from error

    def get_error_stats(self) -> dict[str, int]:
        """Return how often exceptions were raised, by `type:method`."""
        return dict(self._counts)

    def _record(self, error: Exception, context: MiddlewareContext) -> None:
        key = f"{type(error).__name__}:{context.method}"
        self._counts[key] = self._counts.get(key, 0) + 1
        self.logger.error(
            "%s failed: %s: %s",
            context.method,
            type(error).__name__,
            error_text(error),
            exc_info=self.include_traceback,
        )
        if self.error_callback is not None:
            try:
                self.error_callback(error, context)
            except Exception:
                self.logger.exception("the error callback of the middleware failed")


class RetryMiddleware(Middleware):
    """Call the handler of a request again after exceptions that may pass, such as ConnectionError.

    A handler may have done a part of its work before it fails: use this for handlers that can run twice.
    """

    def __init__(
        self,
        max_retries: int = 3,
        base_delay: float = 1.0,
        max_delay: float = 60.0,
        backoff_multiplier: float = 2.0,
        retry_exceptions: tuple[type[Exception], ...] = (ConnectionError, TimeoutError),
        logger: logging.Logger | None = None,
    ) -> None:
        """Create a middleware. Raises LocalError for negative numbers.

        Args:
            max_retries: How often a request is tried again.
            base_delay: Seconds before the first retry.
            max_delay: The maximum of seconds before a retry.
            backoff_multiplier: The factor of the delay of each further retry.
            retry_exceptions: The exceptions after which a request is tried again.
            logger: The logger of retries; by default one below `mcp_runtime`.
        """
        if max_retries < 0 or base_delay < 0 or max_delay < 0 or backoff_multiplier < 0:
            raise LocalError("RetryMiddleware(): max_retries, delays and backoff_multiplier must be 0 or more")
        self.max_retries = max_retries
        self.base_delay = base_delay
        self.max_delay = max_delay
        self.backoff_multiplier = backoff_multiplier
        self.retry_exceptions = retry_exceptions
        self.logger = logger or _log

    async def on_request(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Call the handler until it succeeds."""
        for retry in range(self.max_retries):
            try:
                return await call_next(context)
            except Exception as error:
                if not isinstance(error, self.retry_exceptions) and not isinstance(
                    error.__cause__, self.retry_exceptions
                ):
                    raise
                delay = min(self.base_delay * self.backoff_multiplier**retry, self.max_delay)
                self.logger.warning(
                    "%s failed with %s; retry %d of %d in %.1f s",
                    *(context.method, type(error).__name__, retry + 1, self.max_retries, delay),
                )
            await asyncio.sleep(delay)
        return await call_next(context)
