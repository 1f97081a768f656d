"""A request that belongs to a session goes in, or opens one, and its answer is sent, as one body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from ..auth.resource.caller import Caller
from ..eager import Starter
from ..http.headers import SESSION, Headers, Turned
from ..http.rules import resumes, status_of
from ..jsonrpc import INTERNAL_ERROR, Message
from ..lifecycle import Phase
from ..peer import Peer
from ..session import Session
from ..transports.http.exchange import Exchange, Posted, SessionExchange
from ..transports.http.sessions import HttpSession, Sessions
from ..transports.http.silence import Silence
from ..transports.http.wire import (
    Raw,
    Receive,
    Send,
    Sending,
    begin_stream,
    end_stream,
    id_of,
    leaving,
    respond,
    send_stream,
    turn_away,
)
from .conversation import Conversation
from .lives import Life
from .server import BaseServer

_SESSION: Final = SESSION.encode()
_UNKNOWN: Final = Turned(404, "there is no such session")


class Shaking:
    """The servers of one endpoint whose conversations begin with a handshake, oldest revision first, for any number of
    clients, each in a session of its own."""

    def __init__(
        self, servers: Sequence[BaseServer], lives: Mapping[int, Life], sessions: Sessions, silence: Silence
    ) -> None:
        self._servers = servers
        self._lives = lives
        self._sessions = sessions
        self._silence = silence
        self._starter: Starter | None = None
        self._template: Peer | None = None

    async def open(self, posted: Posted) -> None:
        """Open a session; one whose opening is refused ends at once."""
        message, _, caller, _, send = posted
        chosen = self._servers[-1]
        state = await self._lives[id(chosen.source)].state()
        opened = self._sessions.open(caller.owner)
        if opened is None:
            too_many = Turned(503, "there are too many sessions", INTERNAL_ERROR)
            return await turn_away(send, too_many, id_of(message))
        conversation = Conversation(self._servers, chosen, state)
        if self._template is None:
            self._template = Peer(chosen.revision, "server", own=chosen.capabilities)
            self._starter = Starter(asyncio.get_running_loop())
        peer = self._template.alike()
        opened.on_end = conversation.leave
        session = Session(peer, opened, conversation.handle, conversation.opened, self._starter, caller)
        opened.session = session
        conversation.attend(session)
        exchange = _act(session, posted, opened)
        named: Raw = ((_SESSION, opened.id.encode()),)
        if peer.phase is Phase.NEW:
            await self._sessions.end(opened)
            named = ()
        await self._answer(session, exchange, posted, named)

    def serve(self, posted: Posted) -> Sending:
        """Answer what belongs to a session that was opened before."""
        message, head, caller, _, send = posted
        found = self._sessions.find(head.headers[SESSION], caller.owner)
        if found is None:
            return turn_away(send, _UNKNOWN, id_of(message))
        session = found.session
        assert session is not None, "a session is opened together with its conversation"
        return self._answer(session, _act(session, posted, found), posted)

    def listen(self, headers: Headers, caller: Caller, receive: Receive, send: Send) -> Sending:
        """Send what belongs to no exchange, or go on with the stream that was interrupted."""
        found, wanted = self._sessions.find(headers[SESSION], caller.owner), resumes(headers)
        if found is None:
            return turn_away(send, _UNKNOWN)
        if isinstance(wanted, Turned):
            return turn_away(send, wanted)
        stream = found.standing if wanted is None else found.stream(wanted[0])
        if stream is None:
            return turn_away(send, Turned(400, "there is no such stream any more"))
        session = found.session
        primed = session is not None and session.peer.revision.http.primed
        after = wanted[1] if wanted else None
        client = leaving(receive, caller.lasts)
        return send_stream(stream, client, send, self._silence, after=after, primed=primed)

    async def end(self, headers: Headers, caller: Caller, send: Send) -> None:
        """End a session."""
        found = self._sessions.find(headers[SESSION], caller.owner)
        if found is None:
            return await turn_away(send, _UNKNOWN)
        await self._sessions.end(found)
        await respond(send, 204)

    async def close(self) -> None:
        """End all sessions."""
        await self._sessions.close()
        if self._starter is not None:
            await self._starter.close()

    def _answer(self, session: Session, exchange: Exchange | None, posted: Posted, more: Raw = ()) -> Sending:
        message, _, caller, _, send = posted
        if exchange is None:
            return respond(send, 202)
        if exchange.answer is None:
            return self._answer_later(session, exchange, posted, more)
        status = 200
        if exchange.code:
            more = (*more, *caller.denied)
            status = 403 if caller.denied else _status(exchange.code, session, message)
        return respond(send, status, exchange.answer, more)

    async def _answer_later(self, session: Session, exchange: Exchange, posted: Posted, more: Raw) -> None:
        """Answer as soon as it is known how: as one body, as a stream, or not at all."""
        await exchange.begun(self._silence.seconds)
        if exchange.answer is not None:
            await self._answer(session, exchange, posted, more)
        elif exchange.is_over and exchange.stream is None:
            await _send_nothing(session, posted)
        else:
            _, _, _, receive, send = posted
            primed = session.peer.revision.http.primed
            client = leaving(receive)
            await send_stream(exchange.streaming(), client, send, self._silence, more=more, primed=primed)


def _act(session: Session, posted: Posted, found: HttpSession) -> Exchange | None:
    """Let a session have what was posted; None where it is not answered."""
    message, head, caller, _, _ = posted
    exchange = SessionExchange(session, caller, found.open)
    if not head.plain:
        exchange.streaming()
    return exchange if session.act(session.peer.take(message), exchange.reply, exchange) else None


def _status(code: int, session: Session, message: Message | list[Message]) -> int:
    """What is no message at all is a bad request; other errors have no status of their own in a session."""
    revision = session.peer.revision
    readable = revision.batches if isinstance(message, list) else hasattr(message, "method")
    return status_of(code, revision) if readable else 400


async def _send_nothing(session: Session, posted: Posted) -> None:
    """End the request of which nothing came: its session was ended, or it was cancelled, and wants no answer."""
    message, _, _, _, send = posted
    if session.ended:
        return await turn_away(send, Turned(404, session.transport.ending), id_of(message))
    await begin_stream(send)
    await end_stream(send)
