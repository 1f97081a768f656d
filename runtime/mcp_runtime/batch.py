"""The answers to requests that came together go in, one by one; all of them in one message come out with the last."""

from __future__ import annotations

from . import jsonrpc
from .peer import Asked, Event, Refused
from .seams import Reply


class Together:
    """The answers to the events of one batch; `due` are the numbers of those that are still to be answered."""

    __slots__ = ("due", "_answers", "_reply")

    def __init__(self, events: list[Event], reply: Reply) -> None:
        self.due = {number for number, event in enumerate(events) if _is_due(event)}
        self._answers: list[bytes] = []
        self._reply = reply

    def answer(self, number: int, answer: bytes | None, code: int = 0) -> None:
        """The answer to one of them, None where it gets none."""
        if number not in self.due:
            return
        self.due.discard(number)
        if answer is not None:
            self._answers.append(answer)
        if not self.due:
            # Where all were cancelled, nothing is left to say.
            self._reply(jsonrpc.batch(self._answers) if self._answers else None, 0)


def _is_due(event: Event) -> bool:
    """Whether an event of a batch will be answered."""
    return isinstance(event, Asked) or (isinstance(event, Refused) and event.reply is not None)
