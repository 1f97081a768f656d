"""Commands to Redis over one connection, without waiting for the answers of those before."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final, Protocol

from mcp_runtime.errors import LocalError, MCPError
from mcp_runtime.stores import StoreClosedError, StoreUnavailableError

from .common import CommandBatches, OneProcess
from .tracked_records import CACHE, TRACK, TrackedRecords

IDLE_SECONDS: Final = 2.5  # Seconds without a message after which a ping is sent, and those for its answer.
_SECONDS: Final = 10.0  # Seconds for Redis to answer, where the client has no limit of its own.

Command = tuple[Any, ...]


_REFUSED: Final = {
    "cluster": 'a Redis Cluster: write "redis+cluster://host", or RedisStore(RedisCluster(…))',
    "sentinel": "a Sentinel: write the URL of a Redis, or RedisStore(Sentinel([…]).master_for(…))",
}
_PUSH: Final = ord(">")
_SUBSCRIBED: Final = b"ssubscribe"  # The answer to SSUBSCRIBE is a push message.


class IncompleteReplyError(Exception):
    """The end of a reply has not arrived yet."""


class RefusedCommandError(StoreUnavailableError):
    """Redis has answered a command with an error.

    Attributes:
        words: Those of the error; the first one is its code, such as "MOVED".
    """

    def __init__(self, reply: bytes) -> None:
        """Create the error of a reply."""
        text = reply.decode(errors="replace")
        super().__init__(f"Redis: {text}")
        self.words = text.split()


class PipeListener(Protocol):
    """What gets the messages of a connection to a node of a cluster that no command has asked for."""

    def pushed(self, pipe: RedisPipe, message: Sequence[Any]) -> None:
        """Handle a push message; its first part is its kind."""

    def lost(self, pipe: RedisPipe) -> None:
        """Note that the connection has ended, and the subscriptions over it."""


class RedisPipe(asyncio.Protocol):
    """A connection that redis-py opens, with its settings: TLS, users, Sentinel. What is sent and received afterwards
    does not pass redis-py, which takes several times as long for a command as Redis.

    Commands of one turn of the event loop are written together, and run in their order. When the connection is lost,
    the commands that were sent fail; the next one opens another connection.
    """

    parts: Final = ()  # One Redis loses its past as a whole.

    def __init__(
        self,
        client: Any,
        scripts: Sequence[str],
        otherwise: CommandBatches[Command],
        listener: PipeListener | None = None,
    ) -> None:
        """Use the settings of a client.

        Args:
            client: A `redis.asyncio.Redis`.
            scripts: Lua scripts that Redis has to know on every connection.
            otherwise: Sends the commands if this version of redis-py does not give its connections away.
            listener: Gets push messages. Default None: this is a single Redis, which sends none but of records.
        """
        self._client = client
        self._scripts = scripts
        self._otherwise = otherwise
        self._listener = listener
        self._unsent: list[tuple[Command, asyncio.Future[Any]]] = []
        self._sent: deque[asyncio.Future[Any]] = deque()
        self._connection: Any = None
        self._former: Any = None  # The protocol that the connection had.
        self._transport: Any = None
        self._connecting: asyncio.Task[None] | None = None
        self._received = b""
        self._is_flushing = self._is_closed = False
        self._greeting: asyncio.Future[Any] | None = None  # The answer to HELLO, while it is awaited.
        self._refusal: LocalError | None = None  # Why this Redis cannot be used at all.
        self._watching: asyncio.TimerHandle | None = None
        self._answers = self._answers_before = self._silences = 0
        self._seconds = _SECONDS
        self.process = OneProcess()
        self.records = TrackedRecords()

    def add(self, command: Command) -> asyncio.Future[Any]:
        """Return the future result of a command. Raises StoreClosedError after `close`."""
        future = self._queue(command)
        self._flush_soon()
        return future

    def get_tracked(self, key: str) -> asyncio.Future[Any]:
        """Return the future value of a record, which is among the tracked ones then."""
        if not self.records.is_on:
            return self.add(("GET", key))
        caching, future = self._queue(CACHE), self._queue(("GET", key))
        self.records.expect(key, caching, future)
        self._flush_soon()
        return future

    def _queue(self, command: Command) -> asyncio.Future[Any]:
        if self._is_closed:
            raise StoreClosedError("the store is closed")
        self.process.require()
        if self._refusal is not None:
            raise self._refusal
        future = asyncio.get_running_loop().create_future()
        self._unsent.append((command, future))
        return future

    def tracked(self, key: str) -> bytes | None:
        """Return the value of a record if it is known."""
        return self.records.get(key)

    def forget(self, key: str) -> None:
        """Forget a record, which the next command changes."""
        self.records.forget(key)

    async def report(self) -> None:
        """Wait until Redis has written the reports of the changes that it has answered."""
        if self.records.is_on:
            await self.add(("PING",))

    async def unlink(self, keys: Sequence[str]) -> None:
        """Delete keys."""
        await self.add(("UNLINK", *keys))

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush_turn)

    async def close(self) -> None:
        """Wait for the answers to what was sent, refuse further commands, and close the connection."""
        self._is_closed = True
        if self.process.is_parent:
            return
        waiting = [*self._sent, *(future for _, future in self._unsent)]
        if waiting:
            await asyncio.wait(waiting)
        if self._watching is not None:
            self._watching.cancel()
        if self._connecting is not None:
            await asyncio.wait([self._connecting])
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)
        await self._otherwise.close()

    def _flush_turn(self) -> None:
        """Write the commands of this turn of the event loop."""
        self._is_flushing = False
        self._flush()

    def _flush(self) -> None:
        """Write the commands that wait, or connect first."""
        if self._transport is None:
            if self._connecting is None and self._unsent:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
            return
        unsent = self._unsent
        self._unsent = []
        if len(unsent) == 1:
            [(command, future)] = unsent
            self._transport.write(packed(command))
            self._sent.append(future)
        else:
            self._transport.write(b"".join([packed(command) for command, _ in unsent]))
            self._sent.extend([future for _, future in unsent])
        if self._watching is None:
            self._watch()

    # ---- the connection ----------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        pool = getattr(self._client, "connection_pool", None)
        if pool is None:
            self._connecting = None
            return self._do_otherwise()
        try:
            connection = pool.make_connection()
            self._seconds = getattr(connection, "socket_timeout", None) or _SECONDS
            async with asyncio.timeout(self._seconds):
                await connection.connect()
        except Exception as error:
            self._fail(unavailable(error), [future for _, future in self._unsent])
            self._unsent.clear()
            return
        finally:
            self._connecting = None
        writer = getattr(connection, "_writer", None)
        if not isinstance(writer, asyncio.StreamWriter):
            await connection.disconnect(nowait=True)
            return self._do_otherwise()
        self._connection = connection
        self._transport = writer.transport
        self._former = writer.transport.get_protocol()
        self._received = b""
        writer.transport.set_protocol(self)
        loop = asyncio.get_running_loop()
        commands = [*TRACK, *(("SCRIPT", "LOAD", script) for script in self._scripts)]
        self._unsent[:0] = [(command, loop.create_future()) for command in commands]
        self._greeting = self._unsent[0][1]
        self._unsent[len(TRACK) - 1][1].add_done_callback(self._begin_tracking)
        self._flush()

    def _check_mode(self, reply: Any) -> None:
        """Refuse all commands if this is not a Redis of the expected mode."""
        self._greeting = None
        mode = _mode_of(reply) if isinstance(reply, list) else ""  # pyright: ignore[reportUnknownArgumentType]
        if self._listener is not None:
            if mode != "cluster":
                self._refuse("a Redis that is not a node of a cluster, or does not allow its user +hello")
        elif mode in _REFUSED:
            self._refuse(_REFUSED[mode])

    def _refuse(self, what: str) -> None:
        self._refusal = LocalError(f"the store is {what}")
        sent = self._sent
        self._sent = deque()
        self._fail(self._refusal, sent)
        if self._transport is not None:
            self._transport.abort()

    def _begin_tracking(self, answer: asyncio.Future[Any]) -> None:
        is_refused = answer.exception() is not None  # Redis is too old, or does not allow it to this user.
        if not is_refused and self._transport is not None:
            self.records.begin(self._transport.get_extra_info("socket"))

    def _do_otherwise(self) -> None:
        """Let redis-py send the commands."""
        self.add = self._otherwise.add  # type: ignore[method-assign]
        for command, future in self._unsent:
            self._otherwise.add(command).add_done_callback(partial(_pass_on, future))
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """Give the commands their results."""
        self.records.received()
        received, at = self._received + data if self._received else data, 0
        while at < len(received):
            try:
                reply, after = read_reply(received, at)
            except IncompleteReplyError:
                break
            if received[at] == _PUSH:
                self._push(reply)
            if self._sent and (received[at] != _PUSH or reply[:1] == [_SUBSCRIBED]):
                self._answer(self._sent.popleft(), reply)
            at = after
        self._received = received[at:]

    def _push(self, message: Sequence[Any]) -> None:
        self.records.report(message)
        if self._listener is not None:
            self._listener.pushed(self, message)

    def _answer(self, future: asyncio.Future[Any], reply: Any) -> None:
        self._answers += 1
        if future is self._greeting:
            self._check_mode(reply)
        if self.records.reads:
            self.records.answer(future, reply)
        if not isinstance(reply, StoreUnavailableError):
            if not future.done():
                future.set_result(reply)
            return
        self._fail(reply, [future])
        code = reply.words[0] if isinstance(reply, RefusedCommandError) and reply.words else ""
        if code in ("READONLY", "NOSCRIPT") and self._transport is not None:
            self._transport.abort()  # This is not a primary any more, or has forgotten the scripts: connect again.

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the commands fail that were sent."""
        if self._former is not None:
            self._former.connection_lost(exc)
        self._transport = self._former = self._connection = None
        self.records.end()
        if self._listener is not None:
            self._listener.lost(self)
        sent = self._sent
        self._sent = deque()
        if self._refusal is not None:
            unsent = self._unsent
            self._unsent = []
            return self._fail(self._refusal, [*sent, *(future for _, future in unsent)])
        self._fail(StoreUnavailableError(f"Redis: the connection was lost{f': {exc}' if exc else ''}"), sent)
        self._flush()

    def _fail(self, error: MCPError, futures: Sequence[asyncio.Future[Any]]) -> None:
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # Nobody waits for the results of scripts that are loaded.

    def _watch(self) -> None:
        """End the connection if Redis has answered nothing for the time-out of the client."""
        loop = asyncio.get_running_loop()
        is_silent = self._watching is not None and self._answers == self._answers_before
        self._silences = self._silences + 1 if is_silent else 0
        self._answers_before = self._answers
        self._watching = None
        if self._silences >= 2 and self._sent and self._transport is not None:
            self._transport.abort()
        elif self._sent:
            self._watching = loop.call_later(self._seconds / 2, self._watch)


def _mode_of(greeting: Sequence[Any]) -> str:
    """Return the mode of a Redis from its answer to HELLO, names and values in turn."""
    values = dict(zip(greeting[::2], greeting[1::2], strict=False))
    return str(values.get(b"mode", b""), "ascii", "replace")


def unavailable(error: Exception) -> StoreUnavailableError:
    """Return the error of a store for one of redis-py, or of the connection."""
    return StoreUnavailableError(f"Redis: {str(error) or type(error).__name__}")


def packed(command: Command) -> bytes:
    """Return a command as Redis reads it: an array of strings."""
    script, rest = (command[:3], command[3:]) if command[0] == "EVALSHA" else ((), command)
    values: list[Any] = [len(command), _strings(script)]
    for part in rest:
        body = part if type(part) is bytes else str(part).encode()
        values += (len(body), body)
    return (b"*%d\r\n%b" + len(rest) * b"$%d\r\n%b\r\n") % tuple(values)


@lru_cache
def _strings(parts: tuple[Any, ...]) -> bytes:
    return b"".join([b"$%d\r\n%b\r\n" % (len(body), body) for part in parts for body in [str(part).encode()]])


def read_reply(data: bytes, at: int) -> tuple[Any, int]:
    """Return the reply that begins at a position, in RESP2 or RESP3, and the position after it.

    An error is a StoreUnavailableError; it is returned, not raised. Raises IncompleteReplyError, and
    StoreUnavailableError for bytes that are not a reply.
    """
    end = data.find(b"\r\n", at)
    if end < 0:
        raise IncompleteReplyError
    kind, line, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind in b"$=!":
        stop = after + int(line)
        if stop < after:
            return None, after
        if len(data) < stop + 2:
            raise IncompleteReplyError
        body = data[after:stop]
        return (RefusedCommandError(body) if kind == b"!" else body), stop + 2
    if kind == b":":
        return int(line), after
    if kind in b"*~>%":
        return _read_items(data, after, int(line) * (2 if kind == b"%" else 1))
    if kind == b"-":
        return RefusedCommandError(line), after
    if kind in b"+,(":
        return line, after
    if kind in b"_#":
        return (None if kind == b"_" else line == b"t"), after
    raise StoreUnavailableError(f"Redis: {data[at : at + 40]!r} is not a reply")


def _read_items(data: bytes, at: int, count: int) -> tuple[list[Any] | None, int]:
    items: list[Any] = []
    for _ in range(count):
        item, at = read_reply(data, at)
        items.append(item)
    return (None if count < 0 else items), at


def _pass_on(future: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
    if future.done():
        return
    if (error := done.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
