"""The session with an upstream: results that need no conversion pass as bytes."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, cast

from ...aio.eager import first_step
from ...protocol.events import NotificationReceived
from ...protocol.framing import OversizedMessage
from ...session.replies import run_notification_handler
from ...session.session import Session
from .raw_connection import RawRequest

if TYPE_CHECKING:
    from pydantic import BaseModel

_ID: Final = rb'"id":(0|[1-9]\d{0,14})'
_RESULT_AT_END: Final = re.compile(rb'\{"jsonrpc":"2\.0",%b,"result":(?=\{)' % _ID)
_ID_AT_END: Final = re.compile(rb'\},"jsonrpc":"2\.0",%b\}\Z' % _ID)
_RESULT_FIRST: Final = b'{"result":{'
_TAIL: Final = 64  # Bytes that have the members after a result.


class UpstreamSession(Session):
    """A session whose results pass as bytes, where the request allows it and the response is written as usual.

    The results are not validated: they pass as the upstream has written them, to the client of the request. Line breaks
    would end an event of an SSE stream, so that a result with one is parsed.
    """

    def _receive_bytes(self, data: bytes | None) -> None:
        if data is not None and type(data) is not OversizedMessage and self._large is None:
            body, number = b"", b""
            if (match := _RESULT_AT_END.match(data)) is not None and data.endswith(b"}}"):
                body, number = data[match.end() : -1], match[1]
            elif data.startswith(_RESULT_FIRST) and (match := _ID_AT_END.search(data, max(len(data) - _TAIL, 0))):
                body, number = data[len(_RESULT_FIRST) - 1 : match.start() + 1], match[1]
            if body and self._resolve_bytes(int(number), body):
                return
        super()._receive_bytes(data)

    def _run_notification_handler(self, notification: NotificationReceived) -> None:
        """Pass a notification at once, before the response that follows it."""
        try:
            rest = first_step(run_notification_handler(notification, self.handle, self))
        except StopIteration:
            return
        if (task := self._handlers.start(_finish(rest))) is not None:
            task.add_done_callback(self._handlers.remove)

    def _resolve_bytes(self, id: int, body: bytes) -> bool:
        """Return True if a request with this id waits for the bytes of its result, and has them now."""
        entry = self.connection.pending.get(id)
        if entry is None or type(row := entry[0]) is not RawRequest or not row.as_bytes or b"\r" in body:
            return False
        del self.connection.pending[id]
        self._pending.resolve(id, cast("BaseModel", body))  # The caller, `Link.send`, expects bytes.
        return True


async def _finish(rest: Awaitable[None]) -> None:
    await rest
