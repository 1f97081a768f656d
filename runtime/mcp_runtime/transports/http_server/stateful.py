"""A request that belongs to a session goes in, or opens one, and its answer is sent, as one body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from ...aio.eager import TaskStarter, task_starter
from ...aio.keepalive import KeepAliveTimer
from ...aio.lifespan import SharedLifespan
from ...http.asgi import (
    Receive,
    Send,
    Sending,
    disconnect_task,
    id_of,
    respond,
    send_error,
)
from ...http.headers import SESSION_ID, Headers, HTTPError, Raw
from ...http.server_rules import resume_position, status_of
from ...protocol.connection import Connection
from ...protocol.jsonrpc import INTERNAL_ERROR, Message
from ...protocol.lifecycle import Phase
from ...session.identity import RequestAuth
from ...session.interfaces import Service
from ...session.session import Session
from .responders import IncomingPost, PostResponder, SessionResponder
from .sessions import HTTPSession, SessionStore
from .stream_response import begin_stream, end_stream, send_stream

_SESSION: Final = SESSION_ID.encode()
_UNKNOWN_SESSION: Final = HTTPError(404, "there is no such session")


class StatefulHandler:
    """The servers of one endpoint whose conversations begin with a handshake, oldest revision first, for any number of
    clients, each in a session of its own."""

    def __init__(
        self,
        servers: Sequence[Service],
        lifespans: Mapping[int, SharedLifespan],
        sessions: SessionStore,
        keep_alive: KeepAliveTimer,
    ) -> None:
        self._servers = servers
        self._lifespans = lifespans
        self._sessions = sessions
        self._keep_alive = keep_alive
        self._starter: TaskStarter | None = None
        self._template: Connection | None = None

    async def open(self, post: IncomingPost) -> None:
        """Open a session; one whose opening is refused ends at once."""
        message, _, auth, _, send = post
        chosen = self._servers[-1]
        state = await self._lifespans[id(chosen.origin)].state()
        opened = self._sessions.open(auth.owner)
        if opened is None:
            too_many = HTTPError(503, "there are too many sessions", INTERNAL_ERROR)
            return await send_error(send, too_many, id_of(message))
        conversation = chosen.dispatcher(state)
        if self._template is None:
            self._template = Connection(chosen.revision, "server", local_capabilities=chosen.capabilities)
            self._starter = task_starter(asyncio.get_running_loop())
        peer = self._template.copy_for_new_connection()
        opened.on_end = conversation.detach
        session = Session(peer, opened, conversation.handle, conversation.initialize, self._starter, auth)
        opened.session = session
        conversation.attach(session)
        exchange = _dispatch(session, post, opened)
        named: Raw = ((_SESSION, opened.id.encode()),)
        if peer.phase is Phase.NEW:
            await self._sessions.end(opened)
            named = ()
        await self._respond(session, exchange, post, named)

    def serve(self, post: IncomingPost) -> Sending:
        """Answer what belongs to a session that was opened before."""
        message, head, auth, _, send = post
        found = self._sessions.find(head.headers[SESSION_ID], auth.owner)
        if found is None:
            return send_error(send, _UNKNOWN_SESSION, id_of(message))
        session = found.session
        assert session is not None, "a session is opened together with its conversation"
        return self._respond(session, _dispatch(session, post, found), post)

    def listen(self, headers: Headers, auth: RequestAuth, receive: Receive, send: Send) -> Sending:
        """Send what belongs to no exchange, or go on with the stream that was interrupted."""
        found, wanted = self._sessions.find(headers[SESSION_ID], auth.owner), resume_position(headers)
        if found is None:
            return send_error(send, _UNKNOWN_SESSION)
        if isinstance(wanted, HTTPError):
            return send_error(send, wanted)
        stream = found.standalone_stream if wanted is None else found.stream(wanted[0])
        if stream is None:
            return send_error(send, HTTPError(400, "there is no such stream any more"))
        session = found.session
        primed = session is not None and session.connection.revision.http.priming_event
        after = wanted[1] if wanted else None
        client = disconnect_task(receive, auth.expires_in)
        return send_stream(stream, client, send, self._keep_alive, after=after, priming_event=primed)

    async def end(self, headers: Headers, auth: RequestAuth, send: Send) -> None:
        """End a session."""
        found = self._sessions.find(headers[SESSION_ID], auth.owner)
        if found is None:
            return await send_error(send, _UNKNOWN_SESSION)
        await self._sessions.end(found)
        await respond(send, 204)

    async def close(self) -> None:
        """End all sessions."""
        await self._sessions.close()
        if self._starter is not None:
            await self._starter.close()

    def _respond(
        self, session: Session, responder: PostResponder | None, post: IncomingPost, more: Raw = ()
    ) -> Sending:
        message, _, auth, _, send = post
        if responder is None:
            return respond(send, 202)
        if responder.response is None:
            return self._respond_when_known(session, responder, post, more)
        status = 200
        if responder.code:
            more = (*more, *auth.challenge_headers)
            status = 403 if auth.challenge_headers else _status(responder.code, session, message)
        return respond(send, status, responder.response, more)

    async def _respond_when_known(
        self, session: Session, responder: PostResponder, post: IncomingPost, more: Raw
    ) -> None:
        """Answer as soon as it is known how: as one body, as a stream, or not at all."""
        await responder.wait_until_known(self._keep_alive.seconds)
        if responder.response is not None:
            await self._respond(session, responder, post, more)
        elif responder.is_done and responder.stream is None:
            await _send_nothing(session, post)
        else:
            _, _, _, receive, send = post
            primed = session.connection.revision.http.priming_event
            client = disconnect_task(receive)
            await send_stream(responder.open_stream(), client, send, self._keep_alive, more=more, priming_event=primed)


def _dispatch(session: Session, post: IncomingPost, http_session: HTTPSession) -> PostResponder | None:
    """Let a session have what was posted; None where it is not answered."""
    message, head, auth, _, _ = post
    exchange = SessionResponder(session, auth, http_session.open_stream)
    if not head.accepts_json:
        exchange.open_stream()
    return (
        exchange
        if session.handle_event(session.connection.receive_message(message), exchange.reply, exchange)
        else None
    )


def _status(code: int, session: Session, message: Message | list[Message]) -> int:
    """What is no message at all is a bad request; other errors have no status of their own in a session."""
    revision = session.connection.revision
    readable = revision.batches if isinstance(message, list) else hasattr(message, "method")
    return status_of(code, revision) if readable else 400


async def _send_nothing(session: Session, post: IncomingPost) -> None:
    """End the request of which nothing came: its session was ended, or it was cancelled, and wants no answer."""
    message, _, _, _, send = post
    if session.ended:
        return await send_error(send, HTTPError(404, session.transport.close_reason), id_of(message))
    await begin_stream(send)
    await end_stream(send)
