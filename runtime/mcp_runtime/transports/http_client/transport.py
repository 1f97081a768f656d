"""A URL goes in, a transport to the server there comes out; each message is an HTTP request of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final

from ... import jsonrpc
from ...errors import ErrorResponse, McpError, NotConnected
from ...exchange import log
from ...http.asking import Spoken, plain
from ...jsonrpc import Id, Message, NotificationMessage, RequestMessage
from ...seams import Taker
from ...spec import Handshake, Revision
from ...wire import is_object
from .channel import Channel, Reach
from .flow import Flow
from .pair import Pair
from .streamable import OlderServer, Streamable

_PARTING: Final = 2.0  # Seconds to send what is left, and again to end the session.
_AT_ONCE: Final = 32  # Answers that are on their way at once, each over a connection of its own.
_MOST_UNSENT: Final = 256  # Answers that wait for their turn before no more is read.


class HttpTransport:
    """The way to one server. What it speaks is found out with the opening request."""

    def __init__(self, url: str, revision: Revision, reach: Reach) -> None:
        self.ending = f"the connection to {plain(url)} is closed"
        self._channel = Channel(url, reach)
        self._channel.spoken = Spoken(revision)
        self._flow = Flow()
        self._streamable = Streamable(self._channel, revision, self._take, self._flow)
        self._pair: Pair | None = None
        self._taker: Taker | None = None
        self._deliver: Callable[[bytes | None], None] | None = None
        self._exchanges: dict[Id, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._told: asyncio.Task[McpError | None] | None = None
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._unsent = 0
        self._closing: asyncio.Task[None] | None = None
        self._end = asyncio.Event()

    # ---- what came --------------------------------------------------------------------------------------------------

    def exchange_with(self, taker: Taker) -> None:
        """Hand over to this one what comes, and which requests fail."""
        self._taker = taker

    def speak(self, revision: Revision, others: Callable[[], Iterable[Revision]] = tuple) -> None:
        """From now on messages are of this revision; the server may be of one of the others."""
        self._channel.spoken = Spoken(revision, others)
        self._streamable.revision = revision
        if self._pair is not None:
            self._pair.revision = revision

    def push_to(self, deliver: Callable[[bytes | None], None]) -> None:
        """Tell this one of the end."""
        self._deliver = deliver

    def pause(self) -> None:
        self._flow.hold()

    def resume(self) -> None:
        self._flow.release()

    async def receive(self) -> bytes | None:
        """The end; messages are handed over as they come."""
        await self._end.wait()
        return None

    def _take(self, message: Message | list[Message]) -> None:
        if self._taker is not None and self._closing is None:
            self._taker.take(message)

    def _over(self) -> None:
        self._end.set()
        if self._deliver is not None:
            deliver, self._deliver = self._deliver, None
            deliver(None)

    # ---- what is sent -----------------------------------------------------------------------------------------------

    def send(self, message: bytes, more: bool = False) -> None:
        """Send a message by a task of its own. Raises NotConnected."""
        if self._closing is not None or self._end.is_set():
            raise NotConnected(self.ending)
        match jsonrpc.decode(message):
            case RequestMessage() as request:
                self._exchanges[request.id] = self._start(self._ask(request, message))
            case NotificationMessage() as notification:
                self._tell(notification, message)
            case answer:
                self._unsent += 1
                if self._unsent == _MOST_UNSENT:
                    self._flow.hold()
                self._start(self._answer(answer, message)).add_done_callback(self._sent)

    def _tell(self, told: NotificationMessage, data: bytes) -> None:
        lifecycle = self._streamable.revision.lifecycle
        if told.method == lifecycle.cancel.method and is_object(told.params):
            task = self._exchanges.pop(told.params.get("requestId", ""), None)
            if task is not None:
                task.cancel()
            if not isinstance(lifecycle, Handshake):
                return  # That its stream is closed says it all.
        self._told = self._start(self._send_on(told, data))

    async def _answer(self, answer: Message | list[Message], data: bytes) -> None:
        async with self._turns:
            await self._send_on(answer, data)

    def _sent(self, _: object) -> None:
        self._unsent -= 1
        if self._unsent == _MOST_UNSENT - 1:
            self._flow.release()

    async def drained(self) -> None:
        """Wait until the last notification was accepted. Raises McpError where it was not."""
        told = self._told
        if told is not None:
            await asyncio.wait([told])
            fault = NotConnected(self.ending) if told.cancelled() else told.result()
            if fault is not None:
                raise fault

    async def _ask(self, request: RequestMessage, data: bytes) -> None:
        try:
            await self._exchange(request, data)
        except McpError as fault:
            self._fail(request.id, fault)
        except TimeoutError:
            self._fail(request.id, NotConnected(f"{request.method!r}: the server did not take it in time"))
        except Exception as fault:
            log.exception("the exchange of %r failed", request.method)
            self._fail(request.id, NotConnected(f"{request.method!r}: {type(fault).__name__}"))
        finally:
            if self._exchanges.get(request.id) is asyncio.current_task():
                del self._exchanges[request.id]

    def _fail(self, id: Id, fault: McpError) -> None:
        if self._taker is not None:
            self._taker.fail(id, fault)

    async def _exchange(self, request: RequestMessage, data: bytes) -> None:
        if self._pair is None and not self._streamable.revision.http.streamable:
            await self._turn_to_pair()
        if self._pair is not None:
            await self._pair.send(request, data)
            return
        try:
            await self._streamable.ask(request, data)
        except OlderServer as older:
            try:
                pair = await self._turn_to_pair()
            except McpError as fault:
                log.debug("there is no older pair of endpoints either: %s", fault)
                raise older.fault from None
            await pair.send(request, data)

    async def _turn_to_pair(self) -> Pair:
        """Open the stream of the older way; it ends the conversation when it ends."""
        pair = Pair(self._channel, self._streamable.revision, self._take, self._flow)
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reading = self._start(pair.run(opened))
        try:
            await opened
        except BaseException:
            reading.cancel()
            raise
        reading.add_done_callback(lambda task: self._over())
        self._pair = pair
        return pair

    async def _send_on(self, message: Message | list[Message], data: bytes) -> McpError | None:
        """Send what is not answered; what went wrong, if something did."""
        try:
            if self._pair is not None:
                await self._pair.send(message, data)
            else:
                await self._streamable.tell(message, data)
                self._listen_after(message)
            return None
        except McpError as fault:
            log.debug("not accepted: %s", fault)
            return NotConnected(f"not accepted: {fault}") if isinstance(fault, ErrorResponse) else fault
        except (TimeoutError, OlderServer):
            return NotConnected("the server did not take a message in time")

    def _listen_after(self, message: Message | list[Message]) -> None:
        """Once the session is open, the server may have something to say by itself."""
        lifecycle = self._streamable.revision.lifecycle
        opened = isinstance(lifecycle, Handshake) and lifecycle.opened.method
        if isinstance(message, NotificationMessage) and message.method == opened and self._closing is None:
            self._start(self._streamable.listen())

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- the end ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End what is under way and the session; whoever asks again waits for the same end."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        with suppress(TimeoutError):
            if self._told is not None:
                await asyncio.wait([self._told], timeout=_PARTING)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_PARTING)
        try:
            async with asyncio.timeout(_PARTING):
                await self._streamable.leave()
        except (McpError, TimeoutError) as fault:
            log.debug("the session was not ended: %s", fault)
        await self._channel.close()
        self._over()
