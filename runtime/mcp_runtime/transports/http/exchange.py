"""What answers a POST goes in, message by message, and comes out as one JSON body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ...auth.resource.caller import Caller
from ...exchange import OnProgress
from ...http.heads import Head
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
    """One POST that is to be answered. Until something else than its answer is sent, no stream is opened."""

    __slots__ = ("stream", "answer", "code", "is_over", "_open", "_waiting")

    def __init__(self, open: Callable[[], Stream]) -> None:
        self.stream: Stream | None = None
        self.answer: bytes | None = None
        self.code = 0
        self.is_over = False
        self._open = open
        self._waiting: asyncio.Future[None] | None = None

    def reply(self, answer: bytes | None, code: int) -> None:
        """The answer, which is the last that comes; None where the request was cancelled."""
        self.is_over = True
        if self.stream is None:
            self.answer, self.code = answer, code
        else:
            if answer is not None:
                self.stream.put(answer)
            self.stream.finish()
        self._wake()

    def left(self, leaving: object) -> None:
        """The client has left, which is how it cancels without a session (2026: basic/transports, Cancellation)."""
        self.reply(None, 0)

    def send(self, message: bytes) -> None:
        """What a handler says before it answers."""
        self.streaming().put(message)

    def streaming(self) -> Stream:
        """The stream of this exchange, opened if it is not yet."""
        if self.stream is None:
            self.stream = self._open()
            self._wake()
        return self.stream

    async def begun(self, timeout: float | None) -> None:
        """Wait until it is known whether the answer is a body or a stream, at most so many seconds."""
        if self.is_over or self.stream is not None:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._waiting], timeout=timeout)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Related:
    """A session as the handlers of one exchange see it: what they say goes with the exchange."""

    __slots__ = ("caller", "_exchange", "_session")

    def __init__(self, session: Session, exchange: Exchange, caller: Caller) -> None:
        self.caller = caller
        self._session = session
        self._exchange = exchange

    @property
    def peer(self) -> Peer:
        return self._session.peer

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
        if self._exchange.is_over:
            await self._session.tell(row, params)
            return
        stream = self._exchange.streaming()
        stream.put(self._session.peer.tell(row, params))
        await stream.drained()

    def part(self) -> None:
        """End the connection of the exchange; its client comes back for the rest of the stream."""
        if not self._exchange.is_over:
            self._exchange.streaming().part()

    def _send(self, message: bytes) -> None:
        # After its answer nothing can go with an exchange any more.
        send = self._session.transport.send if self._exchange.is_over else self._exchange.send
        send(message)
