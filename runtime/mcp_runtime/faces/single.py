"""A request that belongs to no session goes in, and its answer is sent, as one body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json

from ..auth.resource.caller import Caller
from ..eager import Starter
from ..errors import NotConnected
from ..exchange import log
from ..http.headers import Headers, Turned
from ..http.rules import check_repeated, repeated, status_of
from ..jsonrpc import INTERNAL_ERROR, Id, Message, RequestMessage
from ..peer import Peer
from ..session import Session
from ..spec import META, Request
from ..transports.http.events import MemoryEvents
from ..transports.http.exchange import Exchange, Related
from ..transports.http.silence import Silence
from ..transports.http.streams import Stream
from ..transports.http.wire import Receive, Send, id_of, leaving, respond, send_stream, turn_away
from ..wire import is_list, is_object
from .conversation import Conversation
from .server import BaseServer

_KNOWN_FOR: Final = 5.0  # Seconds for which the arguments that headers repeat are not asked for again.
_DRAIN: Final = 0.5  # Seconds for answers, once the server is to end.
_MOST_PAGES: Final = 100

Paths = Mapping[str, tuple[str, ...]]


class _Nowhere:
    """The transport of what has been answered already."""

    ending = "the request was answered"

    def send(self, message: bytes, more: bool = False) -> None:
        raise NotConnected(self.ending)

    async def drained(self) -> None:
        """Nothing is ever left to be sent."""

    async def receive(self) -> bytes | None:
        return None

    async def close(self) -> None:
        """There is nothing to close."""


class Single:
    """A server of one revision without sessions, for any number of clients."""

    def __init__(self, server: BaseServer, servers: Sequence[BaseServer], silence: Silence) -> None:
        self.server = server
        self._silence = silence
        self._servers = servers
        self._template = Peer(server.revision, "server", own=server.capabilities)
        self._conversation: Conversation | None = None
        self._starter: Starter | None = None
        self._open: dict[Session, asyncio.Task[Any] | None] = {}
        self._paths: dict[str, Paths] = {}
        self._known_until = float("-inf")

    async def serve(
        self, message: Message | list[Message], state: Any, plain: bool, caller: Caller, receive: Receive, send: Send
    ) -> None:
        """Answer a message of this caller; `plain` tells whether the client takes an answer that is no stream. A client
        that leaves cancels its request."""
        if self._conversation is None:
            self._conversation = Conversation(self._servers, self.server, state)
            self._conversation.sign(self._template)
            self._starter = Starter(asyncio.get_running_loop())
        handle = self._conversation.handle
        session = Session(self._template.alike(), _Nowhere(), handle, starter=self._starter, caller=caller)
        exchange = Exchange(_open)
        if not plain:
            exchange.streaming()
        if not session.act(session.peer.take(message), exchange.reply, Related(session, exchange, caller)):
            return await respond(send, 202)
        if exchange.is_over and exchange.answer is not None:
            return await self._respond(exchange, exchange.answer, caller, send)
        self._open[session] = asyncio.current_task()
        try:
            await self._wait(exchange, id_of(message), caller, receive, send)
        finally:
            self._open.pop(session)
            await session.stop()

    async def _respond(self, exchange: Exchange, answer: bytes, caller: Caller, send: Send) -> None:
        if exchange.code and caller.denied:
            return await respond(send, 403, answer, caller.denied)
        await respond(send, status_of(exchange.code, self.server.revision), answer)

    async def _wait(self, exchange: Exchange, id: Id | None, caller: Caller, receive: Receive, send: Send) -> None:
        client = leaving(receive)

        def left(_: object) -> None:
            # Closing the connection is how a client cancels (2026: basic/transports, Cancellation).
            exchange.reply(None, 0)

        client.add_done_callback(left)
        try:
            await exchange.begun(self._silence.seconds)
            if exchange.is_over and exchange.stream is None:
                if exchange.answer is not None:
                    await self._respond(exchange, exchange.answer, caller, send)
                elif not client.done():
                    await turn_away(send, Turned(503, "the server has ended", INTERNAL_ERROR), id)
            else:
                await send_stream(exchange.streaming(), client, send, self._silence)
        finally:
            client.remove_done_callback(left)
            client.cancel()

    async def close(self) -> None:
        """End what is being served: who listens is told, and the others get a moment to be answered."""
        if self._conversation is not None:
            self._conversation.leave()
        serving = [task for task in self._open.values() if task is not None]
        if serving:
            await asyncio.wait(serving, timeout=_DRAIN)
        for session in list(self._open):
            await session.stop()
        if self._conversation is not None:
            await self._conversation.behind.end()
        if self._starter is not None:
            await self._starter.close()

    # ---- headers that repeat arguments --------------------------------------------------------------------------------

    async def check_arguments(self, headers: Headers, message: object, state: Any) -> Turned | None:
        """What is wrong with the headers that repeat arguments of a call, if something is."""
        http = self.server.revision.http
        if http.arguments is None or http.schemas is None or not isinstance(message, RequestMessage):
            return None
        params = message.params
        if message.method != http.arguments.method or not is_object(params):
            return None
        now = asyncio.get_running_loop().time()
        if now > self._known_until:
            self._paths = await self._read_paths(http.schemas, state)
            self._known_until = now + _KNOWN_FOR
        fault = check_repeated(headers, params.get("arguments"), self._paths.get(str(params.get("name")), {}))
        code = int(self.server.revision.constants.get("HEADER_MISMATCH", -32600))
        return None if fault is None else Turned(400, fault, code)

    async def _read_paths(self, row: Request[Any], state: Any) -> dict[str, Paths]:
        """Which arguments of which tool are repeated, from the server's own list of them, page by page."""
        found: dict[str, Paths] = {}
        meta: dict[str, Any] = {f"{META}protocolVersion": self.server.revision.id, f"{META}clientCapabilities": {}}
        params: dict[str, Any] = {"_meta": meta}
        for _ in range(_MOST_PAGES):
            page = await self._ask(RequestMessage(0, row.method, params), state)
            for items in page.values():
                for item in items if is_list(items) else ():
                    if is_object(item) and "inputSchema" in item:
                        found[str(item.get("name"))] = _repeated(item)
            if page.get("nextCursor") is None:
                break
            params = {"_meta": meta, "cursor": page["nextCursor"]}
        return found

    async def _ask(self, message: RequestMessage, state: Any) -> dict[str, Any]:
        """What the server itself answers; nothing where it refuses."""
        conversation = Conversation(self._servers, self.server, state)
        session = Session(self._template.alike(), _Nowhere(), conversation.handle)
        exchange = Exchange(_open)
        if session.act(session.peer.take(message), exchange.reply, session):
            await exchange.begun(None)
        await session.stop()
        answer = from_json(exchange.answer) if exchange.answer is not None else None
        result = answer.get("result") if is_object(answer) else None
        return result if is_object(result) else {}


def _repeated(tool: dict[str, Any]) -> Paths:
    try:
        return repeated(tool["inputSchema"])
    except ValueError as fault:
        log.error("the tool %r cannot be called over HTTP: %s", tool.get("name"), fault)
        return {}


def _open() -> Stream:
    return Stream(MemoryEvents(), resumable=False)
