"""The answers to requests that cannot be served: the store cannot be reached, or their worker has ended."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from pydantic_core import from_json

from ...http.asgi import Send, send_error
from ...http.headers import HTTPError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import INTERNAL_ERROR, Id
from ...protocol.models import is_object
from ...stores.primitives import NumberedEntry, StoreUnavailableError

_log: Final = logging.getLogger(__name__)

_SECONDS: Final = 1  # Seconds after which a client may try again.
_UNAVAILABLE: Final = HTTPError(
    503,
    "the store of this server cannot be reached: send the request again",
    INTERNAL_ERROR,
    {"retryAfter": _SECONDS},
    retry_after=_SECONDS,
)


async def refuse(send: Send, error: StoreUnavailableError, id: Id | None = None) -> None:
    """Answer a request with 503 and `Retry-After`."""
    _log.warning("a request was refused: %s", error)
    await send_error(send, _UNAVAILABLE, id)


def failures(requests: Sequence[Id], entries: Iterable[NumberedEntry], reason: str) -> list[bytes]:
    """Return the errors of the requests that no message of a stream answers."""
    messages = [from_json(entry) for _, entry in entries]
    answered = [message["id"] for message in messages if is_object(message) and "method" not in message]
    return [jsonrpc.error(id, INTERNAL_ERROR, reason, None) for id in requests if id not in answered]
