"""The context of plain `def` functions: log messages and progress, sent before the call returns."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from inspect import iscoroutinefunction, unwrap
from typing import TYPE_CHECKING, Any

from mcp_runtime.aio.threads import loop_of_worker, run_in_loop
from mcp_runtime.errors import LocalError
from mcp_runtime.server.context import Level
from mcp_runtime.usage.keywords import NoAttributeError


class SyncContext:
    """The methods of a context that send notifications, for plain `def` functions: `ctx.sync.info("text")`.

    A call returns when the message is sent, so that messages arrive in the order of the calls. Each method has the
    arguments of the method of the context with the same name. In an `async def` they raise LocalError.
    """

    def __init__(self, ctx: Any) -> None:
        """Create the view of a context, in the worker thread that runs the function; other threads may use it then."""
        self._ctx = ctx
        self._loop = loop_of_worker()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Raise AttributeError, with what to write for a method that waits for the client."""
            method = getattr(type(vars(self).get("_ctx")), name, None)
            waits = callable(method) and iscoroutinefunction(unwrap(method))
            raise NoAttributeError(self, name, f"write `async def`, and `await ctx.{name}(…)`" if waits else "")

    def log(
        self,
        level: Level,
        data: Any = None,
        logger: str | None = None,
        *,
        message: Any = None,
        logger_name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Send a log message to the client, if its minimum level allows it."""
        sending = self._ctx.log(level, data, logger, message=message, logger_name=logger_name, extra=extra)
        self._run("log", sending)

    def debug(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `debug`."""
        self._run("debug", self._ctx.debug(message, logger_name, extra, **fields))

    def info(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `info`."""
        self._run("info", self._ctx.info(message, logger_name, extra, **fields))

    def warning(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `warning`."""
        self._run("warning", self._ctx.warning(message, logger_name, extra, **fields))

    def error(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `error`."""
        self._run("error", self._ctx.error(message, logger_name, extra, **fields))

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client has requested progress."""
        self._run("progress", self._ctx.progress(progress, total, message))

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification; another name of `progress`."""
        self._run("report_progress", self._ctx.progress(progress, total, message))

    def _run(self, method: str, sending: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the event loop of the request, and wait for its end."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self._loop is not None:
                return run_in_loop(self._loop, sending)
        sending.close()
        raise LocalError(f"ctx.sync.{method}() is for plain def functions: write `await ctx.{method}(…)` here")
