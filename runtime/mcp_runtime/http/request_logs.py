"""What HTTP libraries log of the requests of this package: URLs without user information, query and fragment.

httpx2 logs the whole URL of each request on INFO, with the password or the key in it, and its transport logs the
headers of responses on DEBUG. Requests that the program itself sends are logged as before.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from .urls import redact_url

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
