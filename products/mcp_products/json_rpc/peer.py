"""One side of a JSON-RPC 2.0 connection over stdio: it sends requests, and its methods handle those of the other side.

https://www.jsonrpc.org/specification
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import ValidationError

from mcp_runtime import products
from mcp_runtime._lazy import LazyModule
from mcp_runtime.aio import forks
from mcp_runtime.aio.tasks import end_process
from mcp_runtime.errors import (
    ConnectionClosedError,
    InvalidResponseError,
    JSONRPCError,
    LocalError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.framing import DEFAULT_LIMIT, MAX_MESSAGE_BYTES, OversizedMessage, SizeLimit
from mcp_runtime.protocol.jsonrpc import (
    ErrorMessage,
    MalformedMessage,
    NotificationMessage,
    RequestMessage,
    ResultMessage,
)
from mcp_runtime.protocol.models import format_validation_error, is_object, validator
from mcp_runtime.session.interfaces import closed_error
from mcp_runtime.transports.stdio.child import OnLine
from mcp_runtime.transports.stdio.lines import LineTransport

from .debug_adapter import DebugAdapterMessages
from .rows import Handlers, NotificationRow, RequestRow, Row, checked, decoded

if TYPE_CHECKING:
    from mcp_runtime.transports.stdio import client as stdio_client
    from mcp_runtime.transports.stdio import server as stdio_server
else:  # Imported when they are used.
    stdio_client = LazyModule("mcp_runtime.transports.stdio.client")
    stdio_server = LazyModule("mcp_runtime.transports.stdio.server")

# Windows needs them, and a program of another protocol imports no front door that has registered them.
products.register(
    {"error_output": "mcp_products.platforms.error_output", "pipe_io": "mcp_products.platforms.pipe_threads"}, {}
)

REQUEST_CANCELLED: Final = -32800  # LSP and ACP have this code for it.
_MAX_RUNNING: Final = 1000  # Requests of the other side that are handled at the same time.
_MAX_WAITING: Final = 10_000  # Messages of the other side that wait for the handler of a notification.
_MAX_BYTES: Final = 64 * 1024 * 1024  # Bytes of the messages of the other side that wait or are handled.
_END: Final = b"\r\n\r\n"
_MAX_HEADER: Final = 4096  # Bytes.
_LENGTH: Final = re.compile(rb"(?:^|\r\n)content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*(?:\r\n|\Z)", re.IGNORECASE)

_log: Final = logging.getLogger("mcp_runtime.json_rpc.peer")


class Peer(Handlers):
    """One side of a connection. Subclasses are generated: they send with methods, and handle with methods `on_…`.

    The messages of the other side are handled in their order: a request runs beside those that follow it, and a
    notification before them.
    """

    _framing: ClassVar[Literal["lines", "headers"]] = "lines"
    _form: ClassVar[type[DebugAdapterMessages] | None] = None  # Of messages that are not written as JSON-RPC has them.
    _notified: ClassVar[Mapping[str, tuple[Row, str]]] = {}  # Notifications whose method is that of a request too.
    _cancel: ClassVar[tuple[str, str] | None] = None  # The notification that cancels a request, and its property.

    def __init__(self) -> None:
        self._transport: LineTransport | None = None
        self._forks = forks.count
        self._decoder: ContentLengthDecoder | None = None
        self._messages = None if self._form is None else self._form()
        self._pending: dict[jsonrpc.Id, asyncio.Future[Any]] = {}
        self._running: dict[jsonrpc.Id, asyncio.Task[None]] = {}
        self._waiting: asyncio.Queue[tuple[RequestMessage | NotificationMessage, int]] = asyncio.Queue()
        self._bytes = 0  # Of the messages that wait or are handled.
        self._last_id = 0
        self._close_reason = ""  # Why nothing is received any more.

    @asynccontextmanager
    async def start(
        self,
        *command: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stderr: OnLine | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
    ) -> AsyncGenerator[Self]:
        """Start the other side as a child process, without a shell, and talk to it until the block ends.

        Args:
            command: The program and its arguments.
            env: Variables to add to the few that the child inherits (`PATH`, `HOME`, …).
            cwd: The working directory; None is that of this process.
            stderr: Called with each line of the child's standard error; None writes it to that of this process.
            max_bytes: Bytes of one message of the child. Default 8 MiB.

        Raises ConnectionClosedError if it cannot be started.
        """
        if not command:
            raise LocalError("start() needs a command; pass the program and its arguments")
        limit = SizeLimit(max_bytes, "max_bytes= of start()")
        async with self._connected(stdio_client.start_server(command, env, cwd, stderr, limit), limit):
            yield self

    def run(self, *, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        """Serve the process that has started this one over standard input and output, until it ends the connection.

        Args:
            max_bytes: Bytes of one message of that process. Default 8 MiB.
        """
        limit = SizeLimit(max_bytes, "max_bytes= of run()")

        async def serve(transport: Any) -> None:
            async with self._connected(transport, limit) as reading:
                await reading

        stdio_server.run_server(serve, limit)

    @asynccontextmanager
    async def _connected(self, transport: LineTransport, limit: SizeLimit) -> AsyncGenerator[asyncio.Task[None]]:
        """Receive messages until the block ends, and close the transport then."""
        if self._transport is not None:
            raise LocalError(f"{type(self).__name__} is connected already; create another one")
        self._transport = transport
        self._forks = forks.count
        if self._framing == "headers":
            self._decoder = ContentLengthDecoder(limit)
            transport.use_decoder(self._decoder)
        reading, handling = asyncio.create_task(self._read(transport)), asyncio.create_task(self._handle_all())
        try:
            yield reading
        finally:
            tasks = [handling, reading, *self._running.values()]
            await transport.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._end(str(closed_error(transport)))

    # ---- sending -----------------------------------------------------------------------------------------------------

    async def _send_request(self, row: RequestRow, params: Any, timeout: float | None = None) -> Any:
        """Send a request and return its result. Cancelling the call cancels the request, where the protocol can.

        Raises RemoteJSONRPCError for an error of the other side, RequestTimeoutError after `timeout` seconds,
        InvalidResponseError for a result of another type, and ConnectionClosedError.
        """
        self._last_id += 1
        id = self._last_id
        self._send(jsonrpc.request(id, row.method, checked(row, params)))
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[id] = response
        try:
            value = await asyncio.wait_for(response, timeout)
        except (asyncio.CancelledError, TimeoutError) as error:
            self._send_cancel(id)
            if self._messages is not None:
                self._messages.forget(id)
            if isinstance(error, TimeoutError):
                raise RequestTimeoutError(f"{row.method}: no response within {timeout} s") from None
            raise
        finally:
            self._pending.pop(id, None)
        try:
            return validator(row.result)(value)
        except ValidationError as error:
            text = f"the result of {row.method} is not valid: {format_validation_error(error)}"
            raise InvalidResponseError(text) from None

    async def _send_notification(self, row: NotificationRow, params: Any) -> None:
        """Send a notification. Raises ConnectionClosedError."""
        transport = self._send(jsonrpc.notification(row.method, checked(row, params)))
        await transport.drain()

    def _send_cancel(self, id: jsonrpc.Id) -> None:
        if self._cancel is not None:
            method, name = self._cancel
            with suppress(ConnectionClosedError):
                self._send(jsonrpc.notification(method, {name: id}))

    def _send(self, message: bytes) -> LineTransport:
        if self._transport is None:
            name = type(self).__name__
            raise ConnectionClosedError(f"{name} is not connected; send inside of `async with {name}().start(…)`")
        if self._close_reason:
            raise ConnectionClosedError(self._close_reason)
        if self._forks != forks.count:
            raise ConnectionClosedError(forks.OTHER_PROCESS)
        written = message if self._messages is None else self._messages.write(message)
        if written is not None:
            self._transport.send(with_header(written) if self._framing == "headers" else written)
        return self._transport

    # ---- receiving ---------------------------------------------------------------------------------------------------

    async def _read(self, transport: LineTransport) -> None:
        """Receive messages until the end: responses settle requests, all else waits for its handler."""
        reason = ""
        try:
            while not reason and (data := await transport.receive()) is not None:
                if self._decoder is not None and self._decoder.broken:
                    reason = "the other side sent a header without Content-Length"
                elif self._waiting.qsize() >= _MAX_WAITING:
                    reason = f"the other side sent more than {_MAX_WAITING} messages that wait for a handler"
                elif self._bytes + len(data) > _MAX_BYTES:
                    reason = f"the other side sent more than {_MAX_BYTES} bytes that wait for a handler"
                else:
                    message = data if self._messages is None else self._messages.read(data)
                    self._receive(decoded(message), len(data))
        finally:
            self._end(reason or str(closed_error(transport)))

    def _receive(self, message: jsonrpc.Message | list[jsonrpc.Message], size: int) -> None:
        if isinstance(message, RequestMessage | NotificationMessage):
            self._bytes += size
            self._waiting.put_nowait((message, size))
        elif isinstance(message, ResultMessage):
            if (response := self._pending.get(message.id)) is not None and not response.done():
                response.set_result(message.result)
        elif isinstance(message, ErrorMessage):
            self._fail(message.id, RemoteJSONRPCError(message.code, message.message, message.data))
        elif isinstance(message, MalformedMessage):
            if message.is_response:
                self._fail(message.id, InvalidResponseError(f"the response is not valid: {message.message}"))
            else:
                self._respond(jsonrpc.error(message.id, message.code, message.message, null_id=True))
        else:
            text = "batches are not supported; send single messages"
            self._respond(jsonrpc.error(None, jsonrpc.INVALID_REQUEST, text, null_id=True))

    def _fail(self, id: jsonrpc.Id | None, error: Exception) -> None:
        response = None if id is None else self._pending.get(id)
        if response is not None and not response.done():
            response.set_exception(error)
        elif response is None:
            _log.warning("%s received an error that belongs to no request: %s", type(self).__name__, error)

    def _end(self, reason: str) -> None:
        """Fail the requests that have no response yet, and those to come."""
        self._close_reason = self._close_reason or reason
        for response in self._pending.values():
            if not response.done():
                response.set_exception(ConnectionClosedError(reason))

    async def _handle_all(self) -> None:
        """Handle the messages of the other side in their order."""
        while True:
            message, size = await self._waiting.get()
            if isinstance(message, NotificationMessage):
                await self._handle_notification(message)
                self._bytes -= size
            elif len(self._running) >= _MAX_RUNNING:
                text = f"more than {_MAX_RUNNING} requests are handled"
                self._bytes -= size
                self._respond(jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, text))
            else:
                task = asyncio.create_task(self._handle_request(message, size))
                self._running[message.id] = task
                await asyncio.sleep(0)  # It begins before the next message, which may cancel it.

    async def _handle_notification(self, message: NotificationMessage) -> None:
        params = message.params
        if self._cancel is not None and message.method == self._cancel[0] and is_object(params):
            task = self._running.get(params.get(self._cancel[1], ""))
            if task is not None:
                task.cancel()
        found = self._notified.get(message.method, self._receives.get(message.method))
        row, name = (None, "") if found is None else found
        if not isinstance(row, NotificationRow):
            _log.debug("%s ignores the notification %s", type(self).__name__, message.method)
            return
        try:
            await self._call(name, row, params)
        except Exception:
            _log.exception("the handler of %s failed", message.method)

    async def _handle_request(self, message: RequestMessage, size: int) -> None:
        ends: BaseException | None = None
        try:
            response = jsonrpc.result(message.id, await self._handled(message))
        except JSONRPCError as error:
            response = jsonrpc.error(message.id, error.code, error.message, error.data)
        except asyncio.CancelledError:
            response = jsonrpc.error(message.id, REQUEST_CANCELLED, "the request was cancelled")
        except BaseException as error:  # Nobody waits for a response, whatever a handler raises.
            _log.exception("the handler of %s failed", message.method)
            response = jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, "internal error")
            ends = error if isinstance(error, (SystemExit, KeyboardInterrupt)) else None
        self._running.pop(message.id, None)
        self._bytes -= size
        self._respond(response)
        if ends is not None:
            end_process(ends)

    def _respond(self, response: bytes) -> None:
        with suppress(ConnectionClosedError):
            self._send(response)


# Messages with a header, as the Language Server Protocol and the Debug Adapter Protocol frame them:
# https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#headerPart


def with_header(message: bytes) -> bytes:
    """Return a message below its header. The transport ends it with a line feed, which counts as whitespace of it."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(message) + 1, message)


class ContentLengthDecoder:
    """A decoder of messages with `Content-Length`. `broken` is True after a header that has none; the last message is
    then empty, and nothing is read any more."""

    def __init__(self, limit: SizeLimit = DEFAULT_LIMIT) -> None:
        """Create a decoder for messages within a limit; of longer ones the rest is skipped."""
        self._limit = limit
        self._data = bytearray()
        self._length: int | None = None
        self._skipped = 0  # Bytes of a message beyond the limit that are still to come.
        self.broken = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that these bytes complete; a message beyond the limit is an OversizedMessage."""
        if self.broken:
            return []
        self._data += data
        messages: list[bytes] = []
        while self._data and not self.broken:
            if self._skipped:
                skipped = min(self._skipped, len(self._data))
                del self._data[:skipped]
                self._skipped -= skipped
            elif self._length is None:
                if not self._read_header():
                    break
            elif self._length > self._limit.bytes:
                beginning = self._data[: min(self._length, _MAX_HEADER)]
                messages.append(OversizedMessage(bytes(beginning), self._limit))
                del self._data[: len(beginning)]
                self._skipped = self._length - len(beginning)
                self._length = None
            elif len(self._data) >= self._length:
                messages.append(bytes(self._data[: self._length]))
                del self._data[: self._length]
                self._length = None
            else:
                break
        if self.broken:
            messages.append(b"")
        return messages

    def _read_header(self) -> bool:
        """Read the length of the next message. Return False if its header is incomplete, or has none."""
        end = self._data.find(_END, 0, _MAX_HEADER)
        match = _LENGTH.search(self._data, 0, end + 2) if end >= 0 else None
        if match is None:
            self.broken = end >= 0 or len(self._data) >= _MAX_HEADER
            return False
        self._length = int(match[1])
        del self._data[: end + len(_END)]
        return True
