"""The channels of a store in Redis: short messages to the processes that are subscribed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final

from mcp_runtime.stores import ReceiveHint

from .redis_connection import unavailable

_log: Final = logging.getLogger("mcp_runtime.workers.stores.redis")

_RECONNECT_SECONDS: Final = 0.2  # Seconds between two attempts to subscribe again.
IDLE_SECONDS: Final = 2.5  # Seconds without a message after which a ping is sent, and those for its answer.


class Receivers:
    """The functions that are called with the messages of channels."""

    def __init__(self) -> None:
        """Receive nothing."""
        self._receivers: dict[str, list[ReceiveHint]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._receivers))

    def add(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel; a second time changes nothing."""
        receivers = self._receivers.setdefault(channel, [])
        if receive not in receivers:
            receivers.append(receive)

    def clear(self) -> None:
        """Receive nothing any more."""
        self._receivers.clear()

    def receive(self, channel: str, message: bytes) -> None:
        """Call the functions of a channel. An empty message says that others may have been lost."""
        for receive in self._receivers.get(channel, ()):
            try:
                receive(message)
            except Exception:
                _log.exception("a message of the store was not handled")


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
        for channel in self._receivers:
            self._receivers.receive(channel, b"")
