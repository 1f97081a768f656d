"""A request that belongs to no session goes in, and its answer is sent, as one body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json

from ..auth.resource.caller import NOBODY, Caller
from ..eager import Begun
from ..exchange import log
from ..http.headers import Headers, Turned
from ..http.rules import check_repeated, repeated, status_of
from ..jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Id, RequestMessage
from ..outcomes import hear
from ..peer import Asked, Event, Peer, Refused, Told
from ..spec import META, Request
from ..transports.http.exchange import LoneExchange, Posted
from ..transports.http.silence import Silence
from ..transports.http.wire import Receive, Send, Sending, leaving, respond, send_stream, turn_away
from ..wire import is_list, is_object
from .conversation import Conversation
from .lives import Life
from .server import BaseServer

_KNOWN_FOR: Final = 5.0  # Seconds for which the arguments that headers repeat are not asked for again.
_DRAIN: Final = 0.5  # Seconds for answers, once the server is to end.
_CANCEL: Final = 0.4  # And again for handlers to take note that they are cancelled.
_MOST_PAGES: Final = 100

Paths = Mapping[str, tuple[str, ...]]


class Single:
    """A server of one revision without sessions, for any number of clients."""

    def __init__(self, server: BaseServer, servers: Sequence[BaseServer], life: Life, silence: Silence) -> None:
        self._server = server
        self._servers = servers
        self._life = life
        self._silence = silence
        self._peer = Peer(server.revision, "server", own=server.capabilities)
        self._peer.in_flight = None  # It is that of all clients.
        self._conversation: Conversation | None = None
        self._loop: asyncio.AbstractEventLoop
        self._open: dict[LoneExchange, asyncio.Task[None]] = {}  # And who sends what they say.
        calls = server.revision.http.arguments
        self._calls = None if calls is None else calls.method
        self._paths: dict[str, Paths] = {}
        self._known_until = float("-inf")

    def serve(self, posted: Posted) -> Sending:
        """Answer what was posted. A client that leaves cancels its request."""
        message, head, caller, receive, send = posted
        if self._conversation is None:
            return self._serve_after(self._begin(), posted)
        if isinstance(message, RequestMessage) and message.method == self._calls:
            if self._loop.time() > self._known_until:
                return self._serve_after(self._learn(), posted)
            if self._paths and (turned := self._check_arguments(head.headers, message.params)) is not None:
                return turn_away(send, turned, message.id)
        event, exchange = self._peer.take(message), LoneExchange(self._peer, caller)
        if not isinstance(event, Asked):
            return self._note(event, exchange, send)
        if not head.plain:
            exchange.streaming()
        work = self._conversation.handle(exchange, event)
        try:
            waits_for = work.send(None)
        except StopIteration as end:
            exchange.settle(event, end.value)
        except (Exception, asyncio.CancelledError) as fault:
            exchange.fail(event, fault)
        else:
            return self._serve(exchange, event, Begun(work, waits_for), receive, send)
        if exchange.answer is None:  # It is in a stream.
            return self._send(exchange, event.id, receive, send)
        if exchange.code:
            return self._respond(exchange.answer, exchange.code, caller, send)
        return respond(send, 200, exchange.answer)

    async def _serve_after(self, needed: Awaitable[Any], posted: Posted) -> None:
        await needed
        serving = self.serve(posted)
        del posted
        await serving

    async def _begin(self) -> Conversation:
        """The conversation that all requests are of."""
        state = await self._life.state()
        if self._conversation is None:
            self._conversation = Conversation(self._servers, self._server, state)
            self._conversation.sign(self._peer)
            self._loop = asyncio.get_running_loop()
        return self._conversation

    def _note(self, event: Event, exchange: LoneExchange, send: Send) -> Sending:
        """Let a notification be handled, or turn away what cannot be understood."""
        if isinstance(event, Refused) and event.reply is not None:
            return self._respond(event.reply, event.code, exchange.caller, send)
        if isinstance(event, Told) and (conversation := self._conversation) is not None:
            exchange.reply(None, 0)  # Nothing can be said to its sender.
            conversation.behind.add(self._loop.create_task(hear(event, conversation.handle(exchange, event))))
        return respond(send, 202)

    def _respond(self, answer: bytes, code: int, caller: Caller, send: Send) -> Sending:
        if code and caller.denied:
            return respond(send, 403, answer, caller.denied)
        return respond(send, status_of(code, self._server.revision), answer)

    async def _serve(
        self, exchange: LoneExchange, asked: Asked, work: Begun[Any], receive: Receive, send: Send
    ) -> None:
        """Serve a request whose handler waits: it goes on in the task in which it began, and what it says is sent meanwhile
        by another."""
        sending = self._open[exchange] = self._loop.create_task(self._send(exchange, asked.id, receive, send))
        try:
            await exchange.serve(asked, work)
            await sending
        finally:
            sending.cancel()
            del self._open[exchange]

    async def _send(self, exchange: LoneExchange, id: Id, receive: Receive, send: Send) -> None:
        """Send the answer once it is there, and what comes before it."""
        client = leaving(receive)
        client.add_done_callback(exchange.left)
        try:
            await exchange.begun(self._silence.seconds)
            if exchange.is_over and exchange.stream is None:
                if exchange.answer is not None:
                    await self._respond(exchange.answer, exchange.code, exchange.caller, send)
                elif not client.done():
                    await turn_away(send, Turned(503, "the server has ended", INTERNAL_ERROR), id)
            else:
                await send_stream(exchange.streaming(), client, send, self._silence)
        finally:
            client.remove_done_callback(exchange.left)
            client.cancel()
            if not exchange.is_over:
                exchange.left(client)

    async def close(self) -> None:
        """End what is being served: who listens is told, and the others get a moment to be answered, and another to take
        note that they are cancelled."""
        if self._conversation is not None:
            self._conversation.leave()
        await self._ended(_DRAIN)
        for exchange in self._open:
            exchange.cancel()
        await self._ended(_CANCEL)
        for exchange in self._open:
            exchange.left(self)
        if self._conversation is not None:
            await self._conversation.behind.end()

    async def _ended(self, patience: float) -> None:
        if self._open:
            await asyncio.wait(list(self._open.values()), timeout=patience)

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
        exchange, asked = LoneExchange(self._peer, NOBODY), self._peer.take(message)
        if isinstance(asked, Asked):
            await exchange.serve(asked, conversation.handle(exchange, asked))
        answer = from_json(exchange.answer) if exchange.answer is not None else None
        result = answer.get("result") if is_object(answer) else None
        return result if is_object(result) else {}


def _repeated(tool: dict[str, Any]) -> Paths:
    try:
        return repeated(tool["inputSchema"])
    except ValueError as fault:
        log.error("the tool %r cannot be called over HTTP: %s", tool.get("name"), fault)
        return {}
