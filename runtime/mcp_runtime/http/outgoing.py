"""What HTTP clients share: TLS settings, when a refused request may be sent again, what logs show of requests."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ..aio import clock as clocks
from .urls import redact_url

if TYPE_CHECKING:
    import ssl

# The TLS settings of clients that have none of their own: read once for many clients.

_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_SECONDS: Final = 600  # Certificates that were replaced are read after this time at the latest.


def default_tls() -> ssl.SSLContext:
    """Return the settings of httpx2. To read the certificates takes tens of milliseconds, in which nothing else runs:
    a gateway opens a client for each session."""
    return _read(tuple(os.environ.get(name) for name in _VARIABLES), int(clocks.monotonic() // _SECONDS))


@lru_cache(maxsize=1)
def _read(variables: tuple[str | None, ...], period: int) -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()


# When a refused HTTP request may be sent again: only if the server has said that it has not begun with it.

MAX_ATTEMPTS: Final = 5
FIRST_REFUSAL: Final = 429  # No lower status may be tried again.
_REFUSALS: Final = (FIRST_REFUSAL, 503)
_MAX_DIGITS: Final = 9


def seconds_to_wait(status: int, headers: Mapping[str, str]) -> float | None:
    """Return the seconds after which a request may be sent again; None for a response after which it may not.

    With `Retry-After` and one of these statuses, the server has refused the request before it began with it. After any
    other response it may have run.
    """
    value = headers.get("retry-after")
    return None if value is None or status not in _REFUSALS else parsed_retry_after(value)


def parsed_retry_after(value: str) -> float | None:
    """Return the seconds of a `Retry-After` header, which has a number of them or a date; None if it has neither.

    See https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
    """
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _MAX_DIGITS else None
    try:
        # HTTP dates are of Greenwich, also in the form that does not say so; Python takes that for the local zone.
        return max(parsedate_to_datetime(text if "GMT" in text else f"{text} GMT").timestamp() - clocks.wall(), 0.0)
    except (ValueError, OverflowError, OSError):
        return None


# What HTTP libraries log of the requests of this package: URLs without user information, query and fragment.
#
# httpx2 logs the whole URL of each request on INFO, with the password or the key in it, and its transport logs the
# headers of responses on DEBUG. Requests that the program itself sends are logged as before.

_LIBRARIES: Final = ("httpx2", "httpx")
_TRANSPORTS: Final = tuple(
    f"{library}.{part}" for library in ("httpcore2", "httpcore") for part in ("connection", "http11", "http2", "proxy")
)
_SECRET: Final = re.compile(
    r"(b?'(?:set-cookie|authorization|proxy-authorization|mcp-session-id|location)', b?)(?:'[^']*'|\"[^\"]*\")", re.I
)

IS_OURS: Final[ContextVar[bool]] = ContextVar("a request of mcp_runtime", default=False)
"""True in a task while it sends a request of this package."""


class _WithoutSecrets(logging.Filter):
    """Takes what may be secret out of the records of our requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not IS_OURS.get():
            return True
        if isinstance(record.args, tuple):
            record.args = tuple(_redacted(value) for value in record.args)
        if record.name in _TRANSPORTS:
            record.msg = _SECRET.sub(r"\1'…'", str(record.msg))
        return True


for _name in (*_LIBRARIES, *_TRANSPORTS):
    logging.getLogger(_name).addFilter(_WithoutSecrets())


@contextmanager
def without_secrets_in_logs() -> Generator[None]:
    """Keep secrets of the requests that are sent meanwhile, in this task, out of the logs of the HTTP library."""
    token = IS_OURS.set(True)
    try:
        yield
    finally:
        IS_OURS.reset(token)


def _redacted(value: object) -> object:
    text = str(value) if type(value).__name__ == "URL" or isinstance(value, str) else ""
    return redact_url(text) if text.startswith(("http://", "https://")) else value
