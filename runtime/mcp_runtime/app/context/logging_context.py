"""The context of an app's functions: log messages and progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from ...endpoint.context import LEVELS
from ...errors import LocalError
from ...server.context import Level, ServerContext

if TYPE_CHECKING:
    from .sync_context import SyncContext


def log_arguments(arguments: tuple[Any, ...], values: Mapping[str, Any]) -> tuple[Level, Any, str | None]:
    """Return the level, the message and the logger of a call of `log`.

    Without keywords the level comes first, as in the official SDK. The message comes first if it stands alone or beside
    `level=`, and if only the second argument is a level, as in FastMCP.

    Raises LocalError for an unknown level, and TypeError for a wrong number of arguments.
    """
    names = ["level", "data", "logger"]
    if values["level"] is not None or (len(arguments) == 1 and values["data"] is None):
        names = ["data", "logger"]
    elif len(arguments) > 1 and arguments[0] not in LEVELS and arguments[1] in LEVELS:
        names = ["data", "level", "logger"]
    positional = dict(zip(names, arguments, strict=False))
    twice = [name for name in positional if values[name] is not None]
    if twice or len(arguments) > len(names) or ("data" not in positional and values["data"] is None):
        raise TypeError(f'log() needs a level and a message{", not two of one" if twice else ""}: log("info", "text")')
    merged: dict[str, Any] = {**values, **positional}
    level: Any = merged["level"] or "info"
    if level not in LEVELS:
        raise LocalError(f"log() has no level {level!r}; the levels are {', '.join(LEVELS)}")
    return level, merged["data"], merged["logger"]


class LoggingContext(ServerContext):
    """The context of a handler, with a method for each of the usual levels of log messages."""

    @overload
    async def log(
        self,
        level: Level,
        data: Any = None,
        logger: str | None = None,
        *,
        message: Any = None,
        logger_name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None: ...
    @overload
    async def log(
        self,
        data: Any,
        /,
        *,
        level: Level | None = None,
        logger: str | None = None,
        logger_name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None: ...
    async def log(  # pyright: ignore[reportInconsistentOverload]
        self,
        *arguments: Any,
        level: Level | None = None,
        data: Any = None,
        logger: str | None = None,
        message: Any = None,
        logger_name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Send a log message to the client, if its minimum level allows it: `log("info", "text")`, `log("text")`.

        A function that runs again, because the client has answered an input request, sends each message once.
        Messages above 1,000 a second (after the first 5,000) are dropped. See
        https://modelcontextprotocol.io/specification/draft/server/utilities/logging

        Args:
            arguments: The level, the message and the name of the logger; or the message alone.
            level: The severity of the message (RFC 5424); "info" by default.
            data: The message: any JSON value.
            logger: The name of the logger.
            message: Another name of `data`.
            logger_name: Another name of `logger`.
            extra: Further JSON values; the message is then `{"msg": data, "extra": extra}`.

        Raises LocalError for an unknown level, and TypeError without a message.
        """
        values = {"level": level, "data": message if data is None else data, "logger": logger_name or logger}
        severity, text, name = log_arguments(arguments, values)
        if self.is_repeated("log"):
            return
        await super().log(severity, {"msg": text, "extra": dict(extra)} if extra else text, name)

    @property
    def sync(self) -> SyncContext:
        """The methods for log messages and progress as a plain `def` function calls them: `ctx.sync.info("text")`."""
        from .sync_context import SyncContext

        return SyncContext(self)

    def is_repeated(self, kind: str) -> bool:
        """Return True if this function runs again, because the client has answered an input request, and has done this
        in an earlier run already.

        Args:
            kind: What is done, such as "log": the calls of one kind are counted.
        """
        return self._mrtr is not None and self._mrtr.is_repeated(f"#{kind}")

    async def debug(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `debug`. The arguments are those of `info`."""
        await self.log("debug", message, logger_name, extra={**(extra or {}), **fields})

    async def info(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `info`.

        Args:
            message: The message: any JSON value.
            logger_name: The name of the logger.
            extra: Further JSON values.
            fields: Further values of `extra`.
        """
        await self.log("info", message, logger_name, extra={**(extra or {}), **fields})

    async def warning(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `warning`. The arguments are those of `info`."""
        await self.log("warning", message, logger_name, extra={**(extra or {}), **fields})

    async def error(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `error`. The arguments are those of `info`."""
        await self.log("error", message, logger_name, extra={**(extra or {}), **fields})

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client has requested progress; another name of `progress`."""
        await self.progress(progress, total, message)
