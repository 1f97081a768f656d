"""The large messages of a session: handled in pieces, between which an event loop does other work, in their order."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic_core import ValidationError

from mcp_runtime.http.asgi import RefusedRequestError
from mcp_runtime.http.headers import HTTPError
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.connection import Connection, Event
from mcp_runtime.protocol.framing import LARGE, OversizedMessage
from mcp_runtime.protocol.json_text import MAX_PARTS, counts_of_parts
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, Message, NotificationMessage, RequestMessage, ResultMessage
from mcp_runtime.protocol.models import is_list, is_object, validator
from mcp_runtime.session.interfaces import PushTransport

if TYPE_CHECKING:
    from pydantic import BaseModel

# Turns for work that blocks an event loop: one piece of it in an iteration, and clients take turns.

_MAX_WAITING: Final = 64 * 1024 * 1024  # Bytes of the messages of one client that wait.
_MAX_WAITING_OF_ALL: Final = 256 * 1024 * 1024
_MANY: Final = 20_000  # Objects that take about two milliseconds to visit.
_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]] = WeakKeyDictionary()
_END: Final = object()
_PIECE: Final = 1000  # Items of a list, or members of an object.
_LARGE_BODIES_TOO_MANY: Final = HTTPError(
    503, "too many large messages wait: send one after the other", INTERNAL_ERROR, retry_after=1, limit="large"
)

Validate = Callable[[object], Any]


class Turns:
    """The turns of one event loop. Whoever has the turn works; the others wait, and the event loop does all other work
    in between. Clients take turns, so that none waits for more than one message of each other client."""

    def __init__(self, max_waiting: int = _MAX_WAITING, max_waiting_of_all: int = _MAX_WAITING_OF_ALL) -> None:
        """Create turns that nobody has; the limits are in bytes."""
        self._max_waiting = max_waiting
        self._max_waiting_of_all = max_waiting_of_all
        self._is_busy = False
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # The next client first.
        self._bytes: dict[Hashable, int] = {}
        self._all_bytes = 0

    async def take(self, client: Hashable, size: int) -> bool:
        """Wait for the turn to handle a message of `size` bytes. Return False if too many messages wait."""
        if not self._is_busy:
            self._is_busy = True
            return True
        bytes_of_client = self._bytes.get(client, 0)
        if bytes_of_client and (
            bytes_of_client + size > self._max_waiting or self._all_bytes + size > self._max_waiting_of_all
        ):
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(future)
        self._count(client, size)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give_back()
            raise
        finally:
            self._count(client, -size)
        return True

    def give_back(self) -> None:
        """Let the next message be handled, after the other work of the event loop."""
        asyncio.get_running_loop().call_soon(self._give_next)

    def _give_next(self) -> None:
        while self._waiting:
            client, futures = next(iter(self._waiting.items()))
            del self._waiting[client]
            future = futures.popleft()
            if futures:
                self._waiting[client] = futures
            if not future.done():  # It is done if its task was cancelled.
                future.set_result(None)
                return
        self._is_busy = False

    def _count(self, client: Hashable, size: int) -> None:
        self._all_bytes += size
        self._bytes[client] = self._bytes.get(client, 0) + size
        if not self._bytes[client]:
            del self._bytes[client]


@contextmanager
def without_collection() -> Generator[None, None, None]:
    """Make many objects without garbage collections: each would visit all of them, which takes most of the time.

    At the end they become old objects, which is one step however many they are: as young ones, the next collection
    would visit them all. What a program has frozen itself would become so too, and is left as it is.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def turns_of_loop() -> Turns:
    """Return the turns of the running event loop."""
    loop = asyncio.get_running_loop()
    turns = _TURNS.get(loop)
    if turns is None:
        turns = _TURNS[loop] = Turns()
    return turns


@asynccontextmanager
async def turn(client: Hashable) -> AsyncGenerator[None, None]:
    """Wait for the turn to handle a message of a client, and make its objects without garbage collections."""
    turns = turns_of_loop()
    await turns.take(client, 0)
    try:
        with without_collection():
            yield
    finally:
        turns.give_back()


class LargeMessages:
    """The messages of one session that wait: large ones, and all that arrive before those are handled."""

    def __init__(
        self, connection: Connection, push: PushTransport | None, handle: Callable[[Event | None, int], None]
    ) -> None:
        """Create a queue for one use.

        Args:
            connection: The connection of the session.
            push: The transport that delivers the messages, if it can be paused.
            handle: Handles the event of a message of so many bytes; called with None when no message waits any more.
        """
        self._connection = connection
        self._push = push
        self._handle = handle
        self._waiting: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, data: bytes) -> None:
        """Add a message."""
        self._waiting.append(data)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            if self._push is not None:
                self._push.pause()

    async def finish(self) -> None:
        """Wait until all messages are handled."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Drop the messages."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                data = self._waiting.popleft()
                if type(data) is OversizedMessage:
                    self._handle(self._connection.oversized(data), len(data))
                elif len(data) <= LARGE:
                    self._handle(self._connection.receive_message(jsonrpc.decode(data)), len(data))
                else:
                    await self._receive_large(data)
        finally:
            self._handle(None, 0)
            if self._push is not None:
                self._push.resume()

    async def _receive_large(self, data: bytes) -> None:
        async with turn(self):
            message = await decode_in_pieces(data)
            validated = await validate(self._connection, message)
            event = self._connection.receive_message(message)
            del message
            await asyncio.sleep(0)
            self._handle(event, len(data))
            release_soon(validated)


async def decode_in_pieces(
    data: bytes, max_parts: int = MAX_PARTS, max_batch: int = jsonrpc.MAX_BATCH
) -> Message | list[Message]:
    """Decode a large message; the event loop does other work while its parts are counted, and after it is parsed."""
    for count in counts_of_parts(data, max_parts):
        await asyncio.sleep(0)
        if count > max_parts:
            return jsonrpc.reject_parts(data, max_parts)
    message = jsonrpc.decode(data, len(data), max_batch)  # It cannot have more parts than bytes.
    await asyncio.sleep(0)
    return message


async def validate(connection: Connection, message: Message | list[Message]) -> list[list[Any]]:
    """Validate what is long in a message, and do other work of the event loop between the pieces; return the results,
    for `release_soon`."""
    validated: list[list[Any]] = []
    for _ in validate_in_pieces(connection, message, validated):
        await asyncio.sleep(0)
    return validated


def release_soon(validated: list[list[Any]]) -> None:
    """Release what `validate` returned, a piece in an iteration of the event loop, from the next one on."""
    loop, pieces = asyncio.get_running_loop(), release_in_pieces(validated)

    def release() -> None:
        if next(pieces, _END) is None:
            loop.call_soon(release)

    if validated:
        loop.call_soon(release)


# Large messages over HTTP: one after the other, so that the calls of other clients are not delayed by all of them.


async def decode_in_turn(body: bytes, client: Hashable, max_parts: int, max_batch: int) -> Message | list[Message]:
    """Decode a large message in the turn of its client. Raises RefusedRequestError if too many wait.

    The turn ends in the next iteration of the event loop, so that what handles the message at once belongs to it.
    """
    turns, loop = turns_of_loop(), asyncio.get_running_loop()
    if not await turns.take(client, len(body)):
        raise RefusedRequestError(_LARGE_BODIES_TOO_MANY)
    turn = ExitStack()
    turn.callback(turns.give_back)
    turn.enter_context(without_collection())
    try:
        return await decode_in_pieces(body, max_parts, max_batch)
    finally:
        loop.call_soon(turn.close)


async def read_large(
    client: object, data: bytes, use_json: Callable[[Message | list[Message]], None], connection: Connection | None
) -> Message | list[Message]:
    """Return a large message, decoded and validated in pieces; `use_json` gets it before it is validated."""
    async with turn(client):
        message = await decode_in_pieces(data)
        use_json(message)
        if connection is not None:
            release_soon(await validate(connection, message))
    return message


# What of a message is validated in pieces.


def validate_in_pieces(
    connection: Connection, message: Message | list[Message], validated: list[list[Any]]
) -> Iterator[None]:
    """Validate the long lists of a message, and replace their items by the results; yield after each piece.

    It ends at the first wrong item: `receive_message` then has to validate what is left, and reports the error.
    `validated` gets a list of the results of each, for `release_in_pieces`.
    """
    match message:
        case RequestMessage(method=method, params=params) | NotificationMessage(method=method, params=params):
            row, value = connection.receivable.get(method), params
            shape = None if row is None else row.params
        case ResultMessage(id=id, result=result):
            pending, value = connection.pending.get(id), result
            shape = None if pending is None else pending[0].result
        case _:
            return
    if shape is None or not is_object(value):
        return
    for name, validate in _long_properties(shape).items():
        items = value.get(name)
        if (is_list(items) or is_object(items)) and len(items) > _PIECE:
            try:
                yield from _validate_items(items, validate)
            except ValidationError:
                return
            finally:
                validated.append(list(items.values() if is_object(items) else items))


def release_in_pieces(validated: list[list[Any]]) -> Iterator[None]:
    """Release the results of `validate_in_pieces`; yield after each piece.

    Where nobody else holds them, they are freed here: to free all at once takes as long as to validate them.
    """
    while validated:
        items = validated.pop()
        while items:
            del items[-_PIECE:]
            yield


def _validate_items(items: list[Any] | dict[str, Any], validate: Validate) -> Iterator[None]:
    if is_list(items):
        for start in range(0, len(items), _PIECE):
            items[start : start + _PIECE] = validate(items[start : start + _PIECE])
            yield
    elif is_object(items):
        names = list(items)
        for start in range(0, len(names), _PIECE):
            items.update(validate({name: items[name] for name in names[start : start + _PIECE]}))
            yield


@cache
def _long_properties(shape: type[BaseModel]) -> Mapping[str, Validate]:
    """Return the properties of a type that are lists or objects of models, and what validates a part of each."""
    shape.model_rebuild()
    properties: dict[str, Validate] = {}
    for name, field in shape.__pydantic_fields__.items():
        for choice in (field.annotation, *get_args(field.annotation)):
            kind = get_args(choice)[0] if get_origin(choice) is Annotated else choice
            if get_origin(kind) in (list, dict) and get_args(kind)[-1] not in (Any, str):
                properties[field.alias or name] = validator(kind)
    return properties
