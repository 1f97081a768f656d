"""Servers go in, one for each revision they are to speak, and an ASGI application comes out: one endpoint for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..auth.resource.caller import NOBODY, Caller
from ..auth.resource.challenge import Denied
from ..eager import Starter
from ..errors import LocalError
from ..exchange import log
from ..framing import LIMIT
from ..http.headers import SESSION, Headers, Turned, is_visible
from ..http.heads import Head, Heads, length_of
from ..http.origins import Origins
from ..http.rules import Spoken, Way, check_alone, classify, resumes, status_of
from ..jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Message, decode
from ..lifecycle import Phase
from ..peer import Peer
from ..session import Session
from ..spec import Revision
from ..transports.http.arrivals import Arrivals
from ..transports.http.events import EventStore, MemoryEvents
from ..transports.http.exchange import Exchange, Related
from ..transports.http.sessions import HttpSession, Sessions
from ..transports.http.silence import KEEP_ALIVE, Silence
from ..transports.http.streams import Stream
from ..transports.http.wire import (
    Left,
    Raw,
    Receive,
    Scope,
    Send,
    announce,
    begin_stream,
    end_stream,
    id_of,
    leaving,
    path_of,
    respond,
    send_stream,
    turn_away,
)
from .conversation import Conversation
from .lives import Life
from .pair import Pairs
from .server import BaseServer
from .single import Single

if TYPE_CHECKING:
    from ..auth.resource.protection import Protection

_SESSION: Final = SESSION.encode()

Said = Message | list[Message]
Sending = Awaitable[None]  # What is left to do once a request is understood: while it lasts, only its own frame does.
Owner = Callable[[Mapping[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a client may ask of an endpoint: the length of a message in bytes, seconds for a request to arrive, open
    sessions, seconds a session may be idle, messages in a batch; and the seconds of silence on a stream after which a
    comment is sent, so that no proxy takes it for dead."""

    body: int = LIMIT
    arrival: float = 30.0
    sessions: int = 20_000
    idle: float = 1800.0
    batch: int = 100
    keep_alive: float = KEEP_ALIVE


def user_of(scope: Mapping[str, Any]) -> object:
    """Who made a request, as middleware for authentication leaves it in the scope; None for nobody."""
    user = scope.get("user")
    return getattr(user, "display_name", None) if getattr(user, "is_authenticated", False) else None


class HttpServer:
    """The application. It serves `path`, or whatever it is mounted at where `path` is None.

    With `legacy_sse` it also serves the older pair of endpoints, /sse and /messages, to clients that know no other.
    `hosts` and `origins` are what `http.origins.Origins` says; `owner` tells who made a request, and a session is
    found only by whom it was opened for. With `auth` every request needs a token that it takes, and who made it is
    the token's user; where the resource's metadata is served is said in `Protection`.
    """

    def __init__(
        self,
        servers: Sequence[BaseServer],
        *,
        path: str | None = None,
        hosts: Iterable[str] | None = None,
        origins: Iterable[str] | None = None,
        owner: Owner = user_of,
        auth: Protection | None = None,
        events: EventStore | None = None,
        limits: Limits = Limits(),  # noqa: B008
        legacy_sse: bool = False,
    ) -> None:
        if not servers:
            raise LocalError("an endpoint needs a server")
        self._path = path
        self._owner = owner
        self._limits = limits
        self._spoken = Spoken.of({each.revision.id: each.revision for each in servers})
        announced = any(each.revision.http.resource_metadata for each in servers)
        self._gate = None if auth is None else auth.gate(path is None, announced)
        self._heads = Heads(Origins.of(hosts, origins), self._spoken)
        self._silence = Silence(limits.keep_alive)
        self._arrivals = Arrivals(limits.body, limits.arrival)
        self._shaking = [each for each in servers if each.revision.id in self._spoken.shaking]
        self._singles = {
            each.revision.id: Single(each, servers, self._silence)
            for each in servers
            if each.revision.id in self._spoken.stateless
        }
        self._lives = {id(each.source): Life(each.source.lifespan) for each in servers}
        self._sessions = Sessions(events or MemoryEvents(), limits.sessions, limits.idle)
        self._pairs = Pairs(self._shaking, "/sse", "/messages", limits.sessions, self._silence) if legacy_sse else None
        self._starter: Starter | None = None
        self._template: Peer | None = None
        self._leaving = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3."""
        match scope["type"]:
            case "http":
                try:
                    answer = await self._serve(scope, receive, send)
                    await answer  # By now nothing of the request is held any more but what this needs.
                except Left:
                    log.debug("a client left before its request was there")
            case "lifespan":
                await self._live(receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1000})

    async def close(self) -> None:
        """End every stream and session, then the lifespans of the servers."""
        self._leaving = True
        for single in self._singles.values():
            await single.close()
        await self._sessions.close()
        if self._pairs is not None:
            await self._pairs.close()
        if self._starter is not None:
            await self._starter.close()
        for life in self._lives.values():
            await life.end()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    for life in self._lives.values():
                        await life.state()
                except Exception as fault:
                    log.exception("the lifespan of a server failed")
                    await send({"type": "lifespan.startup.failed", "message": type(fault).__name__})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    # ---- one request --------------------------------------------------------------------------------------------------

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> Sending:
        method: str = scope["method"]
        path = path_of(scope)
        head = self._heads.read(method, scope["headers"])
        if head.stranger is not None:
            return turn_away(send, head.stranger)
        if self._gate is not None and self._gate.announces(path, self._path):
            return announce(send, method, self._gate.document)
        pairs = self._pairs if self._pairs is not None and self._pairs.serves(path) else None
        if pairs is None and self._path not in (None, path):
            return turn_away(send, Turned(404, "there is nothing here"))
        caller = await self._caller(scope, head, pairs is None)
        if isinstance(caller, Denied):
            code = INTERNAL_ERROR if caller.status == 503 else INVALID_REQUEST
            return turn_away(send, Turned(caller.status, caller.why, code), more=caller.headers)
        if pairs is not None:
            return pairs.serve(scope, head.headers, caller, self._arrivals, receive, send)
        if head.turned is not None:
            allow = [(b"allow", self._spoken.methods.encode())] if head.turned.status == 405 else []
            return turn_away(send, head.turned, more=allow)
        if method == "POST":
            return await self._post(caller, head, scope["headers"], receive, send)
        found = self._find(caller, head.headers)
        if isinstance(found, Turned):
            return turn_away(send, found)
        if method == "GET":
            return self._listen(found, caller, head.headers, receive, send)
        await self._sessions.end(found)
        return respond(send, 204)

    async def _caller(self, scope: Scope, head: Head, at_resource: bool) -> Caller | Denied:
        """Who made a request, by its token where the endpoint is protected."""
        if self._gate is None:
            owner = self._owner(scope)
            return NOBODY if owner is None else Caller(None, owner=owner)
        path = None if at_resource else scope["path"]
        return await self._gate.judge(head.headers, scope["method"], path, scope.get("query_string", b""))

    def _find(self, caller: Caller, headers: Headers) -> HttpSession | Turned:
        id = headers[SESSION]
        found = self._sessions.find(id, caller.owner) if is_visible(id) else None
        return found or Turned(404, "there is no such session")

    async def _post(self, caller: Caller, head: Head, raw: Any, receive: Receive, send: Send) -> Sending:
        length = length_of(raw, self._limits.body)
        body = length if isinstance(length, Turned) else await self._arrivals.body(receive)
        if isinstance(body, Turned):
            return turn_away(send, body)
        message = decode(body)
        way = classify(head.headers, message, self._spoken)
        if isinstance(message, list) and len(message) > self._limits.batch:
            way = Turned(413, f"a batch has at most {self._limits.batch} messages")
        if self._leaving:
            way = Turned(503, "the server is about to end", INTERNAL_ERROR)
        match way:
            case Turned():
                null = next(iter(self._spoken.shaking.values())).null_ids if self._spoken.shaking else False
                return turn_away(send, way, id_of(message), null)
            case Way.ALONE:
                return await self._post_alone(caller, head, message, receive, send)
            case Way.OPENING:
                return await self._open(caller, head, message, receive, send)
            case Way.SESSION:
                found = self._find(caller, head.headers)
                if isinstance(found, Turned):
                    return turn_away(send, found, id_of(message))
                return await self._post_to(found, caller, head, message, receive, send)

    # ---- with a session -----------------------------------------------------------------------------------------------

    async def _open(self, caller: Caller, head: Head, message: Said, receive: Receive, send: Send) -> Sending:
        """Open a session; one whose opening is refused ends at once."""
        chosen = self._shaking[-1]
        state = await self._lives[id(chosen.source)].state()
        opened = self._sessions.open(caller.owner)
        if opened is None:
            return turn_away(send, Turned(503, "there are too many sessions", INTERNAL_ERROR), id_of(message))
        conversation = Conversation(self._shaking, chosen, state)
        if self._template is None:
            self._template = Peer(chosen.revision, "server", own=chosen.capabilities)
            self._starter = Starter(asyncio.get_running_loop())
        peer = self._template.alike()
        opened.on_end = conversation.leave
        opened.session = Session(peer, opened, conversation.handle, conversation.opened, self._starter, caller)
        conversation.attend(opened.session)
        return await self._post_to(opened, caller, head, message, receive, send, [(_SESSION, opened.id.encode())])

    async def _post_to(
        self,
        found: HttpSession,
        caller: Caller,
        head: Head,
        message: Said,
        receive: Receive,
        send: Send,
        more: Raw = (),
    ) -> Sending:
        session = found.session
        assert session is not None, "a session is opened together with its conversation"
        exchange = Exchange(found.open)
        if not head.plain:
            exchange.streaming()
        due = session.act(session.peer.take(message), exchange.reply, Related(session, exchange, caller))
        if session.peer.phase is Phase.NEW:
            await self._sessions.end(found)
            more = ()
        if not due:
            return respond(send, 202)
        if not exchange.is_over:
            await exchange.begun(self._limits.keep_alive)
        revision = session.peer.revision
        if exchange.is_over and exchange.stream is None and exchange.answer is not None:
            if exchange.code and caller.denied:
                return respond(send, 403, exchange.answer, (*more, *caller.denied))
            status = self._status(exchange.code, message, revision) if exchange.code else 200
            return respond(send, status, exchange.answer, more)
        if exchange.is_over and exchange.stream is None:
            return self._send_nothing(session, message, send)
        return self._stream(exchange.streaming(), receive, send, more, primed=revision.http.primed)

    async def _send_nothing(self, session: Session, message: Said, send: Send) -> None:
        """End the request of which nothing came: its session was ended, or it was cancelled, and wants no answer."""
        if session.ended:
            return await turn_away(send, Turned(404, session.transport.ending), id_of(message))
        await begin_stream(send)
        await end_stream(send)

    def _status(self, code: int, message: Said, revision: Revision) -> int:
        """What is no message at all is a bad request; other errors have no status of their own in a session."""
        readable = revision.batches if isinstance(message, list) else hasattr(message, "method")
        return status_of(code, revision) if readable else 400

    def _listen(self, found: HttpSession, caller: Caller, headers: Headers, receive: Receive, send: Send) -> Sending:
        """Send what belongs to no exchange, or go on with the stream that was interrupted."""
        wanted = resumes(headers)
        if isinstance(wanted, Turned):
            return turn_away(send, wanted)
        stream = found.standing if wanted is None else found.stream(wanted[0])
        if stream is None:
            return turn_away(send, Turned(400, "there is no such stream any more"))
        session = found.session
        primed = session is not None and session.peer.revision.http.primed
        after = wanted[1] if wanted else None
        return self._stream(stream, receive, send, after=after, primed=primed, longest=caller.lasts)

    def _stream(
        self,
        stream: Stream,
        receive: Receive,
        send: Send,
        more: Raw = (),
        after: int | None = None,
        primed: bool = False,
        longest: float | None = None,
    ) -> Sending:
        client = leaving(receive, longest)
        return send_stream(stream, client, send, self._silence, more=more, after=after, primed=primed)

    # ---- without a session --------------------------------------------------------------------------------------------

    async def _post_alone(self, caller: Caller, head: Head, message: Said, receive: Receive, send: Send) -> Sending:
        revision = check_alone(head.headers, message, self._spoken)
        if isinstance(revision, Turned):
            return turn_away(send, revision, id_of(message))
        single = self._singles[revision.id]
        state = await self._lives[id(single.server.source)].state()
        turned = await single.check_arguments(head.headers, message, state)
        if turned is not None:
            return turn_away(send, turned, id_of(message))
        return single.serve(message, state, head.plain, caller, receive, send)
