"""A peer, a transport and handlers, run together: requests both ways, each an exchange of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from . import jsonrpc
from .batch import Together
from .eager import Starter
from .errors import McpError, NotAllowed, NotConnected, TimedOut
from .exchange import Calls, OnProgress, log
from .framing import OVERSIZED
from .jsonrpc import Id
from .lifecycle import Phase
from .outcomes import hear, is_cancelled, refused
from .peer import Answered, Asked, Batch, Event, Peer, Refused, Told
from .seams import Exchanging, Pushing, Reply, Send, Speaker, Transport
from .spec import Notification, Request

if TYPE_CHECKING:
    from .auth.resource.caller import Caller

_DRAIN: Final = 1.0  # Seconds that handlers get to finish once the peer has ended the conversation.
_CANCEL: Final = 0.4  # And again to take note that they are cancelled.
_MOST_AT_ONCE: Final = 1024  # Handlers running at once; what comes beyond waits unread.


@dataclass(slots=True)
class Serving:
    """A request of the peer's whose handler waits for something."""

    asked: Asked
    reply: Reply
    task: asyncio.Task[None]


class Session:
    """One conversation. `run` receives until the transport ends; `ask` and `tell` work from any task meanwhile.

    `handle` runs the handler of a message and gives its result. `opened` answers the opening request: at once, because
    what comes after it in the same breath is to be understood as the two sides have agreed.
    """

    __slots__ = ("peer", "caller", "transport", "handle", "ended", "_opened", "_calls", "_serving", "_tasks", "_loop",
                 "_starter", "_shares_starter", "_end", "_over", "_pushing")  # fmt: skip

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        handle: Callable[[Speaker, Asked | Told], Awaitable[Any]],
        opened: Callable[[Peer, Asked], BaseModel] | None = None,
        starter: Starter | None = None,
        caller: Caller | None = None,
    ) -> None:
        self.peer = peer
        self.caller = caller
        self.transport = transport
        self.handle = handle
        self._opened = opened
        self._calls = Calls()
        self._serving: dict[Id, Serving] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._loop = asyncio.get_running_loop()
        self._starter = starter or Starter(self._loop)
        self._shares_starter = starter is not None
        self._end: asyncio.Future[None] | None = None
        self._over: asyncio.Future[None] | None = None
        self._pushing: Pushing | None = None
        self.ended = False

    @property
    def over(self) -> asyncio.Future[None]:
        """Done when the conversation has ended; not to be cancelled."""
        if self._over is None:
            self._over = self._loop.create_future()
            if self.ended:
                self._over.set_result(None)
        return self._over

    # ---- receiving --------------------------------------------------------------------------------------------------

    async def run(self, first: bytes | None = None) -> None:
        """Receive and serve until the conversation ends; then every call still waiting fails with NotConnected.

        `first` is the first message, where it has been received already.
        """
        self._pushing = self.transport if isinstance(self.transport, Pushing) else None
        if first is not None:
            self._arrived(first)
        try:
            if isinstance(self.transport, Exchanging):
                self.transport.exchange_with(self)
            if self._pushing is not None:
                self._end = self._loop.create_future()
                self._pushing.push_to(self._arrived)
                await self._end
            else:
                await self._receive()
        except NotConnected as fault:
            log.debug("%s", fault)
        except asyncio.CancelledError:
            self._fail_calls()
            await self._finish_handlers(0)
            raise
        self._fail_calls()
        await self._finish_handlers(_DRAIN)

    async def _receive(self) -> None:
        while (data := await self.transport.receive()) is not None:
            self._arrived(data)
            if len(self._tasks) >= _MOST_AT_ONCE:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            await self.transport.drained()

    def _arrived(self, data: bytes | None) -> None:
        if data is None:
            if self._end is not None and not self._end.done():
                self._end.set_result(None)
        else:
            event = self.peer.oversized() if data is OVERSIZED else self.peer.receive(data)
            self.act(event, self._send, self)

    def take(self, message: jsonrpc.Message | list[jsonrpc.Message]) -> None:
        """What a transport of exchanges has read."""
        self.act(self.peer.take(message), self._send, self)

    def fail(self, id: Id, fault: McpError) -> None:
        """A request of ours will not be answered."""
        self.peer.forget(id)
        self._calls.settle(id, fault)

    def act(self, event: Event, reply: Reply, speaker: Speaker) -> bool:
        """Do what an event asks for; `speaker` is the conversation as its handlers see it. Whether `reply` will be
        called, or was already."""
        match event:
            case Asked():
                if self._opened is not None and event.row is self.peer.opening:
                    opened, self._opened = self._opened, None  # It is needed once.
                    reply(self.peer.answer(event, opened(self.peer, event)), 0)
                elif (task := self._start(self._serve(event, reply, speaker))) is not None:
                    self._serving[event.id] = Serving(event, reply, task)
                return True
            case Told():
                self._told(event)
            case Answered():
                self._calls.settle(event.id, event.outcome)
            case Refused():
                log.debug("refused: %s", event.why)
                if event.reply is not None:
                    reply(event.reply, event.code)
                    return True
            case Batch():
                return self._act_together(event.events, reply, speaker)
        return False

    def _act_together(self, events: list[Event], reply: Reply, speaker: Speaker) -> bool:
        """Serve a batch; its answers are sent in one message, once the last of them is there."""
        together = Together(events, reply)
        expected = bool(together.due)
        for number, event in enumerate(events):
            self.act(event, partial(together.answer, number), speaker)
        return expected

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run a coroutine beside the others, at once up to where it first waits; its task, or None where it ended."""
        task = self._starter.start(work)
        if task is None or task.done():
            return None
        self._tasks[task] = None
        if len(self._tasks) == _MOST_AT_ONCE and self._pushing is not None:
            self._pushing.pause()
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        """A handler has ended. It says so itself, which saves a turn of the loop; one that never began cannot."""
        if task not in self._tasks:
            return
        del self._tasks[task]
        if len(self._tasks) == _MOST_AT_ONCE - 1 and self._pushing is not None:
            self._pushing.resume()

    async def _serve(self, asked: Asked, reply: Reply, speaker: Speaker) -> None:
        """Run a handler and send what it gives; its own faults never end the conversation."""
        code, serving = 0, None
        try:
            result = await self.handle(speaker, asked)
            is_wanted = asked.open  # Who has cancelled wants no answer, also not that of a handler which did not care.
            answer = self.peer.answer(asked, result)
        except (Exception, asyncio.CancelledError) as fault:
            if is_cancelled(fault):
                raise
            is_wanted = asked.open
            answer, code = refused(self.peer, asked, fault)
        finally:
            if self._serving and (serving := self._serving.get(asked.id)) is not None and serving.asked is asked:
                self._done(serving.task)
        if is_wanted:
            if serving is not None:  # It is its own: nobody else has the id as long as the request is open.
                del self._serving[asked.id]
                if not self._serving:
                    self._serving.clear()  # Gives back what it had grown to.
            reply(answer, code)

    def _cancel(self, id: Id) -> None:
        """Stop the handler of a request; the request is over at once."""
        # The opening request is never cancelled, and nothing else is served before it is answered.
        serving = self._serving.pop(id, None) if self.peer.phase is Phase.OPEN else None
        if serving is not None:
            self.peer.let_go(serving.asked)
            serving.task.add_done_callback(self._done)
            serving.task.cancel()
            serving.reply(None, 0)

    def _told(self, told: Told) -> None:
        """Notifications that are about an exchange go to it; the others to their handler."""
        lifecycle = self.peer.revision.lifecycle
        if told.row.method == lifecycle.cancel.method:
            log.debug("the peer cancels %r: %r", told.params.request_id, told.params.reason)
            self._cancel(told.params.request_id)
        elif told.row.method == lifecycle.progress.method:
            self._calls.progressed(told.params)
        # What is said of it belongs to no exchange: nobody waits for an answer to a notification.
        if (task := self._start(hear(told, self.handle(self, told)))) is not None:
            task.add_done_callback(self._done)

    async def _finish_handlers(self, patience: float) -> None:
        """Let the handlers finish for a moment, then cancel them."""
        if self._tasks and patience:
            await asyncio.wait(self._tasks, timeout=patience)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CANCEL)
        if not self._shares_starter:
            await self._starter.close()

    # ---- sending ----------------------------------------------------------------------------------------------------

    def _send(self, message: bytes | None, code: int = 0) -> None:
        try:
            if message is not None:
                self.transport.send(message, more=bool(self._serving))
        except NotConnected as fault:
            log.debug("not sent: %s", fault)

    async def ask(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        timeout: float | None,
        on_progress: OnProgress | None = None,
        longest: float | None = None,
        send: Send | None = None,
        id: Id | None = None,
    ) -> BaseModel:
        """Send a request and wait for its answer, at most `timeout` seconds, or `timeout` after each progress but at
        most `longest` in all. `send` is how, if not over the transport; `id` the next one of the peer, where that was
        taken already. Raises McpError."""
        if self.ended:
            raise NotConnected(f"{row.method!r}: the connection is closed")
        id = self.peer.next_id() if id is None else id
        if on_progress is not None and isinstance(params, dict):
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": id}}
        data = self.peer.ask(id, row, params)
        call = self._calls.open(id, row, timeout, on_progress, longest)
        try:
            if send is None:
                self.transport.send(data, more=len(self._calls) > 1)
            else:
                send(data)
            return await call.waiting
        except (asyncio.CancelledError, TimedOut):
            self._give_up(id, row, send)
            raise
        finally:
            self._calls.close(call)
            self.peer.forget(id)

    def _give_up(self, id: Id, row: Request[Any], send: Send | None) -> None:
        """Tell the peer that nobody waits any more; the opening request is never cancelled."""
        if self.peer.forget(id) and row is not self.peer.opening and not self.ended:
            try:
                cancel = self.peer.mine(self.peer.revision.lifecycle.cancel)
                (send or self._send)(self.peer.tell(cancel, {"requestId": id}))
            except NotAllowed:
                log.debug("%r has no notification to cancel with", self.peer.revision.id)

    async def tell(self, row: Notification, params: Any) -> None:
        """Send a notification. Raises McpError."""
        if self.ended:
            raise NotConnected(f"{row.method!r}: the connection is closed")
        self.transport.send(self.peer.tell(row, params))
        await self.transport.drained()

    def part(self) -> None:
        """Nothing: a transport that carries everything goes on."""

    async def close(self) -> None:
        """End the conversation; every call still waiting fails with NotConnected."""
        self._fail_calls()
        await self.transport.close()

    async def stop(self) -> None:
        """End what was fed by `act` instead of `run`: calls fail, handlers are cancelled, and give no answer."""
        self._fail_calls()
        await self._finish_handlers(0)
        while self._serving:
            self._serving.popitem()[1].reply(None, 0)

    def _fail_calls(self) -> None:
        if not self.ended and self._over is not None:
            self._over.set_result(None)
        self.ended = True
        self._calls.fail(self.transport.ending)
