"""What answers a POST goes in, message by message, and comes out as one JSON body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from ...auth.resource.caller import Caller
from ...errors import NotConnected
from ...exchange import OnProgress
from ...http.rules import Head
from ...jsonrpc import Message
from ...outcomes import refused
from ...peer import Asked, Peer
from ...session import Session
from ...spec import Notification, Request
from .events import MemoryEvents
from .streams import Stream
from .wire import Receive, Send

# A POST that has arrived: its message, its head, who sent it, and how its connection goes on.
Posted = tuple[Message | list[Message], Head, Caller, Receive, Send]


class Exchange:
    """One POST that is to be answered: what its handlers say goes with the answer. Until something else than that is sent,
    no stream is opened."""

    stream: Stream | None = None
    answer: bytes | None = None
    code = 0
    is_over = False
    _waiting: asyncio.Future[None] | None = None

    def reply(self, answer: bytes | None, code: int) -> None:
        """The answer, which is the last that comes; None where the request was cancelled. Who has cancelled wants no answer,
        also not that of a handler which did not care."""
        if self.is_over:
            return
        self.is_over = True
        if self.stream is None:
            self.answer, self.code = answer, code
        else:
            if answer is not None:
                self.stream.put(answer)
            self.stream.finish()
        if self._waiting is not None:
            self._wake(self._waiting)

    def streaming(self) -> Stream:
        """The stream of this exchange, opened if it is not yet."""
        if self.stream is None:
            self.stream = self._opened()
            if self._waiting is not None:
                self._wake(self._waiting)
        return self.stream

    async def begun(self, timeout: float | None) -> None:
        """Wait until it is known whether the answer is a body or a stream, at most so many seconds."""
        if self.is_over or self.stream is not None:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._waiting], timeout=timeout)

    def part(self) -> None:
        """End the connection of the exchange; its client comes back for the rest of the stream."""
        if not self.is_over:
            self.streaming().part()

    def _opened(self) -> Stream:
        raise NotImplementedError

    def _wake(self, waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            waiting.set_result(None)

    async def _put(self, message: bytes) -> None:
        stream = self.streaming()
        stream.put(message)
        await stream.drained()


class SessionExchange(Exchange):
    """One that belongs to a session, and that session as its handlers see it."""

    def __init__(self, session: Session, caller: Caller, open: Callable[[], Stream]) -> None:
        self.caller = caller
        self._session = session
        self._open = open

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
        if self.is_over:
            await self._session.tell(row, params)
        else:
            await self._put(self._session.peer.tell(row, params))

    def _send(self, message: bytes) -> None:
        # After its answer nothing can go with an exchange any more.
        send = self._session.transport.send if self.is_over else self.streaming().put
        send(message)

    def _opened(self) -> Stream:
        return self._open()


class LoneExchange(Exchange):
    """One that belongs to no session: its handler runs in the task that brought it."""

    _task: asyncio.Task[Any] | None = None  # Where a handler waits.
    _cancelled = 0

    def __init__(self, peer: Peer, caller: Caller) -> None:
        self.peer = peer
        self.caller = caller

    def settle(self, asked: Asked, result: Any) -> None:
        """What the handler gives is the answer, if it may be."""
        try:
            answer = self.peer.answer(asked, result)
        except Exception as fault:
            self.fail(asked, fault)
        else:
            self.reply(answer, 0)

    def fail(self, asked: Asked, fault: BaseException) -> None:
        """The handler has failed; its faults are no more than its own."""
        self.reply(*refused(self.peer, asked, fault))

    async def serve(self, asked: Asked, work: Awaitable[Any]) -> None:
        """Run a handler, or the rest of it. Raises CancelledError where it is not `cancel` that ended it."""
        task = self._task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        try:
            self.settle(asked, await work)
        except asyncio.CancelledError as fault:
            if task.cancelling() > self._cancelled:
                raise
            if self._cancelled:
                self.reply(None, 0)
            else:  # Something that the handler waited for was cancelled.
                self.fail(asked, fault)
        except Exception as fault:
            self.fail(asked, fault)
        finally:
            self._task = None
            for _ in range(self._cancelled):
                task.uncancel()

    def cancel(self) -> None:
        """Stop the handler, if it is still at work."""
        if self._task is not None:
            self._cancelled += 1
            self._task.cancel()

    def left(self, leaving: object) -> None:
        """The client has left, which is how it cancels without a session (2026: basic/transports, Cancellation)."""
        self.cancel()
        self.reply(None, 0)  # At once, so that no handler says anything to somebody who is not there.

    async def ask(self, row: Request[Any], params: dict[str, Any] | BaseModel, *how: Any, **more: Any) -> BaseModel:
        """Raises NotAllowed, as the revision has it, or NotConnected: there is no way for an answer to come back."""
        id = self.peer.next_id()
        self.peer.ask(id, row, params)
        self.peer.forget(id)
        raise NotConnected(f"{row.method!r}: there is no session")

    async def tell(self, row: Notification, params: Any) -> None:
        """Send a notification. Raises McpError."""
        if self.is_over:
            raise NotConnected(f"{row.method!r}: the request was answered")
        await self._put(self.peer.tell(row, params))

    def _opened(self) -> Stream:
        return Stream(MemoryEvents(), resumable=False)
