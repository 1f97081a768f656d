"""A store in Redis or Valkey, for the processes of any number of machines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from hashlib import sha1
from typing import Any, Final

from mcp_runtime.errors import LocalError
from mcp_runtime.stores import ANYTHING, NUMBERS_A_SECOND, STREAM_LIMIT, Expected, NumberedEntry, ReceiveHint

from .common import CommandBatches, Receivers
from .redis_cluster import ClusterChannels, ClusterPipes
from .redis_connection import IDLE_SECONDS, Command, RedisPipe, unavailable

_log: Final = logging.getLogger("mcp_runtime.workers.stores.redis")

_RECONNECT_SECONDS: Final = 0.2  # Seconds between two attempts to subscribe again.

_PUT_IF: Final = """
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
_COUNT: Final = """
local value = redis.call('INCRBY', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return value
"""
_LAST_ENTRY: Final = """
local last = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local id = redis.call('XINFO', 'STREAM', KEYS[1])[8]
  last = tonumber(string.match(id, '%-(%d+)$'))
end
"""
_LAST: Final = f"{_LAST_ENTRY} return last"
# The time in the numbers is that of Redis: the clocks of workers on several machines differ.
_APPEND: Final = f"""
if ARGV[3] == '' and tonumber(ARGV[2]) >= 0 then
  local number, skipped = tonumber(ARGV[2]), false
  for i = 4, #ARGV do
    number = number + 1
    local id = '0-' .. string.format('%d', number)
    local added = redis.pcall('XADD', KEYS[1], 'MAXLEN', {STREAM_LIMIT}, id, 'm', ARGV[i])
    if type(added) == 'table' and added.err then
      if not string.find(added.err, 'equal or smaller') then return added end
      skipped = true
    end
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  if not skipped then return number end
end
{_LAST_ENTRY}
local after, token = tonumber(ARGV[2]), ARGV[3]
if token == '' and after >= 0 then return last end
if #ARGV < 4 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return last
end
if token ~= '' then
  local rows = redis.call('XRANGE', KEYS[1], '(0-' .. string.format('%d', math.max(after, 0)), '+')
  for i = #rows, 1, -1 do
    if rows[i][2][4] == token then return tonumber(string.match(rows[i][1], '%-(%d+)$')) end
  end
end
local now = redis.call('TIME')
local present = tonumber(now[1]) * {NUMBERS_A_SECOND} + math.floor(tonumber(now[2]) * {NUMBERS_A_SECOND} / 1000000)
last = math.max(last, after, present - (#ARGV - 3))
for i = 4, #ARGV do
  last = last + 1
  local id = '0-' .. string.format('%d', last)
  if token == '' then
    redis.call('XADD', KEYS[1], 'MAXLEN', {STREAM_LIMIT}, id, 'm', ARGV[i])
  else
    redis.call('XADD', KEYS[1], 'MAXLEN', {STREAM_LIMIT}, id, 'm', ARGV[i], 't', token)
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return last
"""

_SCRIPTS: Final = (_PUT_IF, _COUNT, _APPEND, _LAST)
_BY_ID: Final = {sha1(script.encode(), usedforsecurity=False).hexdigest(): script for script in _SCRIPTS}
_PUT_IF_ID, _COUNT_ID, _APPEND_ID, _LAST_ID = _BY_ID


class RedisStore:
    """A store in Redis. The commands of many tasks are sent in one pipeline, in their order."""

    def __init__(self, client: Any, prefix: str = "mcp:") -> None:
        """Use a client of redis-py.

        Args:
            client: A `redis.asyncio.Redis`: one of `Redis.from_url(url)`, or `sentinel.master_for(name)` of a
                `redis.asyncio.Sentinel`; or a `redis.asyncio.RedisCluster`, of which each key is on one node.
            prefix: The beginning of all keys and channels. Default "mcp:".

        Raises LocalError for another object.
        """
        if not all(callable(getattr(client, name, None)) for name in ("pipeline", "pubsub", "aclose")):
            raise LocalError(
                f"RedisStore() needs a client of redis-py: RedisStore(redis.asyncio.Redis(…)), not {client!r}"
            )
        self._client = client
        self._prefix = prefix
        self._commands: RedisPipe | ClusterPipes
        self._channels: RedisChannels | ClusterChannels
        if hasattr(client, "nodes_manager"):
            self._commands = ClusterPipes(client, _SCRIPTS)
            self._channels = ClusterChannels(self._commands)
        else:
            self._commands = RedisPipe(client, _SCRIPTS, CommandBatches[Command](self._send))
            self._channels = RedisChannels(client)

    @property
    def parts(self) -> Sequence[str]:
        """Names that are in a key in braces, one for each part of the store that may lose its past alone."""
        return self._commands.parts

    async def get(self, key: str) -> bytes | None:
        """Return the value of a record."""
        value: bytes | None = await self._run("GET", self._prefix + key)
        return value

    def tracked(self, key: str) -> bytes | None:
        """Return the value of a record if it is known; see `TrackedRecords`."""
        return self._commands.tracked(self._prefix + key)

    async def get_tracked(self, key: str) -> bytes | None:
        """Return the value of a record, which `tracked` knows until another process changes it."""
        value: bytes | None = await self._commands.get_tracked(self._prefix + key)
        return value

    async def report(self) -> None:
        """Wait until Redis has written the reports of the changes that it has answered."""
        await self._commands.report()

    async def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> bool:
        """Store a record if its value is the expected one."""
        name, milliseconds = self._changed(key), _milliseconds(ttl)
        if expected is ANYTHING:
            return bool(await self._run("SET", name, value, "PX", milliseconds))
        if expected is None:
            return bool(await self._run("SET", name, value, "PX", milliseconds, "NX"))
        return bool(await self._run("EVALSHA", _PUT_IF_ID, 1, name, expected, value, milliseconds))

    async def touch(self, key: str, ttl: float) -> bytes | None:
        """Let the time to live of a record begin anew; return its value."""
        value: bytes | None = await self._run("GETEX", self._changed(key), "PX", _milliseconds(ttl))
        return value

    async def delete(self, key: str) -> bool:
        """Delete a record."""
        return bool(await self._run("DEL", self._changed(key)))

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter."""
        return int(await self._run("EVALSHA", _COUNT_ID, 1, self._prefix + key, amount, _milliseconds(ttl)))

    def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> asyncio.Future[int]:
        """Append entries to a stream."""
        options = (int(ttl * 1000) or 1, -1 if after is None else after, token)
        return self._commands.add(("EVALSHA", _APPEND_ID, 1, self._prefix + stream, *options, *entries))

    async def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> list[NumberedEntry]:
        """Return the stored entries of a stream that follow a number."""
        rows = await self._run("XRANGE", self._prefix + stream, f"(0-{after}", "+", "COUNT", limit)
        return [_entry(row) for row in rows]

    async def last(self, stream: str) -> int:
        """Return the number of the last entry of a stream."""
        return int(await self._run("EVALSHA", _LAST_ID, 1, self._prefix + stream))

    async def drop(self, *streams: str) -> None:
        """Delete streams."""
        if streams:
            await self._commands.unlink([self._prefix + stream for stream in streams])

    async def publish(self, channel: str, message: bytes) -> None:
        """Pass a message to the processes that are subscribed to a channel."""
        await self._run(self._channels.publish, self._prefix + channel, message)

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel."""
        self._commands.process.require()
        await self._channels.subscribe(self._prefix + channel, receive)

    async def close(self) -> None:
        """End subscriptions, and close the connections of the client; in a forked process, leave them to its parent."""
        self._channels.forget()
        await self._commands.close()
        if self._commands.process.is_parent:
            return
        await self._channels.close()
        await self._client.aclose()

    def _changed(self, key: str) -> str:
        """Return the name of a record that the next command changes."""
        name = self._prefix + key
        self._commands.forget(name)
        return name

    def _run(self, *command: Any) -> asyncio.Future[Any]:
        return self._commands.add(command)

    async def _send(self, commands: Sequence[Command]) -> Sequence[Any]:
        """Send commands in one pipeline of redis-py; return their results and errors."""
        commands = [
            ("EVAL", _BY_ID[command[1]], *command[2:]) if command[0] == "EVALSHA" else command for command in commands
        ]
        try:
            if len(commands) == 1:
                return [await self._client.execute_command(*commands[0])]
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            results: list[Any] = await pipeline.execute(raise_on_error=False)
        except Exception as error:
            raise unavailable(error) from error
        return [unavailable(result) if isinstance(result, Exception) else result for result in results]


def _milliseconds(seconds: float) -> int:
    return max(int(seconds * 1000), 1)


def _entry(row: Any) -> NumberedEntry:
    id, fields = row
    body: bytes = fields[b"m"] if hasattr(fields, "keys") else fields[1]
    return int(id.rpartition(b"-")[2]), body


# ---- channels --------------------------------------------------------------------------------------------------------


class RedisChannels:
    """The channels of one Redis, over a connection of redis-py."""

    publish: Final = "PUBLISH"

    def __init__(self, client: Any) -> None:
        """Use a client of redis-py."""
        self._client = client
        self._receivers = Receivers()
        self._pubsub: Any = None
        self._listening: asyncio.Task[None] | None = None

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel. Raises StoreUnavailableError."""
        if self._pubsub is None:
            self._pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        try:
            await self._pubsub.subscribe(channel)
        except Exception as error:
            raise unavailable(error) from error
        self._receivers.add(channel, receive)
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    def forget(self) -> None:
        """Call no function any more."""
        self._receivers.clear()

    async def close(self) -> None:
        """End the subscriptions, and close the connection."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        if self._pubsub is not None:
            await self._pubsub.aclose()

    async def _listen(self) -> None:
        """Call the receivers of messages; connect again when the connection is lost, or is silent for some seconds."""
        loop, silent = asyncio.get_running_loop(), False
        while True:
            try:
                began = loop.time()
                message = await self._pubsub.get_message(timeout=IDLE_SECONDS)
                if message is not None and message["type"] == "message":  # Otherwise the answer to a ping.
                    self._receivers.receive(message["channel"].decode(), message["data"])
                if message is not None or loop.time() < began + 0.9 * IDLE_SECONDS:
                    silent = False  # The answers to pings and subscriptions are None, too.
                elif silent:
                    raise TimeoutError("Redis does not answer")
                else:
                    silent = True
                    await self._pubsub.ping()
            except Exception as error:
                _log.warning("the connection to the channels of the store was lost: %s", error)
                await self._connect_again()
                silent = False

    async def _connect_again(self) -> None:
        """Connect to the channels again, and tell the receivers that messages may have been lost."""
        while True:
            await asyncio.sleep(_RECONNECT_SECONDS)
            try:
                await self._pubsub.connection.disconnect(nowait=True)
                await self._pubsub.connect()
                break
            except Exception as error:
                _log.debug("the channels of the store cannot be reached: %s", error)
        self._receivers.note_gap()
