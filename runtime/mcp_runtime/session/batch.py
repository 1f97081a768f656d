"""The answers to requests that came together go in, one by one; all of them in one message come out with the last."""

from __future__ import annotations

from ..protocol import jsonrpc
from ..protocol.events import Event, MessageRejected, RequestReceived
from .interfaces import Reply


class BatchResponse:
    """The answers to the events of one batch; `due` are the numbers of those that are still to be answered."""

    __slots__ = ("pending", "_responses", "_reply")

    def __init__(self, events: list[Event], reply: Reply) -> None:
        self.pending = {number for number, event in enumerate(events) if _expects_response(event)}
        self._responses: list[bytes] = []
        self._reply = reply

    def add_response(self, number: int, response: bytes | None, code: int = 0) -> None:
        """The answer to one of them, None where it gets none."""
        if number not in self.pending:
            return
        self.pending.discard(number)
        if response is not None:
            self._responses.append(response)
        if not self.pending:
            # Where all were cancelled, nothing is left to say.
            self._reply(jsonrpc.batch(self._responses) if self._responses else None, 0)


def _expects_response(event: Event) -> bool:
    """Whether an event of a batch will be answered."""
    return isinstance(event, RequestReceived) or (isinstance(event, MessageRejected) and event.reply is not None)
