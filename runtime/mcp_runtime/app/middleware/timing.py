"""Middleware that logs how long requests take."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from ...usage.shortened import quoted
from .hooks import CallNext, Middleware, MiddlewareContext

_log: Final = logging.getLogger(__name__)


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
