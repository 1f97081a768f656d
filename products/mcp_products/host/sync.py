"""The base classes of generated synchronous clients: each runs an asynchronous client in an event loop of its own
thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar, Unpack

from mcp_runtime.aio import forks
from mcp_runtime.bindings.arguments import (
    HTTP_RULES,
    STDIO_RULES,
    ClientSettings,
    ConnectSettings,
    HTTPClientSettings,
    StdioClientSettings,
)
from mcp_runtime.bindings.client import BaseClient, Target, connect
from mcp_runtime.bindings.server import ServerChoice
from mcp_runtime.client.subscriptions import EventT, Subscription
from mcp_runtime.errors import ConnectionClosedError
from mcp_runtime.protocol.lifecycle import Capabilities
from mcp_runtime.protocol.model_methods import ServerDetails
from mcp_runtime.protocol.revision import Revision
from mcp_runtime.session.interfaces import RevisionChoice
from mcp_runtime.session.requests import RequestKeywords as RequestKeywords
from mcp_runtime.session.requests import RequestOptions as RequestOptions
from mcp_runtime.usage.keywords import NamesOfAttributes, checked
from mcp_runtime.usage.keywords import NoKeywords as NoKeywords
from mcp_runtime.usage.keywords import named_when_missing as named_when_missing
from mcp_runtime.usage.rules import Rule, instance

T = TypeVar("T")
ClientT = TypeVar("ClientT", bound=BaseClient)


_RULES: Final[Mapping[str, Rule]] = {
    "client": instance(BaseClient, "a client: write SyncClient.http(url), or SyncClient.stdio(*words)")
}


class Connectable(Protocol):
    """An asynchronous client: of one server or of several."""

    async def __aenter__(self) -> Any: ...

    async def close(self) -> None:
        """Close the connection."""


RunT = TypeVar("RunT", bound=Connectable)


class InThread(NamesOfAttributes, Generic[RunT]):
    """The base of synchronous clients: an asynchronous client, in an event loop of its own thread.

    Attributes:
        client: The asynchronous client.
    """

    def __init__(self, client: RunT) -> None:
        self.client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._forks = forks.count
        self._users = 0
        self._turn = threading.RLock()

    def __enter__(self) -> Self:
        """Connect. Whoever enters a connected client, in any thread, shares its connection: the last one closes it."""
        with self._turn:
            if self._loop is None:
                self._begin()
            self._users += 1
        return self

    def __exit__(self, *exception: object) -> None:
        with self._turn:
            self._users -= 1
            if self._users <= 0:
                self.close()

    def _begin(self) -> None:
        self._forks = forks.count
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp client", daemon=True)
        self._thread.start()
        try:
            self._run(self.client.__aenter__())
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Close the connection, for all that have entered the client. May be called more than once."""
        self._users = 0
        if self._loop is None:
            return
        if self._forks != forks.count:  # The loop and its thread are those of the parent of this process.
            self._loop = self._thread = None
            return
        try:
            self._run(self.client.close())
        finally:
            self._stop()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop's thread, and return its result. An interrupt here cancels the coroutine."""
        if self._loop is None:
            coroutine.close()
            raise ConnectionClosedError("there is no connection; use `with`")
        if self._forks != forks.count:
            coroutine.close()
            raise ConnectionClosedError(forks.OTHER_PROCESS)
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def next_item() -> tuple[bool, T | None]:
            async for item in items:
                return True, item
            return False, None

        while True:
            has_item, item = self._run(next_item())
            if not has_item:
                return
            yield item  # type: ignore[misc]

    def _stop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._loop = self._thread = None


class BaseSyncClient(InThread[ClientT]):
    """A synchronous client: `with` connects to the server, and disconnects.

    Attributes:
        client: The asynchronous client.
    """

    client_class: ClassVar[type[Any]]

    @checked(rules=_RULES, example="SyncClient.http(url)")
    def __init__(self, client: ClientT) -> None:
        """Create a synchronous client.

        Args:
            client: The asynchronous client to run, which is not connected yet. Its handlers run in another thread.
        """
        super().__init__(client)

    @classmethod
    @checked(StdioClientSettings, rules=STDIO_RULES)
    def stdio(cls, *command: str, **settings: Unpack[StdioClientSettings]) -> Self:
        """Return a client of a server that is started as a child process and connected by its standard streams.

        Args:
            command: The words of the command, such as `"python", "server.py"`.
            settings: The keywords of `Client.stdio`: `env`, `cwd`, `stderr`, and those of the client's constructor.
        """
        return cls(cls.client_class.stdio(*command, **settings))

    @classmethod
    @checked(HTTPClientSettings, rules=HTTP_RULES, example='SyncClient.http("http://host:port/mcp")')
    def http(cls, url: str, **settings: Unpack[HTTPClientSettings]) -> Self:
        """Return a client of the server at a URL. Needs the extra `http`.

        Args:
            url: The URL of the server's endpoint, such as "http://localhost:8000/mcp".
            settings: The keywords of `Client.http`: `http`, and those of the client's constructor.
        """
        return cls(cls.client_class.http(url, **settings))

    @classmethod
    @checked(ClientSettings)
    def memory(cls, *servers: ServerChoice, **settings: Unpack[ClientSettings]) -> Self:
        """Return a client of server objects in the same process, oldest protocol version first; for tests.

        Args:
            servers: The servers, or an App, which serves every protocol version; each client gets the one of the
                protocol version that it negotiates.
            settings: The keywords of the client's constructor.
        """
        return cls(cls.client_class.memory(*servers, **settings))

    @classmethod
    def connect(cls, target: Target, *, revisions: RevisionChoice = "all", **settings: Unpack[ConnectSettings]) -> Self:
        """Return a client for any server, whatever protocol version it speaks; connect with `with`.

        Args:
            target: The URL of a server, the words of a command that starts one, an App or a server object.
            revisions: The protocol versions that the client may negotiate: "all", or their ids.
            settings: The other keywords of the function `connect`.
        """
        return cls(connect(cls.client_class, target, revisions, {**settings}))

    @property
    def name(self) -> str:
        """The name of the client."""
        return self.client.name

    @property
    def version(self) -> str:
        """The version of the client."""
        return self.client.version

    @property
    def revision(self) -> Revision:
        """The protocol version of the client's class."""
        return self.client.revision

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that the client declares."""
        return self.client.capabilities

    @property
    def server(self) -> ServerDetails:
        """The result of `initialize` or of discovery: the name, version, title, instructions and capabilities of the
        server.

        Raises ConnectionClosedError before the client is connected.
        """
        return self.client.server

    def request_log_level(self, level: str | None) -> None:
        """Request the log messages of a severity and above, from the next request on; of a server that has none,
        nothing."""
        self._run(self.client.request_log_level(level))

    def request_sign_of_life(self, options: RequestOptions | None = None) -> None:
        """Send the request that only shows that the server responds: a ping, or discovery in a stateless lifecycle.

        Raises MCPError.
        """
        self._run(self.client.request_sign_of_life(options))


class SyncSubscription(Generic[EventT]):
    """Change notifications of a server: subscribe with `with`, and read each with `for`."""

    def __init__(self, client: InThread[Any], subscription: Subscription[EventT]) -> None:
        """Create a synchronous subscription. Use the `listen` method of the client.

        Args:
            client: The synchronous client.
            subscription: The asynchronous subscription.
        """
        self._client = client
        self._subscription = subscription

    @property
    def acknowledged(self) -> Mapping[str, Any]:
        """The changes that the server has agreed to notify about, by keyword of `listen`: true, or URIs."""
        return self._subscription.acknowledged

    def __enter__(self) -> Self:
        self._client._run(self._subscription.__aenter__())  # pyright: ignore[reportPrivateUsage]
        return self

    def __exit__(self, *exception: object) -> None:
        self._client._run(self._subscription.close())  # pyright: ignore[reportPrivateUsage]

    def __iter__(self) -> Iterator[EventT]:
        return self._client._iterate(self._subscription)  # pyright: ignore[reportPrivateUsage]
