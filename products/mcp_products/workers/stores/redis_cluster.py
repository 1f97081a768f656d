"""Commands to a Redis Cluster: each goes to the node that has the slot of its key, over a connection of that node.

Every command of the store has one key, so that none needs two slots at once. redis-py knows which node has which slot.

See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
"""

from __future__ import annotations

import asyncio
import logging
from binascii import crc_hqx
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from random import randrange
from typing import Any, Final, NamedTuple

from mcp_runtime.errors import LocalError, MCPError
from mcp_runtime.stores import ReceiveHint, StoreClosedError, StoreUnavailableError

from .common import CommandBatches, OneProcess, Receivers
from .redis_connection import IDLE_SECONDS, Command, PipeListener, RedisPipe, RefusedCommandError, unavailable

_log: Final = logging.getLogger("mcp_runtime.workers.stores.redis")

_REDIRECTS: Final = 5  # Nodes that one command is sent on to: slots may move while it is sent.
_LEARN_SECONDS: Final = 0.2  # Seconds between two attempts to learn which node has which slot, or to subscribe.
_LEARNING_SECONDS: Final = 10.0  # Seconds that one attempt may take.
_SLOTS: Final = 16_384
_NAMES: Final = 2  # Of each primary, in other slots than those of other processes: slots move.
_MOST_NAMES: Final = 100_000  # Tried, until there are these for the slots of each primary.
_CHANGED: Final = frozenset({"CLUSTERDOWN", "READONLY", "TRYAGAIN"})  # Errors after which slots may be elsewhere.


class _Address(NamedTuple):
    host: str
    port: int


class _Node:
    """What a `RedisPipe` needs of a client of redis-py: new connections to a node, with the settings of the cluster."""

    def __init__(self, like: Any, address: _Address) -> None:
        self._connection_class: Any = like.connection_class
        self._settings = {**like.connection_kwargs, "host": address.host, "port": address.port}
        self.connection_pool = self

    def make_connection(self) -> Any:
        """Return a connection that is not open yet."""
        return self._connection_class(**self._settings)


class _Sending(NamedTuple):
    """A command on its way, and how often it was sent on to another node."""

    command: Command
    future: asyncio.Future[Any]
    redirects: int = 0


class ClusterPipes:
    """One connection to each node that commands go to, opened when it is first needed.

    Commands with the same key run in their order, unless their slot moves meanwhile. A node that cannot be reached
    fails the commands for its slots only.
    """

    def __init__(self, client: Any, scripts: Sequence[str]) -> None:
        """Use a `redis.asyncio.RedisCluster`, and Lua scripts that each node has to know."""
        self._client = client
        self._scripts = scripts
        self._pipes: dict[_Address, RedisPipe] = {}
        self._addresses: dict[int, _Address] = {}  # Of the nodes, by their slots.
        self._like: Any = None  # A node of redis-py, which has the settings of all.
        self._waiting: list[_Sending] = []
        self._learning: asyncio.Task[None] | None = None
        self._learn_at = float("-inf")
        self._closing: set[asyncio.Task[None]] = set()
        self._failure: StoreUnavailableError | None = None  # Why the slots are not known.
        self._changed: set[RedisPipe] = set()  # Those that have changed records since the last report.
        self.process = OneProcess()
        self._is_closed = False
        self._parts: Sequence[str] | None = ()  # None if it has to be found anew.
        self._names: Sequence[str] = ()  # The last ones.
        self._first_name = randrange(1 << 32)
        self.listener: PipeListener | None = None

    def add(self, command: Command) -> asyncio.Future[Any]:
        """Return the future result of a command. Raises StoreClosedError after `close`."""
        if self._is_closed:
            raise StoreClosedError("the store is closed")
        self.process.require()
        future = asyncio.get_running_loop().create_future()
        self._route(_Sending(command, future))
        return future

    def get_tracked(self, key: str) -> asyncio.Future[Any]:
        """Return the future value of a record, which is among the tracked ones then."""
        pipe = self._known(key)
        if pipe is None:
            return self.add(("GET", key))
        self.process.require()
        future = asyncio.get_running_loop().create_future()
        pipe.get_tracked(key).add_done_callback(partial(self._answered, _Sending(("GET", key), future)))
        return future

    def tracked(self, key: str) -> bytes | None:
        """Return the value of a record if it is known."""
        pipe = self._known(key)
        return None if pipe is None else pipe.records.get(key)

    def forget(self, key: str) -> None:
        """Forget a record, which the next command changes."""
        pipe = self._known(key)
        if pipe is not None:
            pipe.records.forget(key)
            self._changed.add(pipe)

    async def report(self) -> None:
        """Wait until the nodes have written the reports of the changes that they have answered."""
        changed = self._changed
        self._changed = set()
        pings = [pipe.add(("PING",)) for pipe in changed if pipe.records.is_on]
        for failed in await asyncio.gather(*pings, return_exceptions=True):
            if isinstance(failed, BaseException):
                self._changed |= changed
                raise failed

    async def unlink(self, keys: Sequence[str]) -> None:
        """Delete keys."""
        await asyncio.gather(*[self.add(("UNLINK", key)) for key in keys])

    async def close(self) -> None:
        """Wait for the answers to what was sent, refuse further commands, and close the connections."""
        self._is_closed = True
        if self.process.is_parent:
            return
        if self._learning is not None:
            await asyncio.wait([self._learning])
        await asyncio.gather(*[pipe.close() for pipe in self._pipes.values()], *self._closing)

    # ---- which node --------------------------------------------------------------------------------------------------

    def _known(self, key: str) -> RedisPipe | None:
        """Return the connection for a key; None while it is not known which node has its slot."""
        address = self._addresses.get(slot_of(key.encode()))
        return None if address is None else self._pipe(address)

    def _pipe(self, address: _Address) -> RedisPipe:
        pipe = self._pipes.get(address)
        if pipe is None:
            node = _Node(self._like, address)
            otherwise = CommandBatches[Command](_refuse_other_connections)
            self._pipes[address] = pipe = RedisPipe(node, self._scripts, otherwise, self)
        return pipe

    def _route(self, sending: _Sending) -> None:
        pipe = self._known(_key_of(sending.command))
        if pipe is not None:
            pipe.add(sending.command).add_done_callback(partial(self._answered, sending))
            return
        self._learn_soon()
        if self._learning is None:  # It was learned just now.
            _fail(sending.future, self._failure or StoreUnavailableError("Redis: no node has the slot of a key"))
        else:
            self._waiting.append(sending)

    def _answered(self, sending: _Sending, done: asyncio.Future[Any]) -> None:
        """Give a command its result, or send it on to the node that has its slot now."""
        if sending.future.done():
            return
        error = done.exception()
        if error is None:
            sending.future.set_result(done.result())
            return
        words = error.words if isinstance(error, RefusedCommandError) else []
        if words[:1] in (["MOVED"], ["ASK"]) and len(words) > 2 and sending.redirects < _REDIRECTS:
            sending = sending._replace(redirects=sending.redirects + 1)
            return self._send_on(sending, words[0] == "ASK", int(words[1]), words[2])
        if not words or words[0] in _CHANGED:
            self._learn_soon()
        _fail(sending.future, error)

    def _send_on(self, sending: _Sending, asks: bool, slot: int, to: str) -> None:
        """Send a command to another node: for good, or once with `asks`, since its key has moved before its slot."""
        host, _, port = to.rpartition(":")
        address = _Address(*self._client.nodes_manager.remap_host_port(host or self._like.host, int(port)))
        if not asks:
            if address not in self._pipes:
                self._learn_soon()
            self._addresses[slot] = address
            self._parts = None  # A primary may have no slot of a name any more.
        pipe = self._pipe(address)
        self._changed.add(pipe)  # It may change what `forget` has looked for elsewhere.
        try:
            if asks:
                pipe.add(("ASKING",))
            pipe.add(sending.command).add_done_callback(partial(self._answered, sending))
        except MCPError as error:
            _fail(sending.future, error)

    def _learn_soon(self) -> None:
        """Ask the cluster which node has which slot, unless that was done a moment ago."""
        loop = asyncio.get_running_loop()
        if self._learning is None and loop.time() >= self._learn_at and not self._is_closed:
            self._learning = loop.create_task(self._learn())

    async def _learn(self) -> None:
        try:
            async with asyncio.timeout(_LEARNING_SECONDS):
                await self._client.aclose()  # A client that is open would not ask.
                await self._client.initialize()
        except Exception as error:
            self._failure = unavailable(error)
        else:
            self._failure = None
            cached = self._client.nodes_manager.slots_cache
            self._like = next(iter(cached.values()))[0]
            self._addresses = {slot: _Address(nodes[0].host, nodes[0].port) for slot, nodes in cached.items()}
            self._parts = None
        finally:
            self._learning = None
            self._learn_at = asyncio.get_running_loop().time() + _LEARN_SECONDS
        waiting = self._waiting
        self._waiting = []
        for sending in waiting:
            try:
                self._route(sending)
            except MCPError as error:
                _fail(sending.future, error)
        self._close_unused()

    @property
    def parts(self) -> Sequence[str]:
        """Texts for each primary, which has the slots of keys in which they stand in braces."""
        if self._parts is None:
            self._parts = self._names = names_of_parts(self._addresses, self._names, self._first_name)
        return self._parts

    def _close_unused(self) -> None:
        """Close the connections to nodes that are not primaries any more."""
        used = {*self._addresses.values()}
        for address in [address for address in self._pipes if used and address not in used]:
            pipe = self._pipes.pop(address)
            self._changed.discard(pipe)
            self.lost(pipe)  # Now: until it is closed, it takes no command of who pings or subscribes.
            self._closing.add(closing := asyncio.get_running_loop().create_task(pipe.close()))
            closing.add_done_callback(self._closing.discard)

    # ---- push messages -----------------------------------------------------------------------------------------------

    def pushed(self, pipe: RedisPipe, message: Sequence[Any]) -> None:
        """Pass a push message on."""
        if self.listener is not None:
            self.listener.pushed(pipe, message)

    def lost(self, pipe: RedisPipe) -> None:
        """Look for the slots of a node whose connection has ended."""
        if pipe in self._pipes.values():
            self._learn_soon()
        if self.listener is not None:
            self.listener.lost(pipe)


def names_of_parts(places: Mapping[int, Hashable], former: Sequence[str], first: int) -> Sequence[str]:
    """Return names for each primary: those that it had, and others for those whose slots have moved.

    Args:
        places: The primaries, by their slots.
        former: The names that were used before.
        first: The number that is tried first as a name.
    """
    names: dict[Hashable, list[str]] = {place: [] for place in places.values()}
    missing = _NAMES * len(names)
    for name in chain(former, map(str, range(first, first + _MOST_NAMES))):
        place = places.get(slot_of(name.encode()))
        if place is not None and len(names[place]) < _NAMES and name not in names[place]:
            names[place].append(name)
            missing -= 1
        if not missing:
            break
    return sorted(name for found in names.values() for name in found)


def slot_of(key: bytes) -> int:
    """Return the slot of a key: that of the text in its first braces, if there is one."""
    begin = key.find(b"{") + 1
    end = key.find(b"}", begin) if begin else -1
    return crc_hqx(key[begin:end] if end > begin else key, 0) % _SLOTS


def _key_of(command: Command) -> str:
    """Return the key of a command, or its channel."""
    key: str = command[3 if command[0] == "EVALSHA" else 1]
    return key


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Nobody may wait for it.


async def _refuse_other_connections(commands: Sequence[Command]) -> Sequence[Any]:
    raise LocalError("this version of redis-py does not give away its connections: a cluster needs redis-py 5.2 to 8.1")


class ClusterChannels:
    """The channels of a cluster, each at the node that has its slot (sharded channels), over the connection that
    `ClusterPipes` has to it."""

    publish: Final = "SPUBLISH"

    def __init__(self, pipes: ClusterPipes) -> None:
        """Use the connections of a cluster."""
        self._pipes = pipes
        self._receivers = Receivers()
        self._at: dict[str, RedisPipe] = {}  # Where each channel is subscribed to.
        self._is_lost = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        pipes.listener = self

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel. Raises StoreUnavailableError."""
        self._receivers.add(channel, receive)
        if channel not in self._at:
            await self._pipes.add(("SSUBSCRIBE", channel))
        if self._keeping is None:
            self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def forget(self) -> None:
        """Call no function any more."""
        self._receivers.clear()

    async def close(self) -> None:
        """End the subscriptions; the connections are those of `ClusterPipes`."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])

    def pushed(self, pipe: RedisPipe, message: Sequence[Any]) -> None:
        """Pass on what was published, and note where channels are."""
        kind, *rest = message
        if kind == b"smessage":
            self._receivers.receive(rest[0].decode(), rest[1])
        elif kind == b"ssubscribe":
            self._at[rest[0].decode()] = pipe
        elif kind == b"sunsubscribe":  # The slot of the channel has moved.
            self._lose([rest[0].decode()])

    def lost(self, pipe: RedisPipe) -> None:
        """Subscribe again to what was subscribed to over a connection that has ended."""
        self._lose([channel for channel, at in self._at.items() if at is pipe])

    def _lose(self, channels: Sequence[str]) -> None:
        for channel in channels:
            self._at.pop(channel, None)
        if channels:
            self._is_lost.set()

    async def _keep(self) -> None:
        """Subscribe again to the channels that are lost; ping the nodes of the others, so that silence is noticed."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._is_lost.wait()
            self._is_lost.clear()
            lost = [channel for channel in self._receivers if channel not in self._at]
            try:
                if lost:
                    await self._subscribe_again(lost)
                else:
                    for pipe in {*self._at.values()}:
                        pipe.add(("PING",))
            except StoreClosedError:
                return

    async def _subscribe_again(self, channels: Sequence[str]) -> None:
        results = await asyncio.gather(
            *[self._pipes.add(("SSUBSCRIBE", channel)) for channel in channels], return_exceptions=True
        )
        for channel, result in zip(channels, results, strict=True):
            if not isinstance(result, BaseException):
                self._receivers.receive(channel, b"")  # Messages may have been lost.
        if (error := next((result for result in results if isinstance(result, BaseException)), None)) is not None:
            _log.warning("the connection to the channels of the store was lost: %s", error)
            self._is_lost.set()
            await asyncio.sleep(_LEARN_SECONDS)
