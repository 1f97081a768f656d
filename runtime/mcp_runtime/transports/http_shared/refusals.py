"""The answer to requests that need the store while it cannot be reached."""

from __future__ import annotations

import logging
from typing import Final

from ...http.asgi import Send, send_error
from ...http.headers import HTTPError
from ...protocol.jsonrpc import INTERNAL_ERROR, Id
from ...stores.primitives import StoreUnavailableError

_log: Final = logging.getLogger(__name__)

_SECONDS: Final = 1  # Seconds after which a client may try again.
_UNAVAILABLE: Final = HTTPError(
    503, "the store of this server cannot be reached: send the request again", INTERNAL_ERROR, {"retryAfter": _SECONDS}
)
_RETRY: Final = ((b"retry-after", b"%d" % _SECONDS),)


async def refuse(send: Send, error: StoreUnavailableError, id: Id | None = None) -> None:
    """Answer a request with 503 and `Retry-After`."""
    _log.warning("a request was refused: %s", error)
    await send_error(send, _UNAVAILABLE, id, headers=_RETRY)
