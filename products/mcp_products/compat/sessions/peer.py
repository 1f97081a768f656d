"""One side of a JSON-RPC connection over two streams of the official SDK."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from pydantic import ValidationError

from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_runtime.protocol.revision import META

from ..forms.errors import McpError, failure, timed_out
from ..forms.form import FORM, written
from ..streams.bridges import CLOSED
from ..streams.message import MessageMetadata, ReadStream, SessionMessage, WriteStream

_log: Final = logging.getLogger("mcp_runtime.compat.peer")
_NOT_CANCELLED: Final = ("InitializeRequest", "DiscoverRequest")

OnRequest = Callable[[str | int, str, Any], Awaitable[dict[str, Any] | None]]
OnNotification = Callable[[str, Any], Awaitable[None]]
OnException = Callable[[Exception], Awaitable[None]]
OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]
Deliver = Callable[[str, Any], None]


class Peer:
    """Sends requests and notifications, and answers those of the other side."""

    def __init__(self, read: ReadStream, write: WriteStream) -> None:
        """Create one side of a connection."""
        self._read = read
        self._write = write
        self._next_id = 0 if FORM.is_v1 else 1
        self._pending: dict[str | int, Any] = {}
        self._progress: dict[str | int, OnProgress] = {}
        self._served: dict[str | int, anyio.CancelScope] = {}
        self._is_closed = False
        self._streams: dict[str | int, Deliver] = {}

    # ---- sending ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        metadata: MessageMetadata = None,
        deliver: Deliver | None = None,
    ) -> dict[str, Any]:
        """Send a request, and return its result as JSON. Raises McpError.

        `deliver` gets the notifications of a subscription, in their order.
        """
        id = self._next_id
        self._next_id += 1
        if deliver is not None:
            self._streams[id] = deliver
        if on_progress is not None:
            params = {**(params or {})}
            params["_meta"] = {**params.get("_meta", {}), "progressToken": id}
            self._progress[id] = on_progress
        if self._is_closed:
            raise _connection_closed()
        give, take = anyio.create_memory_object_stream[Any](1)
        self._pending[id] = give
        try:
            with anyio.fail_after(timeout):
                await self._send({"id": id, "method": method, "params": params}, metadata)
                answer = await take.receive()
        except TimeoutError:
            await self._cancel(id, method)
            raise timed_out(method, timeout) from None
        except anyio.EndOfStream:
            raise _connection_closed() from None
        except CLOSED as error:
            if FORM.is_v1:
                raise
            raise _connection_closed() from error
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await self._cancel(id, method)
            raise
        finally:
            self._pending.pop(id, None)
            self._progress.pop(id, None)
            self._streams.pop(id, None)
            give.close()
            take.close()
        if (failure := answer.get("error")) is not None:
            raise McpError(failure["code"], failure["message"], failure.get("data"))
        return dict(answer["result"])

    async def _cancel(self, id: int, method: str) -> None:
        if method in map(FORM.method, _NOT_CANCELLED):
            return
        with suppress(*CLOSED):
            await self.notify(FORM.method("CancelledNotification"), {"requestId": id})

    async def notify(self, method: str, params: dict[str, Any] | None) -> None:
        """Send a notification. In 1.x one that cancels a request ends it, as the answer of a server does there."""
        await self._send({"method": method, "params": params})
        if FORM.is_v1 and method == FORM.method("CancelledNotification"):
            self._settle({"id": (params or {}).get("requestId"), **failure(0, "Request cancelled")})

    async def _send(self, fields: dict[str, Any], metadata: MessageMetadata = None) -> None:
        """Send the message of these fields, but those that are None."""
        given = {name: value for name, value in fields.items() if value is not None}
        await self._write.send(SessionMessage(FORM.message({"jsonrpc": "2.0", **given}), metadata))

    async def _answer(self, id: str | int, outcome: dict[str, Any]) -> None:
        try:
            await self._send({"id": id, **outcome})
        except CLOSED:
            _log.debug("not sent: the stream is closed")

    # ---- receiving --------------------------------------------------------------------------------------------------

    async def run(
        self, group: TaskGroup, on_request: OnRequest, on_notification: OnNotification, on_exception: OnException
    ) -> None:
        """Receive until the stream ends; requests and notifications are handled in tasks of the group."""
        notifications, told = anyio.create_memory_object_stream[Any](math.inf)
        group.start_soon(self._tell, told, on_notification, on_exception)
        try:
            async with self._read, self._write, notifications:
                async for item in self._read:
                    raw: Any = item if isinstance(item, Exception) else written(item.message)
                    if isinstance(raw, Exception):
                        notifications.send_nowait(raw)
                    elif "method" not in raw:
                        self._settle(raw)
                    elif "id" in raw:
                        scope = self._served[raw["id"]] = anyio.CancelScope()
                        group.start_soon(self._serve, scope, raw, on_request)
                    else:
                        self._apply(raw)
                        notifications.send_nowait(raw)
        except CLOSED as error:
            _log.debug("%r", error)
        finally:
            self._is_closed = True
            for waiting in [*self._pending.values()]:
                waiting.close()

    def _settle(self, raw: dict[str, Any]) -> None:
        id: Any = raw.get("id")
        if id not in self._pending and isinstance(id, str) and id.isdigit():
            id = int(id)  # A server that has answered with the text of a number.
        try:
            self._pending[id].send_nowait(raw)
        except (KeyError, anyio.WouldBlock, *CLOSED):  # A second response to one request is no better.
            _log.debug("a response to no request: %r", id)

    def _apply(self, raw: dict[str, Any]) -> None:
        """End the handling of a request that a notification cancels, and pass one of a subscription on."""
        params: Any = raw.get("params") or {}
        with suppress(KeyError, TypeError, ValidationError):  # It is of no subscription, or malformed.
            self._streams[params["_meta"][f"{META}subscriptionId"]](raw["method"], params)
        scope = self._served.get(params.get("requestId"))
        if raw["method"] == FORM.method("CancelledNotification") and scope is not None:
            scope.cancel()

    async def _tell(self, told: Any, on_notification: OnNotification, on_exception: OnException) -> None:
        async with told:
            async for raw in told:
                try:
                    if isinstance(raw, Exception):
                        await on_exception(raw)
                        continue
                    await self._report(raw)
                    await on_notification(raw["method"], raw.get("params"))
                except Exception:
                    _log.exception("the handler of a notification failed")

    async def _report(self, raw: dict[str, Any]) -> None:
        params: Any = raw.get("params") or {}
        if raw["method"] != FORM.method("ProgressNotification"):
            return
        if (report := self._progress.get(params.get("progressToken"))) is not None:
            await report(params.get("progress"), params.get("total"), params.get("message"))

    async def _serve(self, scope: anyio.CancelScope, raw: dict[str, Any], on_request: OnRequest) -> None:
        id, method = raw["id"], raw["method"]
        outcome: dict[str, Any] = {}
        with scope:
            try:
                result = await on_request(id, method, raw.get("params"))
                outcome = {"result": result}
                if result is None:
                    outcome = failure(METHOD_NOT_FOUND, "Method not found", method)
            except McpError as error:
                outcome = failure(error.code, error.message, error.data)
            except ValidationError:
                _log.warning("%r: the params are invalid", method, exc_info=True)
                outcome = failure(INVALID_PARAMS, "Invalid request parameters", "")
            except Exception as error:
                _log.exception("the handler of %r failed", method)
                outcome = failure(INTERNAL_ERROR, str(error))
        self._served.pop(id, None)
        if scope.cancelled_caught:
            outcome = failure(0, "Request cancelled")
        await self._answer(id, outcome)


def _connection_closed() -> McpError:
    return McpError(FORM.types.CONNECTION_CLOSED, "Connection closed")
