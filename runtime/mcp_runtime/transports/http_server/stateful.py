"""HTTP requests that open a session or belong to one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ...aio.keepalive import KeepAliveTimer
from ...aio.lifespan import SharedLifespan
from ...aio.workers.threads import CALLER
from ...errors import JSONRPCError
from ...http.asgi import Receive, Send, Sending, disconnection, id_of, respond, send_error
from ...http.client_keys import ClientCounts, ClientKey, address_of
from ...http.headers import SESSION_ID, Headers, HTTPError, Raw
from ...http.server_rules import resume_position, retry_headers, status_of
from ...protocol.connection import Connection
from ...protocol.jsonrpc import INTERNAL_ERROR, Message, RequestMessage
from ...protocol.lifecycle import Phase
from ...session.identity import RequestAuth
from ...session.interfaces import Service
from ...session.running import IdleHandlers
from ...session.serving import handler_of, session_class
from ...session.session import Session
from .responders import IncomingPost, PostResponder, SessionResponder
from .sessions import SessionStore
from .stream_response import send_empty_stream, send_stream
from .streams import SSEStream

_SESSION: Final = SESSION_ID.encode()
_MAX_RUNNING: Final = 4096  # Requests of one user that wait for their results at the same time, in all sessions.
_MAX_RUNNING_OF_ADDRESS: Final = 16_384  # The same of one address without a user.
TOO_MANY: Final = HTTPError(
    503, "too many requests of this client run: wait for results first", INTERNAL_ERROR, retry_after=1
)
UNKNOWN_SESSION: Final = HTTPError(404, "there is no such session")


class StatefulHandler:
    """Serve the sessions of one endpoint; `servers` are those of the revisions with a handshake, oldest first."""

    def __init__(
        self,
        servers: Sequence[Service],
        lifespans: Mapping[int, SharedLifespan],
        sessions: SessionStore,
        keep_alive: KeepAliveTimer,
        responder_class: type[SessionResponder] = SessionResponder,
    ) -> None:
        self._servers = servers
        self._lifespans = lifespans
        self._sessions = sessions
        self._keep_alive = keep_alive
        self._responder_class = responder_class
        self._idle_handlers: IdleHandlers | None = None
        self._template: Connection | None = None
        self._counts = ClientCounts(_MAX_RUNNING, _MAX_RUNNING_OF_ADDRESS)

    async def open(self, post: IncomingPost) -> None:
        """Open a session with the newest server; end it at once if `initialize` fails."""
        message, _, auth, scope, _, send = post
        service = self._servers[-1]
        state = await self._lifespans[id(service.origin)].state()
        http_session = self._sessions.open(auth.owner, address_of(scope))
        if http_session is None:
            too_many = HTTPError(503, "there are too many sessions", INTERNAL_ERROR, retry_after=2)
            return await send_error(send, too_many, id_of(message))
        dispatcher = service.dispatcher(state)
        if self._template is None:
            self._template = service.connection()
            self._idle_handlers = IdleHandlers(asyncio.get_running_loop())
        connection = self._template.copy_for_new_connection()
        dispatcher.identify(http_session.id)
        http_session.on_end = dispatcher.detach
        make = session_class(dispatcher)
        handle, opening = handler_of(dispatcher), dispatcher.initialize
        session = make(connection, http_session, handle, opening, self._idle_handlers, auth)
        http_session.session = session
        dispatcher.attach(session)
        responder = self._dispatch(session, post, http_session.open_stream)
        headers: Raw = ((_SESSION, http_session.id.encode()),)
        if connection.phase is Phase.NEW:
            await self._sessions.end(http_session)
            headers = ()
        await self._respond(session, responder, post, headers)

    @property
    def session_count(self) -> int:
        """The number of sessions in the memory of this process."""
        return len(self._sessions)

    @property
    def running_count(self) -> int:
        """The number of requests that are being handled."""
        return self._counts.total

    def serve(self, post: IncomingPost) -> Sending:
        """Serve a POST that belongs to a session."""
        message, head, auth, _, _, send = post
        http_session = self._sessions.find(head.headers[SESSION_ID], auth.owner)
        if http_session is None:
            return send_error(send, UNKNOWN_SESSION, id_of(message))
        session = http_session.session
        assert session is not None, "an HTTP session gets its session when it is opened"
        is_crowded = self._counts.total >= _MAX_RUNNING and self._counts.is_full(http_session.client)
        if is_crowded and isinstance(message, (RequestMessage, list)):
            return send_error(send, TOO_MANY, id_of(message))
        responder = self._dispatch(session, post, http_session.open_stream)
        return self._respond(session, responder, post, client=http_session.client)

    def _is_crowded(self, client: ClientKey) -> bool:
        return self._counts.total >= _MAX_RUNNING and self._counts.is_full(client)

    async def listen(self, headers: Headers, auth: RequestAuth, receive: Receive, send: Send) -> Sending:
        """Return the response to a GET: send the standalone stream, or resume the stream that `Last-Event-ID` names."""
        http_session, position = self._sessions.find(headers[SESSION_ID], auth.owner), resume_position(headers)
        if http_session is None:
            return send_error(send, UNKNOWN_SESSION)
        if isinstance(position, HTTPError):
            return send_error(send, position)
        stream = http_session.listen() if position is None else http_session.resume(position[0])
        if stream is None:
            return send_error(send, HTTPError(400, "there is no such stream any more"))
        if stream.auth is not None and position is not None:
            try:
                auth.require_scopes(stream.auth.checked_scopes)
            except JSONRPCError as error:
                refusal = HTTPError(403, str(error), error.code, error.data)
                return send_error(send, refusal, headers=tuple(auth.challenge_headers))
        assert http_session.session is not None, "an HTTP session gets its session when it is opened"
        return self._send(stream, http_session.session, position[1] if position else None, auth, receive, send)

    def _send(
        self, stream: SSEStream, session: Session, after: int | None, auth: RequestAuth, receive: Receive, send: Send
    ) -> Sending:
        """Return the response that sends a stream after a message until the token expires."""
        return send_stream(
            stream,
            disconnection(receive, auth.expires_in),
            send,
            self._keep_alive,
            after=after,
            priming_event=session.connection.revision.http.priming_event,
            holds=True,
            max_seconds=auth.expires_in,
        )

    async def end(self, headers: Headers, auth: RequestAuth, send: Send) -> None:
        """Serve a DELETE: end the session."""
        http_session = self._sessions.find(headers[SESSION_ID], auth.owner)
        if http_session is None:
            return await send_error(send, UNKNOWN_SESSION)
        await self._sessions.end(http_session)
        await respond(send, 204)

    def hand_over(self) -> None:
        """Do nothing: the sessions of this process end with it."""

    async def close(self) -> None:
        """End all sessions."""
        await self._sessions.close()
        if self._idle_handlers is not None:
            await self._idle_handlers.close()

    def _dispatch(
        self, session: Session, post: IncomingPost, open_stream: Callable[[], SSEStream]
    ) -> PostResponder | None:
        """Let a session handle a posted message; return None if the message gets no response. `open_stream` is called
        if the response is a stream."""
        message, head, auth, scope, _, _ = post
        responder = self._responder_class(session, auth, open_stream, scope)
        if not head.accepts_json:
            responder.open_stream()
        token = CALLER.set(responder.client_key)
        try:
            event = session.connection.receive_message(message)
            return responder if session.handle_event(event, responder.reply, responder) else None
        finally:
            CALLER.reset(token)  # What the context of the request outlives has no reference to the responder.

    def _respond(
        self,
        session: Session,
        responder: PostResponder | None,
        post: IncomingPost,
        more: Raw = (),
        client: ClientKey | None = None,
    ) -> Sending:
        message, _, auth, _, _, send = post
        if responder is None:
            return respond(send, 202)
        if responder.response is None:
            if not responder.is_done and client is not None:
                self._counts.add(client)
                responder.on_done = partial(self._counts.remove, client)
            return self._respond_when_decided(session, responder, post, more)
        status = 200
        if responder.code:
            more = (*more, *auth.challenge_headers, *retry_headers(responder.code, responder.response))
            status = 403 if auth.challenge_headers else _status(responder.code, session, message)
        return respond(send, status, responder.response, more)

    def _respond_late(self, session: Session, responder: PostResponder, post: IncomingPost, more: Raw) -> Sending:
        """Return the response whose body is there only now."""
        return self._respond(session, responder, post, more)

    async def _respond_when_decided(
        self, session: Session, responder: PostResponder, post: IncomingPost, more: Raw
    ) -> None:
        """Wait until the response is a body or a stream, and send it."""
        await responder.wait_until_decided(self._keep_alive.seconds)
        if responder.response is not None:
            await self._respond_late(session, responder, post, more)
        elif responder.is_done and responder.stream is None:
            await _send_nothing(session, post)
        else:
            _, _, _, _, receive, send = post
            primed = session.connection.revision.http.priming_event
            client = disconnection(receive)
            await send_stream(responder.open_stream(), client, send, self._keep_alive, more=more, priming_event=primed)


def _status(code: int, session: Session, message: Message | list[Message]) -> int:
    """Return the HTTP status of an error response: 400 if the body was no JSON-RPC message."""
    revision = session.connection.revision
    readable = revision.batches if isinstance(message, list) else hasattr(message, "method")
    return status_of(code, revision) if readable else 400


async def _send_nothing(session: Session, post: IncomingPost) -> None:
    """End a request without a response: 404 if its session was ended, an empty stream if it was cancelled."""
    message, _, _, _, _, send = post
    if session.ended:
        return await send_error(send, HTTPError(404, session.transport.close_reason), id_of(message))
    await send_empty_stream(send)
