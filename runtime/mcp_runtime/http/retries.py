"""When a refused HTTP request may be sent again: only if the server has said that it has not begun with it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

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
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError, OSError):
        return None
