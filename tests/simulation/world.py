"""What surrounds the product in a simulation: a store with its disk, a network, and processes that can be killed.

Whatever happens outside a process takes a random time. What one connection carries stays in its order, as with TCP.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from support.stores.passing import MEMORY

from mcp_products.workers.stores.memory import InMemoryStore
from mcp_products.workers.stores.redis_cluster import names_of_parts, slot_of
from mcp_runtime.http.sse import ServerSentEvent, SSEDecoder
from mcp_runtime.stores import ANYTHING, STREAM_LIMIT, Expected, NumberedEntry, ReceiveHint, StoreUnavailableError
from simulation.loop import SimulatedLoop

WAITS = 13.0  # Seconds for which senders wait for a store that cannot be reached, at least.
FLAKY = 0.2  # The part of the commands, and of the answers, that a flaky store loses.
FIRST = 1e-6  # Seconds between two things that one connection carries.


class World:
    """Time, chance, and what has happened."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random) -> None:
        self.loop = loop
        self.chance = chance
        self.violations: list[str] = []
        self.trace: list[str] = []
        self.disk = Disk(self)
        self.processes: list[Process] = []
        self.returned: dict[str, float] = {}  # When the functions of calls have returned.
        self.sent: list[str] = []  # Messages of sessions whose senders were told that they are stored.

    def seconds(self, least: float, most: float) -> float:
        """A random time, any power of ten as likely as any other."""
        return float(least * (most / least) ** self.chance.random())

    def note(self, text: str) -> None:
        """Remember what has happened: two runs of a seed have the same notes."""
        self.trace.append(f"{self.loop.now:.6f} {text}")

    def gave_up(self, began: float, what: str) -> None:
        """Whoever sends something waits for the store, which could not be reached since it began."""
        if self.loop.now < began + WAITS:
            self.violated("senders wait for the store", f"{what} was given up after {self.loop.now - began:.3f} s")

    def violated(self, promise: str, details: str) -> None:
        """Remember a promise that was not held."""
        self.note(f"VIOLATED {promise}: {details}")
        self.violations.append(promise)


def done(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("a command of the store in memory waits")


class Line:
    """One direction of a connection: what is sent arrives later, in order."""

    def __init__(self, world: World, most: float) -> None:
        self._loop = world.loop
        self._random = world.chance.random
        self._ratio = most / FIRST
        self._free_at = 0.0

    def arrival(self, later: float = 0.0) -> float:
        """The time at which what is sent now arrives, after so many further seconds."""
        arrives: float = self._loop.now + FIRST * self._ratio ** self._random() + later
        free = self._free_at + FIRST
        self._free_at = arrives if arrives > free else free
        return self._free_at

    def send(self, receive: Callable[..., object], *arguments: object) -> None:
        self._loop.happen(self.arrival(), receive, arguments)


class Disk:
    """What all processes share: the data of a store, which may refuse, be slow, and lose what it has."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.data = InMemoryStore()
        self.slots: dict[int, int] = {}  # Which part of the store has a slot; empty for a store without parts.
        self.connections: list[Connection] = []
        self.refuses_until = 0.0
        self.outages: list[tuple[float, float]] = []  # When the store could not be reached, or the machine slept.
        self.slow_until = 0.0
        self.deaf_until = 0.0
        self.flaky_until = 0.0
        self._signs_at: dict[str, float] = {}  # When the last ones were stored or lost, by their keys.
        self.shown_at = 0.0  # When the last sign of life was stored or lost of which its worker knows.
        self.breaks_at = ""  # The moment of a command at which it refuses everything.
        self._breaks_for = 0.0

    def refuses(self) -> bool:
        """Return True if a command, or its answer, is lost now."""
        now = self._world.loop.now
        return now < self.refuses_until or (now < self.flaky_until and self._world.chance.random() < FLAKY)

    def shows(self, key: str, is_stored: bool) -> float:
        """Return when a sign of life, of which a worker knows now, was stored or lost; 0.0 for another record."""
        if is_stored and ":alive:" in key:
            self._signs_at[key] = self._world.loop.now
        return self._signs_at.get(key, 0.0)

    def be_flaky(self, seconds: float) -> None:
        """Lose some commands and some answers for a while."""
        self.flaky_until = max(self.flaky_until, self._world.loop.now + seconds)

    def break_at(self, moment: str, seconds: float) -> None:
        """Refuse everything for a while from a moment on: "before append" or "after append", and so on."""
        self.breaks_at = moment
        self._breaks_for = seconds

    def reach(self, moment: str) -> None:
        """Know that a moment has come."""
        if moment == self.breaks_at:
            self.refuse(self._breaks_for)
            self.breaks_at = ""

    def refuse(self, seconds: float) -> None:
        """Refuse everything for a while."""
        now = self._world.loop.now
        begun = self.outages[-1][0] if now < self.refuses_until else now  # One goes on.
        self.refuses_until = max(self.refuses_until, now + seconds)
        self.outages.append((begun, self.refuses_until))
        self.lose_hints(seconds)

    def lose_hints(self, seconds: float) -> None:
        """Deliver no hints for a while. A connection says that some may be lost when it is open again."""
        until = self._world.loop.now + seconds
        self.deaf_until = max(self.deaf_until, until)
        self._world.loop.call_at(until, self._say_gap)

    def has(self, key: str) -> bool:
        """Return True if a record is stored."""
        return done(self.data.get(key)) is not None

    def copied(self) -> InMemoryStore:
        """What is on the disk, or at the replica."""
        return copy.deepcopy(self.data)

    def lose(self, kept: InMemoryStore | None) -> None:
        """Have what was kept, or nothing; all connections are lost."""
        self.data = InMemoryStore() if kept is None else kept
        self._signs_at = dict.fromkeys(self._signs_at, self._world.loop.now)
        self.refuse(self._world.seconds(1e-4, 1.0))

    def lose_part(self, part: int) -> None:
        """Lose what one part of the store has, as after FLUSHALL at one primary."""
        for table in (*(getattr(self.data, name) for name in MEMORY), self._signs_at):
            for key in [key for key in table if self.slots[slot_of(key.encode())] == part]:
                del table[key]

    def _say_gap(self) -> None:
        for connection in self.connections:
            connection.hint("", b"")


class Connection:
    """The store, as one process uses it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._loop = world.loop
        self._disk = world.disk
        self._process = process
        self._receivers: dict[str, list[ReceiveHint]] = {}
        self._cut_off_until = 0.0
        self._way = Line(world, 0.003)
        self._back = Line(world, 0.003)
        self._hints = Line(world, 0.02)
        self._disk.connections.append(self)

    def _command(self, name: str, *arguments: Any) -> asyncio.Future[Any]:
        """Run a command of the data. A process that is killed gets no answer, though its command may have been run."""
        loop = self._loop
        answer: asyncio.Future[Any] = asyncio.Future(loop=loop)
        later = self._world.seconds(0.01, 1.0) if loop.now < self._disk.slow_until else 0.0
        loop.happen(self._way.arrival(later), self._run, (answer, name, arguments))
        return answer

    def _run(self, answer: asyncio.Future[Any], name: str, arguments: tuple[Any, ...]) -> None:
        if not self._process.is_alive and self._world.chance.random() < 0.5:
            return  # It was not sent any more.
        disk, now = self._disk, self._loop.now
        result: Any = None
        if disk.breaks_at:
            disk.reach(f"before {name}")
        if now < self._cut_off_until or disk.refuses():
            return self._fail(answer)
        if name == "publish":
            for connection in disk.connections:
                connection.hint(*arguments)
        elif name != "subscribe":
            result = done(getattr(disk.data, name)(*arguments))
            if disk.breaks_at:
                disk.reach(f"after {name}")
        shown_at = disk.shows(arguments[0], result) if name == "put" else 0.0
        later = self._world.seconds(0.01, 1.0) if now < disk.slow_until else 0.0
        self._loop.happen(self._back.arrival(later), self._deliver, (answer, result, shown_at))

    def _deliver(self, answer: asyncio.Future[Any], result: Any, shown_at: float) -> None:
        if self._loop.now < self._cut_off_until or self._disk.refuses():
            self._fail(answer)
        elif self._process.is_alive and not answer.done():
            if shown_at > self._disk.shown_at:
                self._disk.shown_at = shown_at
            answer.set_result(result)

    def _fail(self, answer: asyncio.Future[Any]) -> None:
        if self._process.is_alive and not answer.done():
            answer.set_exception(StoreUnavailableError("the simulated store cannot be reached"))

    def hint(self, channel: str, message: bytes) -> None:
        """Receive a message of a channel; an empty one of all channels says that there may have been others."""
        for name in [channel] if channel else list(self._receivers):
            for receive in self._receivers.get(name, ()):
                self._hints.send(self._receive, receive, message)

    def _receive(self, receive: ReceiveHint, message: bytes) -> None:
        is_lost = self._loop.now < self._cut_off_until or (message and self._loop.now < self._disk.deaf_until)
        if self._process.is_alive and not is_lost:
            receive(message)

    def cut_off(self, seconds: float) -> None:
        """Let this process alone not reach the store for a while."""
        self._cut_off_until = max(self._cut_off_until, self._loop.now + seconds)
        self._loop.happen(self._cut_off_until, self.hint, ("", b""))

    # Each of these returns a future and is not a coroutine: it is called as often as everything else together.

    def get(self, key: str) -> asyncio.Future[bytes | None]:
        return self._command("get", key)

    def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> asyncio.Future[bool]:
        return self._command("put", key, value, ttl, expected)

    def touch(self, key: str, ttl: float) -> asyncio.Future[bytes | None]:
        return self._command("touch", key, ttl)

    def delete(self, key: str) -> asyncio.Future[bool]:
        return self._command("delete", key)

    def count(self, key: str, amount: int, ttl: float) -> asyncio.Future[int]:
        return self._command("count", key, amount, ttl)

    def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> asyncio.Future[int]:
        return self._command("append", stream, list(entries), ttl, after, token)

    def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> asyncio.Future[list[NumberedEntry]]:
        return self._command("read", stream, after, limit)

    def last(self, stream: str) -> asyncio.Future[int]:
        return self._command("last", stream)

    def drop(self, *streams: str) -> asyncio.Future[None]:
        return self._command("drop", *streams)

    def publish(self, channel: str, message: bytes) -> asyncio.Future[None]:
        return self._command("publish", channel, message)

    def subscribe(self, channel: str, receive: ReceiveHint) -> asyncio.Future[None]:
        receivers = self._receivers.setdefault(channel, [])
        if receive not in receivers:
            receivers.append(receive)
        return self._command("subscribe", channel)

    async def close(self) -> None:
        """Nothing is left to do."""


class PartedConnection(Connection):
    """A store of several parts, as one process uses it, which learns of a slot that has moved when it uses it."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world, process)
        self._known = {**self._disk.slots}
        self._first_name = world.chance.randrange(1 << 32)
        self.parts = names_of_parts(self._known, (), self._first_name)

    def _run(self, answer: asyncio.Future[Any], name: str, arguments: tuple[Any, ...]) -> None:
        slot = slot_of(str(arguments[0]).encode())
        if self._known[slot] != self._disk.slots[slot]:
            self._known[slot] = self._disk.slots[slot]
            self.parts = names_of_parts(self._known, self.parts, self._first_name)
        super()._run(answer, name, arguments)


class Process:
    """One worker. When it is killed, nothing that it does reaches anything any more."""

    def __init__(self, world: World, number: int, make: Callable[[Process], Any]) -> None:
        self.world = world
        self.number = number
        self.is_alive = True
        self.is_ready = False  # True once it has served a request.
        self.exchanges: list[Exchange] = []
        self.sending: dict[str, list[float]] = {}  # Since when messages of clients' sessions wait, by their names.
        self.tasks: list[asyncio.Task[None]] = []  # Those of its functions.
        self.server = make(self)
        self.application: Any = None

    async def open(self, **settings: Any) -> None:
        kind = PartedConnection if self.world.disk.slots else Connection
        self.connection = kind(self.world, self)
        self.application = self.server.application(store=self.connection, **settings)
        await self.application.open()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(self.world.loop.create_task(work))

    @property
    def is_busy(self) -> bool:
        return self.is_alive and not all(task.done() for task in self.tasks)

    def kill(self) -> None:
        self.is_alive = False
        for exchange in self.exchanges:
            exchange.cut()

    async def goes_on(self) -> None:
        """Return, unless the process was killed."""
        if not self.is_alive:
            await self.world.loop.create_future()


class Exchange:
    """One HTTP request and its answer, as a client sees it."""

    def __init__(self, process: Process, method: str, headers: dict[str, str], body: bytes) -> None:
        self._process = process
        self._world = process.world
        self._body: bytes | None = body
        self._to_client = Line(self._world, 0.05)
        self._to_server = Line(self._world, 0.05)
        self._has_left = False  # True once the server notices that the connection has ended.
        self._leaving: list[asyncio.Future[None]] = []  # Those who wait for that.
        self._arrived: deque[ServerSentEvent | None] = deque()
        self._waiting: asyncio.Future[None] | None = None  # The client that waits for the next event.
        self._decoder = SSEDecoder()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.content = b""
        self.is_over = self.was_cut = False
        self.answered_at = float("inf")  # When the head of the answer was there.
        self.was_ready = process.is_ready
        self.began = self._ended = process.world.loop.now
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._scope = {"type": "http", "method": method, "path": "/mcp", "headers": fields, "query_string": b""}
        process.exchanges = [exchange for exchange in process.exchanges if not exchange.is_over] + [self]
        self._to_server.send(self._begin)

    def _begin(self) -> None:
        if self._process.is_alive and not self.was_cut:
            serving = self._world.loop.create_task(self._process.application(self._scope, self._receive, self._send))
            serving.add_done_callback(lambda _: self._to_client.send(self._end))
            self._serving = serving
        elif not self._process.is_alive:
            self.cut()

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body = self._body
            self._body = None
            return {"type": "http.request", "body": body}
        if not self._has_left:
            waiting: asyncio.Future[None] = asyncio.Future(loop=self._world.loop)
            self._leaving.append(waiting)
            await waiting
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self._process.goes_on()
        self._to_client.send(self._arrive, message)
        if self._world.chance.random() < 0.1:  # The buffer is full.
            await asyncio.sleep(self._world.seconds(FIRST, 0.1))

    def _arrive(self, message: Any) -> None:
        if self.is_over:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.answered_at = self._world.loop.now
            self._process.is_ready = self._process.is_ready or self.status < 400
            self.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        else:
            self.content += message.get("body", b"")
            for event in self._decoder.feed(message.get("body", b"")):
                self._put(event)

    def _put(self, event: ServerSentEvent | None) -> None:
        self._arrived.append(event)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self._ended - self.began

    def _end(self) -> None:
        if not self.is_over and self._process.is_alive:
            self.is_over = True
            self._ended = self._world.loop.now
            self._put(None)

    def cut(self) -> None:
        """End the connection. The server notices it some time later, and its process may have ended as well."""
        if not self.is_over:
            self.is_over = self.was_cut = True
            self._ended = self._world.loop.now
            self._put(None)
            self._world.loop.happen(self._ended + self._world.seconds(FIRST, 10.0), self._leave, ())

    def _leave(self) -> None:
        self._has_left = True
        for waiting in self._leaving:
            if not waiting.done():
                waiting.set_result(None)

    async def next(self) -> ServerSentEvent | None:
        """The next event; None at the end."""
        while not self._arrived:
            self._waiting = asyncio.Future(loop=self._world.loop)
            await self._waiting
        return self._arrived.popleft()

    async def whole(self) -> None:
        """Wait for the end."""
        while await self.next() is not None:
            pass
