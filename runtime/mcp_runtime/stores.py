"""The primitives of a store. All that several workers share is built on these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from . import products
from .errors import MCPError

STREAM_LIMIT: Final = 1024  # Entries of one stream that are stored.
NUMBERS_A_SECOND: Final = 100_000

NumberedEntry = tuple[int, bytes]
ReceiveHint = Callable[[bytes], None]


class Anything(Enum):
    """The expectation of a change that replaces any value."""

    ANYTHING = "anything"


ANYTHING: Final = Anything.ANYTHING
Expected: TypeAlias = bytes | Literal[Anything.ANYTHING] | None


class StoreUnavailableError(MCPError):
    """The store cannot be reached, or has refused a command. What was to be changed may have been changed or not."""


class StoreClosedError(StoreUnavailableError):
    """The store was closed by this process, and takes no commands any more."""


def number_at(wall_time: float) -> int:
    """Return the number of the last entry that is appended at a time, in seconds since the epoch, unless it or those
    with it would not be above the one before.

    A stream that begins anew goes on above its former numbers, without knowing them.

    Numbers have 15 digits until the year 2286, so that `Last-Event-ID` and the Lua of Redis have them exactly. A stream
    to which more than 100,000 entries are appended in each second would be ahead of the time.
    """
    return int(wall_time * NUMBERS_A_SECOND)


class Store(Protocol):
    """Records, counters, streams and channels of one or more processes. Keys are texts, values are bytes.

    Every method is atomic, also between processes, and raises StoreUnavailableError if the store cannot be reached. A
    process sees what it has changed itself at once, and what another has changed as soon as its method has returned
    there. Times to live are in seconds; they are counted anew with each change.
    """

    async def get(self, key: str) -> bytes | None:
        """Return the value of a record; None if there is none, or its time to live has passed."""
        ...

    async def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> bool:
        """Store a record if its value is the expected one; None expects that there is none.

        Returns False, and changes nothing, if another value is stored.
        """
        ...

    def touch(self, key: str, ttl: float) -> Coroutine[Any, Any, bytes | None]:
        """Let the time to live of a record begin anew; return its value, or None if there is no such record."""
        ...

    async def delete(self, key: str) -> bool:
        """Delete a record; return False if there was none."""
        ...

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter, and return its value. A new counter begins with 0, and is deleted `ttl` seconds later."""
        ...

    def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> Awaitable[int]:
        """Append entries to a stream, and return the number of the last one.

        The numbers of a stream grow, also where it has expired, was dropped or lost meanwhile: nobody who has read up
        to a number misses what is appended later. Those of a stream with several writers contain the time, see
        `number_at`, and have gaps. The only writer of a stream numbers its entries itself: from 1 on, without gaps. Of
        the entries of a stream the last 1,024 are stored.

        Args:
            stream: The stream, which exists from its first entry on.
            entries: The entries; none lets a stream that exists live on.
            ttl: Seconds for which the stream exists after its last entry.
            after: The number of the last entry before these, as the only writer of a stream knows it. A command that
                is repeated after a failure then appends nothing twice. Default None: the stream has several writers.
            token: For a stream of several writers, a text that no other command has: a command that is repeated after a
                failure appends nothing if entries after the number `after` have its token. Every number that is given
                is above `after`. Default "": there is none.
        """
        ...

    def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> Coroutine[Any, Any, list[NumberedEntry]]:
        """Return the stored entries of a stream that follow a number, in order, at most `limit` of them."""
        ...

    def last(self, stream: str) -> Coroutine[Any, Any, int]:
        """Return the number of the last entry of a stream; 0 if there is no such stream."""
        ...

    async def drop(self, *streams: str) -> None:
        """Delete streams."""

    async def publish(self, channel: str, message: bytes) -> None:
        """Pass a message to the processes that are subscribed to a channel. It may be lost: the truth is in records and
        streams."""

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel, in this event loop, from now on.

        An empty message says that messages may have been lost. A second subscription of a function changes nothing.
        """

    async def close(self) -> None:
        """End subscriptions, and release connections and files. Records and streams remain."""


# The seam of everything that several workers share.


class Workers(Protocol):
    """What `store=` and `workers=` need."""

    def open_store(self, function: str, store: Any) -> Store | None:
        """Return the store that `store=` of a function names; None for "memory", what one process has itself. Raises
        LocalError for anything else."""
        ...

    async def acquire(self, store: Store, key: str, rate: Any) -> float:
        """Take a token of the bucket that all workers share and return 0.0, or return the seconds until there is one.
        Raises StoreUnavailableError."""
        ...

    def share_endpoint(self, store: Any, servers: Sequence[Any], auth: Any) -> Any:
        """Return what the HTTP endpoint of these services shares with those of other workers; None without a store."""
        ...


def workers(user: str) -> Workers:
    """Return what several workers share their state with. Raises LocalError where the product is not there."""
    return cast("Workers", products.require("workers", user))


def open_store(function: str, store: Any) -> Store | None:
    """Return the store that `store=` of a function names; None for "memory", what one process has itself.

    It connects with its first command. Raises LocalError for anything else, and without the package that it needs.
    """
    return None if store == "memory" else workers(f"store= of {function}()").open_store(function, store)
