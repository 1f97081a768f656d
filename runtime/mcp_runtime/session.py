"""A peer, a transport and handlers, run together: requests both ways, each answered by its own task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from pydantic import BaseModel

from . import jsonrpc
from .errors import InvalidMessage, McpError, NotConnected, Refusal, TimedOut
from .jsonrpc import Id
from .peer import Answered, Asked, Peer, Refused, Told
from .spec import Notification, Request

log: Final = logging.getLogger("mcp_runtime")


class Transport(Protocol):
    """Whole messages, one at a time, in order."""

    async def send(self, message: bytes) -> None:
        """Send one message. Raises NotConnected."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None at the end of the conversation."""
        ...

    async def close(self) -> None:
        """End the conversation and release what it holds; more than once does no harm."""
        ...


Handler = Callable[[Asked | Told], Awaitable[Any]]


class Session:
    """One conversation. `run` receives until the transport ends; `ask` and `tell` work from any task meanwhile."""

    def __init__(self, peer: Peer, transport: Transport, handle: Handler) -> None:
        self.peer = peer
        self._transport = transport
        self._handle = handle
        self._waiting: dict[Id, asyncio.Future[BaseModel]] = {}
        self._ended = False

    async def run(self) -> None:
        """Receive and handle until the conversation ends; every call still waiting then fails with NotConnected."""
        try:
            async with asyncio.TaskGroup() as handlers:
                while (data := await self._transport.receive()) is not None:
                    event = self.peer.receive(data)
                    match event:
                        case Asked() | Told():
                            # Handlers start in the order of arrival, because tasks start in the order of creation.
                            handlers.create_task(self._serve(event))
                        case Answered(id, outcome):
                            self._settle(id, outcome)
                        case Refused(why, reply):
                            log.debug("refused: %s", why)
                            if reply is not None:
                                await self._transport.send(reply)
                self._end()
        finally:
            self._end()

    async def ask(self, row: Request[Any], params: Any, timeout: float | None) -> BaseModel:
        """Send a request and wait for its answer, at most `timeout` seconds. Raises McpError."""
        if self._ended:
            raise NotConnected(f"{row.method!r}: the connection is closed")
        id, data = self.peer.ask(row, params)
        waiting: asyncio.Future[BaseModel] = asyncio.get_running_loop().create_future()
        self._waiting[id] = waiting
        try:
            async with asyncio.timeout(timeout):
                await self._transport.send(data)
                return await waiting
        except TimeoutError:
            raise TimedOut(f"{row.method!r}: no answer within {timeout:g} s") from None
        finally:
            self._waiting.pop(id, None)
            self.peer.forget(id)

    async def tell(self, row: Notification, params: Any) -> None:
        """Send a notification. Raises McpError."""
        if self._ended:
            raise NotConnected(f"{row.method!r}: the connection is closed")
        await self._transport.send(self.peer.tell(row, params))

    async def close(self) -> None:
        self._end()
        await self._transport.close()

    def _end(self) -> None:
        self._ended = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(NotConnected("the connection ended before the answer came"))

    def _settle(self, id: Id, outcome: BaseModel | McpError) -> None:
        waiting = self._waiting.get(id)
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, BaseModel):
            waiting.set_result(outcome)
        else:
            waiting.set_exception(outcome)

    async def _serve(self, event: Asked | Told) -> None:
        """Run the handler and send what it gives; a handler's own fault never ends the conversation."""
        try:
            result = await self._handle(event)
            reply = self.peer.answer(event, result) if isinstance(event, Asked) else None
        except Refusal as refusal:
            reply = self._error(event, refusal.code, refusal.message, refusal.data)
        except InvalidMessage as fault:
            log.error("%s", fault)
            reply = self._error(event, jsonrpc.INTERNAL_ERROR, "internal error")
        except Exception:
            log.exception("the handler of %r failed", event.row.method)
            reply = self._error(event, jsonrpc.INTERNAL_ERROR, "internal error")
        if reply is not None:
            try:
                await self._transport.send(reply)
            except NotConnected:
                log.debug("the answer to %r was not sent: the connection is closed", event.row.method)

    def _error(self, event: Asked | Told, code: int, message: str, data: Any = None) -> bytes | None:
        return self.peer.refuse(event, code, message, data) if isinstance(event, Asked) else None
