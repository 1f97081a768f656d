"""A handler of the standard library's logging that sends log records to the client of the current request."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections.abc import Coroutine
from typing import Any, Final

from mcp_runtime.aio.tasks import begin_at_once
from mcp_runtime.aio.threads import call_soon_in_loop
from mcp_runtime.errors import ConnectionClosedError, MCPError
from mcp_runtime.server.context import Level, ServerContext
from mcp_runtime.session.interfaces import CURRENT_REQUEST, FORWARDING, LoggedRequest
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import COUNT, Rule
from mcp_runtime.usage.texts import escaped

# Redact secrets in the text of log messages.

REDACTED: Final = "[redacted]"
_MAX_LENGTH: Final = 16 * 1024  # Characters of a text.

_NAMES: Final = (
    r"pass(?:word|wd|phrase|code)?|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|signing[_-]?key"
    r"|encryption[_-]?key|credentials?|signature|sig|session[_-]?id|cookie|client[_-]?assertion|code[_-]?verifier"
)
# Quantifiers have limits, so that each search takes linear time.
_PATTERNS: Final = (
    # A private key in PEM, and what is left of one that is cut off.
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.S), ""),
    # A header with credentials: the rest of the line, or of the quoted string.
    (
        re.compile(
            r"(\b(?:proxy-)?authorization[\"']?\s{0,4}[:=,]\s{0,4}b?[\"']?|\b(?:set-)?cookie[\"']?\s{0,4}[:=,]\s{0,4}b?[\"']?)"
            r"[^\"'\r\n]+",
            re.I,
        ),
        r"\1",
    ),
    (re.compile(r"(\b(?:bearer|basic|dpop|digest)\s{1,4})[A-Za-z0-9._~+/=-]{6,}", re.I), r"\1"),
    # The user information of a URL.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://)[^\s/?#@\"'<>]{1,512}@", re.I), rf"\1{REDACTED}@"),
    # name=value, "name": "value", name: value, --name value.
    (
        re.compile(
            rf"((?:\b|_|-)(?:[A-Za-z0-9]{{1,40}}[_-]){{0,4}}(?:{_NAMES})[\"']?(?:\s{{0,4}}(?:=>|[:=])\s{{0,4}}))"
            r"(?:b?\"[^\"]*\"?|b?'[^']*'?|[^\s,;&\"'})\]]+)",
            re.I,
        ),
        r"\1",
    ),
    (re.compile(rf"(--(?:[a-z0-9]{{1,40}}-){{0,4}}(?:{_NAMES})\s{{1,4}})[^\s\"']+", re.I), r"\1"),
    # Tokens with a well-known form.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,4}"), ""),
    (
        re.compile(
            r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
            r"|xox[abeprs]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,}"
            r"|hf_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,})"
        ),
        "",
    ),
)

_OWN_LOGGERS: Final = "mcp_runtime"  # Products log below it too.
_LEVELS: Final[tuple[tuple[int, Level], ...]] = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (25, "notice"),
    (logging.INFO, "info"),
)


def redact(text: str) -> str:
    """Return a text without secrets: tokens, `Authorization` and cookies, API keys, passwords, also those in URLs.

    Secrets are found by the names before them and by the forms of well-known tokens; a secret that has neither stays.
    Texts above 16,384 characters are cut off.
    """
    if len(text) > _MAX_LENGTH:
        text = text[:_MAX_LENGTH] + "…"
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement if replacement.endswith("@") else replacement + REDACTED, text)
    return text


def _is_level(value: Any) -> bool:
    return type(value) is int or (isinstance(value, str) and value in logging.getLevelNamesMapping())


class ClientLogHandler(logging.Handler):
    """A handler that sends the records of a program's loggers to the client whose request is handled.

    `logging.getLogger().addHandler(ClientLogHandler())` does it for all loggers. The client gets the message, without
    tracebacks unless a formatter is set, and without secrets; it sets the lowest level that it gets itself. Records
    outside of a request, and those of this package, are not sent: they have details for the server only.

    No call of a logger waits for the client. If a client reads too slowly, records are dropped, and a warning with
    their number precedes the next one that is sent. See
    https://modelcontextprotocol.io/specification/draft/server/utilities/logging
    """

    @checked(
        rules={
            "level": Rule(_is_level, 'a level of logging, such as logging.INFO or "INFO"'),
            "max_queued": COUNT,
        }
    )
    def __init__(self, level: int | str = logging.INFO, *, max_queued: int = 1000) -> None:
        """Create a handler.

        Args:
            level: The lowest level of records that are sent, such as `logging.INFO` or "INFO".
            max_queued: How many records of other threads may wait to be sent; further ones are dropped.

        Raises LocalError for an unknown level.
        """
        super().__init__(level)
        self._max_queued = max_queued
        self._queued = 0
        self._has_reported = False
        self._counts = threading.Lock()
        self._thread = threading.local()
        FORWARDING.is_on = True

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the client of the current request, if there is one. The `logging` module calls this."""
        request = CURRENT_REQUEST.get()
        if request is None or record.name.partition(".")[0] == _OWN_LOGGERS or getattr(self._thread, "sends", False):
            return
        self._thread.sends = True  # A record that is logged meanwhile would be sent without end.
        try:
            text = escaped(redact(record.getMessage() if self.formatter is None else self.format(record)))
            self._pass_on(request, _level_of(record.levelno), text, record.name)
        except Exception:
            self.handleError(record)
        finally:
            self._thread.sends = False

    def _pass_on(self, request: LoggedRequest, level: Level, text: str, logger: str) -> None:
        try:
            is_in_loop = asyncio.get_running_loop() is request.loop
        except RuntimeError:
            is_in_loop = False
        if is_in_loop:
            return self._send(request, level, text, logger)
        with self._counts:
            if self._queued >= self._max_queued or request.loop.is_closed():
                request.dropped += 1
                return
            self._queued += 1
        try:
            call_soon_in_loop(request.loop, self._send_queued, request, level, text, logger)
        except RuntimeError:  # The event loop was closed meanwhile.
            with self._counts:
                self._queued -= 1

    def _send_queued(self, request: LoggedRequest, level: Level, text: str, logger: str) -> None:
        with self._counts:
            self._queued -= 1
        self._thread.sends = True
        try:
            self._send(request, level, text, logger)
        finally:
            self._thread.sends = False

    def _send(self, request: LoggedRequest, level: Level, text: str, logger: str) -> None:
        """Send a message in the event loop without waiting: the transport has it when this returns."""
        with self._counts:
            if request.unfinished is not None:
                request.dropped += 1
                return
            dropped = request.dropped
            request.dropped = 0
        ctx: ServerContext = request.context()
        if dropped:
            self._start(request, ServerContext.log(ctx, "warning", f"{dropped} log messages were dropped", logger))
        self._start(request, ServerContext.log(ctx, level, text, logger))

    def _start(self, request: LoggedRequest, sending: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine up to its first wait, which is for a client that reads slowly; a task runs the rest."""
        request.unfinished = begin_at_once(request.loop, self._finish(request, sending))

    async def _finish(self, request: LoggedRequest, sending: Coroutine[Any, Any, None]) -> None:
        try:
            await sending
        except MCPError as error:
            if not isinstance(error, ConnectionClosedError):
                self._report(error)
        finally:
            request.unfinished = None

    def _report(self, error: MCPError) -> None:
        """Write once that messages cannot be sent. It is not logged: this handler would get that record."""
        if not self._has_reported and logging.raiseExceptions:
            self._has_reported = True
            print(f"ClientLogHandler: log messages are not sent to clients: {error}", file=sys.stderr)


def _level_of(number: int) -> Level:
    for lowest, level in _LEVELS:
        if number >= lowest:
            return level
    return "debug"
