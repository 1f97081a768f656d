"""What answers a POST goes in, message by message, and comes out as one JSON body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ...auth.resource.caller import Caller
from ...exchange import OnProgress
from ...http.rules import Head
from ...jsonrpc import Message
from ...peer import Peer
from ...session import Session
from ...spec import Notification, Request
from .streams import Stream
from .wire import Receive, Send


@dataclass(slots=True)
class Posted:
    """A POST that has arrived: its message, its head, who sent it, and how its connection goes on."""

    message: Message | list[Message]
    head: Head
    caller: Caller
    receive: Receive
    send: Send


class Exchange:
    """One POST that is to be answered, and the session as its handlers see it: what they say goes with the answer. Until
    something else than that is sent, no stream is opened."""

    __slots__ = ("caller", "stream", "answer", "code", "is_over", "_session", "_open", "_waiting")

    def __init__(self, session: Session, caller: Caller, open: Callable[[], Stream]) -> None:
        self.caller = caller
        self.stream: Stream | None = None
        self.answer: bytes | None = None
        self.code = 0
        self.is_over = False
        self._session = session
        self._open = open
        self._waiting: asyncio.Future[None] | None = None

    @property
    def peer(self) -> Peer:
        return self._session.peer

    def reply(self, answer: bytes | None, code: int) -> None:
        """The answer, which is the last that comes; None where the request was cancelled."""
        self.is_over = True
        if self.stream is None:
            self.answer, self.code = answer, code
        else:
            if answer is not None:
                self.stream.put(answer)
            self.stream.finish()
        if self._waiting is not None:
            self._wake(self._waiting)

    def left(self, leaving: object) -> None:
        """The client has left, which is how it cancels without a session (2026: basic/transports, Cancellation)."""
        self._session.abandon()  # First of all, so that no handler says anything to somebody who is not there.
        if not self.is_over:
            self.reply(None, 0)

    def streaming(self) -> Stream:
        """The stream of this exchange, opened if it is not yet."""
        if self.stream is None:
            self.stream = self._open()
            if self._waiting is not None:
                self._wake(self._waiting)
        return self.stream

    async def begun(self, timeout: float | None) -> None:
        """Wait until it is known whether the answer is a body or a stream, at most so many seconds."""
        if self.is_over or self.stream is not None:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._waiting], timeout=timeout)

    def _wake(self, waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            waiting.set_result(None)

    # ---- what handlers say --------------------------------------------------------------------------------------------

    async def ask(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        timeout: float | None,
        on_progress: OnProgress | None = None,
        longest: float | None = None,
    ) -> BaseModel:
        """Send a request and wait for its answer, as a session does."""
        return await self._session.ask(row, params, timeout, on_progress, longest, self._send)

    async def tell(self, row: Notification, params: Any) -> None:
        """Send a notification, as a session does."""
        if self.is_over:
            await self._session.tell(row, params)
            return
        stream = self.streaming()
        stream.put(self._session.peer.tell(row, params))
        await stream.drained()

    def part(self) -> None:
        """End the connection of the exchange; its client comes back for the rest of the stream."""
        if not self.is_over:
            self.streaming().part()

    def _send(self, message: bytes) -> None:
        # After its answer nothing can go with an exchange any more.
        send = self._session.transport.send if self.is_over else self.streaming().put
        send(message)
