"""A client goes in, its synchronous twin comes out: an event loop in a thread of its own, which ends with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack

from ..client.subscriptions import EventT, Subscription
from ..errors import ConnectionClosedError
from ..server.core import ServerCore
from ..session.interfaces import Candidate
from .client import BaseClient
from .settings import ClientSettings, HTTPClientSettings, StdioClientSettings

T = TypeVar("T")
ClientT = TypeVar("ClientT", bound=BaseClient)


class BaseSyncClient(Generic[ClientT]):
    """Drives a client from code without an event loop: `with` opens the conversation, and ends it."""

    client_class: ClassVar[type[Any]]

    def __init__(self, client: ClientT) -> None:
        self.client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def stdio(cls, *command: str, **settings: Unpack[StdioClientSettings]) -> Self:
        """A client of a server that is started as a child process; settings as for the asynchronous one."""
        return cls(cls.client_class.stdio(*command, **settings))

    @classmethod
    def http(cls, url: str, **settings: Unpack[HTTPClientSettings]) -> Self:
        """A client of the server at this URL; settings as for the asynchronous one."""
        return cls(cls.client_class.http(url, **settings))

    @classmethod
    def memory(cls, *servers: ServerCore | Candidate[ServerCore], **settings: Unpack[ClientSettings]) -> Self:
        """A client of server objects in the same process, for tests."""
        return cls(cls.client_class.memory(*servers, **settings))

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp client", daemon=True)
        self._thread.start()
        try:
            self._run(self.client.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._run(self.client.close())
        finally:
            self._stop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop's thread and wait; being interrupted here cancels it there."""
        if self._loop is None:
            work.close()
            raise ConnectionClosedError("there is no connection; use `with`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> tuple[bool, T | None]:
            async for item in items:
                return True, item
            return False, None

        while True:
            found, item = self._run(following())
            if not found:
                return
            yield item  # type: ignore[misc]

    def _stop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._loop = self._thread = None


class SyncSubscription(Generic[EventT]):
    """The twin of `Subscription`: `with` begins to listen, `for` gives each change."""

    def __init__(self, client: BaseSyncClient[Any], subscription: Subscription[EventT]) -> None:
        self._client = client
        self._subscription = subscription

    @property
    def acknowledged(self) -> Mapping[str, Any]:
        """What the server agreed to tell, by the keywords of `listen`: true, or URIs."""
        return self._subscription.acknowledged

    def __enter__(self) -> Self:
        self._client._run(self._subscription.__aenter__())  # pyright: ignore[reportPrivateUsage]
        return self

    def __exit__(self, *exception: object) -> None:
        self._client._run(self._subscription.close())  # pyright: ignore[reportPrivateUsage]

    def __iter__(self) -> Iterator[EventT]:
        return self._client._iterate(self._subscription)  # pyright: ignore[reportPrivateUsage]
