"""A request that belongs to no session goes in, and its answer is sent, as one body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json

from ..auth.resource.caller import NOBODY, Caller
from ..eager import Starter
from ..errors import NotConnected
from ..exchange import log
from ..http.headers import Headers, Turned
from ..http.rules import check_repeated, repeated, status_of
from ..jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Id, RequestMessage
from ..peer import Peer
from ..session import Session
from ..spec import META, Request
from ..transports.http.events import MemoryEvents
from ..transports.http.exchange import Exchange, Posted
from ..transports.http.silence import Silence
from ..transports.http.streams import Stream
from ..transports.http.wire import Receive, Send, Sending, id_of, leaving, respond, send_stream, turn_away
from ..wire import is_list, is_object
from .conversation import Conversation
from .lives import Life
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

    def __init__(self, server: BaseServer, servers: Sequence[BaseServer], life: Life, silence: Silence) -> None:
        self._server = server
        self._servers = servers
        self._life = life
        self._silence = silence
        self._template = Peer(server.revision, "server", own=server.capabilities)
        self._conversation: Conversation | None = None
        self._loop: asyncio.AbstractEventLoop
        self._starter: Starter | None = None
        self._ready: Session | None = None  # In which nothing is left of what it served.
        self._open: dict[Session, asyncio.Task[Any] | None] = {}
        calls = server.revision.http.arguments
        self._calls = None if calls is None else calls.method
        self._paths: dict[str, Paths] = {}
        self._known_until = float("-inf")

    def serve(self, posted: Posted) -> Sending:
        """Answer what was posted. A client that leaves cancels its request."""
        message, caller, send = posted.message, posted.caller, posted.send
        if self._conversation is None:
            return self._serve_after(self._begin(), posted)
        if isinstance(message, RequestMessage) and message.method == self._calls:
            if self._loop.time() > self._known_until:
                return self._serve_after(self._learn(), posted)
            if self._paths and (turned := self._check_arguments(posted.head.headers, message.params)) is not None:
                return turn_away(send, turned, message.id)
        session = self._ready or self._session(self._conversation)
        self._ready = None
        session.caller = caller
        exchange = Exchange(session, caller, _open)
        if not posted.head.plain:
            exchange.streaming()
        due = session.act(session.peer.take(message), exchange.reply, exchange)
        if exchange.answer is not None:
            self._ready = session
            if exchange.code:
                return self._respond(exchange.answer, exchange.code, caller, send)
            return respond(send, 200, exchange.answer)
        if not due:
            return respond(send, 202)
        # Who listens may do so for days, and what was posted has been understood: nothing of it is held.
        return self._wait(session, exchange, id_of(message), caller, posted.receive, send)

    async def _serve_after(self, needed: Awaitable[Any], posted: Posted) -> None:
        await needed
        serving = self.serve(posted)
        del posted
        await serving

    async def _begin(self) -> Conversation:
        """The conversation that all requests are of, each in a session of its own."""
        state = await self._life.state()
        if self._conversation is None:
            self._conversation = Conversation(self._servers, self._server, state)
            self._conversation.sign(self._template)
            self._loop = asyncio.get_running_loop()
            self._starter = Starter(self._loop)
        return self._conversation

    def _session(self, conversation: Conversation) -> Session:
        return Session(self._template.alike(), _Nowhere(), conversation.handle, starter=self._starter)

    def _respond(self, answer: bytes, code: int, caller: Caller, send: Send) -> Sending:
        if code and caller.denied:
            return respond(send, 403, answer, caller.denied)
        return respond(send, status_of(code, self._server.revision), answer)

    async def _wait(
        self, session: Session, exchange: Exchange, id: Id | None, caller: Caller, receive: Receive, send: Send
    ) -> None:
        self._open[session] = asyncio.current_task()
        client = leaving(receive)
        client.add_done_callback(exchange.left)
        try:
            await exchange.begun(self._silence.seconds)
            if exchange.is_over and exchange.stream is None:
                if exchange.answer is not None:
                    await self._respond(exchange.answer, exchange.code, caller, send)
                elif not client.done():
                    await turn_away(send, Turned(503, "the server has ended", INTERNAL_ERROR), id)
            else:
                await send_stream(exchange.streaming(), client, send, self._silence)
        finally:
            client.remove_done_callback(exchange.left)
            client.cancel()
            self._open.pop(session)
            await session.stop()

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

    def _check_arguments(self, headers: Headers, params: Any) -> Turned | None:
        """What is wrong with the headers that repeat arguments of a call, if something is."""
        paths = self._paths.get(str(params.get("name"))) if params else None
        if not paths:
            return None
        fault = check_repeated(headers, params.get("arguments"), paths)
        code = int(self._server.revision.constants.get("HEADER_MISMATCH", INVALID_REQUEST))
        return None if fault is None else Turned(400, fault, code)

    async def _learn(self) -> None:
        """Find out which arguments of which tool are repeated, if it is not known any more."""
        schemas, now = self._server.revision.http.schemas, self._loop.time()
        if schemas is not None:
            self._paths = await self._read_paths(schemas, await self._life.state())
        self._known_until = now + _KNOWN_FOR

    async def _read_paths(self, row: Request[Any], state: Any) -> dict[str, Paths]:
        """Which arguments of which tool are repeated, from the server's own list of them, page by page."""
        found: dict[str, Paths] = {}
        meta: dict[str, Any] = {f"{META}protocolVersion": self._server.revision.id, f"{META}clientCapabilities": {}}
        params: dict[str, Any] = {"_meta": meta}
        for _ in range(_MOST_PAGES):
            page = await self._ask(RequestMessage(0, row.method, params), state)
            for items in page.values():
                for item in items if is_list(items) else ():
                    if is_object(item) and "inputSchema" in item and (paths := _repeated(item)):
                        found[str(item.get("name"))] = paths
            if page.get("nextCursor") is None:
                break
            params = {"_meta": meta, "cursor": page["nextCursor"]}
        return found

    async def _ask(self, message: RequestMessage, state: Any) -> dict[str, Any]:
        """What the server itself answers; nothing where it refuses."""
        conversation = Conversation(self._servers, self._server, state)
        session = Session(self._template.alike(), _Nowhere(), conversation.handle)
        exchange = Exchange(session, NOBODY, _open)
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
