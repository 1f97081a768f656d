"""The response to a JSON-RPC batch: one message with the responses to all of its requests."""

from __future__ import annotations

from ..protocol import jsonrpc
from ..protocol.events import Event, MessageRejected, RequestReceived
from .interfaces import Reply


class BatchResponse:
    """Collects the responses to the events of a batch; `pending` are the numbers of events without a response yet."""

    __slots__ = ("pending", "_responses", "_reply")

    def __init__(self, events: list[Event], reply: Reply) -> None:
        self.pending = {number for number, event in enumerate(events) if _expects_response(event)}
        self._responses: list[bytes] = []
        self._reply = reply

    def add_response(self, number: int, response: bytes | None, code: int = 0) -> None:
        """Add the response to an event, None for a cancelled request; reply to the batch with the last one."""
        if number not in self.pending:
            return
        self.pending.discard(number)
        if response is not None:
            self._responses.append(response)
        if not self.pending:
            # None if all requests were cancelled.
            self._reply(jsonrpc.batch(self._responses) if self._responses else None, 0)


def _expects_response(event: Event) -> bool:
    """Return True if an event of a batch gets a response."""
    return isinstance(event, RequestReceived) or (isinstance(event, MessageRejected) and event.reply is not None)
