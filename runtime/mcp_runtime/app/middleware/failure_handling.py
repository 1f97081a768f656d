"""Middleware for requests that fail: error responses, statistics, and retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...errors import ClientCapabilityError, JSONRPCError, LocalError, ToolError
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ...usage.shortened import error_text
from .hooks import CallNext, Middleware, MiddlewareContext

_log: Final = logging.getLogger(__name__)


_CODES: Final[Mapping[type[Exception], tuple[int, str]]] = {
    ValueError: (INVALID_PARAMS, "invalid params"),
    TypeError: (INVALID_PARAMS, "invalid params"),
    LookupError: (INVALID_PARAMS, "not found"),
    FileNotFoundError: (INVALID_PARAMS, "not found"),
    PermissionError: (INTERNAL_ERROR, "permission denied"),
    TimeoutError: (INTERNAL_ERROR, "timed out"),
}


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


_OTHER: Final = (INTERNAL_ERROR, "internal error")


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
