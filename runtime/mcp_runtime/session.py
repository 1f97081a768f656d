"""A peer, a transport and handlers, run together: requests both ways, each an exchange of its own."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pydantic import BaseModel

from . import jsonrpc
from .errors import InvalidMessage, McpError, NotAllowed, NotConnected, Refusal, TimedOut
from .framing import OVERSIZED
from .jsonrpc import Id
from .lifecycle import Phase
from .peer import Answered, Asked, Batch, Event, Peer, Refused, Told
from .spec import Handshake, Notification, Request

log: Final = logging.getLogger("mcp_runtime")

_DRAIN: Final = 1.0  # Seconds that handlers get to finish once the peer has ended the conversation.
_CANCEL: Final = 0.4  # And again to take note that they are cancelled.
_MOST_AT_ONCE: Final = 1024  # Handlers running at once; what comes beyond waits unread.
_EAGER: Final = sys.version_info >= (3, 12)


class Transport(Protocol):
    """Whole messages, in order, both ways. `ending` says why the conversation ended, for error messages."""

    @property
    def ending(self) -> str: ...

    def send(self, message: bytes) -> None:
        """Take one message to be sent; never blocks. Raises NotConnected."""
        ...

    async def drained(self) -> None:
        """Wait until little of what was taken is still to be sent. Raises NotConnected."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None at the end of the conversation."""
        ...

    async def close(self) -> None:
        """Send what is left, end the conversation and release all it holds; more than once does no harm."""
        ...


Reply = Callable[[bytes | None], None]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a request is: `progress` grows, `total` is where it ends, as far as the other side knows."""

    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(slots=True)
class Call:
    """A request of ours that waits for its answer. Times are those of the event loop, in seconds."""

    row: Request[Any]
    waiting: asyncio.Future[BaseModel]
    on_progress: Callable[[Progress], None] | None
    timeout: float | None
    latest: float | None
    timer: asyncio.TimerHandle | None = None
    progress: float = float("-inf")


class Session:
    """One conversation. `run` receives until the transport ends; `ask` and `tell` work from any task meanwhile.

    `handle` runs the handler of a message and gives its result. `opened` answers the opening request: at once, because
    what comes after it in the same breath is to be understood as the two sides have agreed.
    """

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        handle: Callable[[Session, Asked | Told], Awaitable[Any]],
        opened: Callable[[Peer, Asked], BaseModel] | None = None,
    ) -> None:
        self.peer = peer
        self.transport = transport
        self.handle = handle
        self._opened = opened
        self._calls: dict[Id, Call] = {}
        self._serving: dict[Id, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.ended = False

    # ---- receiving --------------------------------------------------------------------------------------------------

    async def run(self, data: bytes | None = None) -> None:
        """Receive and serve until the conversation ends; then every call still waiting fails with NotConnected.

        `data` is the first message, where it has been received already.
        """
        receive = self.transport.receive
        try:
            data = data if data is not None else await receive()
            while data is not None:
                if data is OVERSIZED:
                    self._send(jsonrpc.error(None, jsonrpc.INVALID_REQUEST, "the message is longer than the limit"))
                else:
                    self._act(self.peer.receive(data), self._send)
                while len(self._tasks) >= _MOST_AT_ONCE:
                    self._room.clear()
                    await self._room.wait()
                await self.transport.drained()
                data = await receive()
        except NotConnected as fault:
            log.debug("%s", fault)
        except asyncio.CancelledError:
            self._fail_calls()
            await self._finish_handlers(0)
            raise
        self._fail_calls()
        await self._finish_handlers(_DRAIN)

    def _act(self, event: Event, reply: Reply) -> None:
        match event:
            case Asked() if self._opened is not None and self.peer.phase is not Phase.OPEN and self._opens(event):
                reply(self.peer.answer(event, self._opened(self.peer, event)))
            case Asked():
                self._serving[event.id] = self._start(self._serve(event, reply))
            case Told():
                self._told(event)
            case Answered(id, outcome):
                self._settle(id, outcome)
            case Refused(why, answer):
                log.debug("refused: %s", why)
                if answer is not None:
                    reply(answer)
            case Batch(events):
                self._act_together(events)

    def _opens(self, asked: Asked) -> bool:
        lifecycle = self.peer.revision.lifecycle
        return isinstance(lifecycle, Handshake) and asked.row is lifecycle.open

    def _act_together(self, events: list[Event]) -> None:
        """Serve a batch; its answers are sent in one message, once the last of them is there."""
        due = sum(
            isinstance(event, Asked) or isinstance(event, Refused) and event.reply is not None for event in events
        )
        answers: list[bytes] = []

        def collect(answer: bytes | None) -> None:
            nonlocal due
            if answer is None:
                due -= 1
            else:
                answers.append(answer)
            if answers and len(answers) == due:
                self._send(jsonrpc.batch(answers))

        for event in events:
            self._act(event, collect)

    def _start(self, work: Any) -> asyncio.Task[None]:
        """Run a coroutine beside the others: at once up to where it first waits, where Python can do that."""
        if _EAGER:
            task: asyncio.Task[None] = asyncio.Task(work, loop=self._loop, eager_start=True)  # type: ignore[call-arg]
            if task.done():
                return task
        else:
            task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()

    async def _serve(self, asked: Asked, reply: Reply) -> None:
        """Run a handler and send what it gives; its own faults never end the conversation."""
        try:
            answer = self.peer.answer(asked, await self.handle(self, asked))
        except asyncio.CancelledError:
            self.peer.in_flight.discard(asked.id)
            reply(None)  # Who cancelled a request wants no answer.
            raise
        except Refusal as refusal:
            answer = self.peer.refuse(asked, refusal.code, refusal.message, refusal.data)
        except Exception as fault:
            if isinstance(fault, InvalidMessage):
                log.error("%s", fault)
            else:
                log.exception("the handler of %r failed", asked.row.method)
            answer = self.peer.refuse(asked, jsonrpc.INTERNAL_ERROR, "internal error")
        finally:
            self._serving.pop(asked.id, None)
        reply(answer)

    def _told(self, told: Told) -> None:
        """Notifications that are about an exchange go to it; the others to their handler."""
        lifecycle = self.peer.revision.lifecycle
        if told.row.method == lifecycle.cancel.method:
            task = self._serving.get(told.params.request_id)
            # The opening request is never cancelled, and nothing else is served before it is answered.
            if task is not None and self.peer.phase is Phase.OPEN:
                task.cancel()
        elif told.row.method == lifecycle.progress.method:
            self._progressed(told.params)
        self._start(self._hear(told))

    async def _hear(self, told: Told) -> None:
        try:
            await self.handle(self, told)
        except Exception:
            log.exception("the handler of %r failed", told.row.method)

    async def _finish_handlers(self, patience: float) -> None:
        """Let the handlers finish for a moment, then cancel them."""
        if self._tasks and patience:
            await asyncio.wait(self._tasks, timeout=patience)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CANCEL)

    # ---- sending ----------------------------------------------------------------------------------------------------

    def _send(self, message: bytes | None) -> None:
        try:
            if message is not None:
                self.transport.send(message)
        except NotConnected as fault:
            log.debug("not sent: %s", fault)

    async def ask(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        timeout: float | None,
        on_progress: Callable[[Progress], None] | None = None,
        longest: float | None = None,
    ) -> BaseModel:
        """Send a request and wait for its answer, at most `timeout` seconds, or `timeout` after each progress but at
        most `longest` in all. Raises McpError."""
        if self.ended:
            raise NotConnected(f"{row.method!r}: the connection is closed")
        id = self.peer.next_id()
        if on_progress is not None and isinstance(params, dict):
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": id}}
        data = self.peer.ask(id, row, params)
        now = self._loop.time()
        latest = now + longest if longest is not None else None
        call = Call(row, self._loop.create_future(), on_progress, timeout, latest)
        self._calls[id] = call
        self._set_timer(id, call)
        try:
            self.transport.send(data)
            return await call.waiting
        except (asyncio.CancelledError, TimedOut):
            self._give_up(id, row)
            raise
        finally:
            self._calls.pop(id, None)
            self.peer.forget(id)
            if call.timer is not None:
                call.timer.cancel()

    def _set_timer(self, id: Id, call: Call) -> None:
        if call.timer is not None:
            call.timer.cancel()
        due = [call.latest] if call.latest is not None else []
        due += [self._loop.time() + call.timeout] if call.timeout is not None else []
        call.timer = self._loop.call_at(min(due), self._expire, call) if due else None

    def _expire(self, call: Call) -> None:
        if not call.waiting.done():
            call.waiting.set_exception(TimedOut(f"{call.row.method!r}: no answer within {call.timeout:g} s"))

    def _give_up(self, id: Id, row: Request[Any]) -> None:
        """Tell the peer that nobody waits any more; the opening request is never cancelled."""
        lifecycle = self.peer.revision.lifecycle
        opening = isinstance(lifecycle, Handshake) and row is lifecycle.open
        if self.peer.forget(id) and not opening and not self.ended:
            try:
                self._send(self.peer.tell(lifecycle.cancel, {"requestId": id}))
            except NotAllowed:
                log.debug("%r has no notification to cancel with", self.peer.revision.id)

    async def tell(self, row: Notification, params: Any) -> None:
        """Send a notification. Raises McpError."""
        if self.ended:
            raise NotConnected(f"{row.method!r}: the connection is closed")
        self.transport.send(self.peer.tell(row, params))
        await self.transport.drained()

    async def close(self) -> None:
        """End the conversation; every call still waiting fails with NotConnected."""
        self._fail_calls()
        await self.transport.close()

    # ---- exchanges --------------------------------------------------------------------------------------------------

    def _settle(self, id: Id, outcome: BaseModel | McpError) -> None:
        call = self._calls.get(id)
        if call is None or call.waiting.done():
            return
        if isinstance(outcome, BaseModel):
            call.waiting.set_result(outcome)
        else:
            call.waiting.set_exception(outcome)

    def _progressed(self, params: Any) -> None:
        """Progress goes to the call it is about, as long as it grows; it may give the call more time."""
        call = self._calls.get(params.progress_token)
        if call is None or call.on_progress is None or params.progress <= call.progress:
            return
        call.progress = params.progress
        if call.latest is not None:
            self._set_timer(params.progress_token, call)
        total, message = params.total, getattr(params, "message", None)
        try:
            call.on_progress(Progress(params.progress, total, message))
        except Exception:
            log.exception("the progress callback of %r failed", call.row.method)

    def _fail_calls(self) -> None:
        self.ended = True
        for call in self._calls.values():
            if not call.waiting.done():
                call.waiting.set_exception(NotConnected(f"{call.row.method!r}: {self.transport.ending}"))
