"""HTTP requests that open a session or belong to one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Final

from ...aio.tasks import SharedLifespan, TaskStarter, task_starter
from ...aio.threads import CALLER
from ...errors import JSONRPCError
from ...http.asgi import Receive, RefusedRequestError, Send, disconnection, id_of, respond, send_error
from ...http.clients import ClientCounts, ClientKey, address_of
from ...http.headers import PROTOCOL_VERSION, SESSION_ID, Headers, HTTPError, Raw
from ...http.server_rules import resume_position, retry_headers, status_of
from ...protocol.jsonrpc import Message, RequestMessage
from ...protocol.lifecycle import Phase
from ...session.instruments import instruments
from ...session.interfaces import RequestAuth, Service
from ...session.session import Session
from .events import InMemoryEventStore
from .responses import TOO_MANY, IncomingPost, PostResponder, SessionResponder
from .sessions import HTTPSession, SessionDirectory, SessionFactory
from .streams import KeepAliveTimer, SSEStream, send_empty_stream, send_stream

_SESSION: Final = SESSION_ID.encode()
_MAX_RUNNING: Final = 4096  # Requests of one user that wait for their results at the same time, in all sessions.
_MAX_RUNNING_OF_ADDRESS: Final = 16_384  # The same of one address without a user.
_UNKNOWN_SESSION: Final = HTTPError(404, "there is no such session")
_NO_STREAM: Final = HTTPError(400, "there is no such stream any more")
_POST_ONLY: Final = HTTPError(405, "this endpoint has no sessions (stateless_http), and allows only POST")


class PostHandler:
    """Passes a POST to a session, and sends what the session answers."""

    def __init__(self, keep_alive: KeepAliveTimer, responder_class: type[SessionResponder]) -> None:
        self._keep_alive = keep_alive
        self._responder_class = responder_class
        self._counts = ClientCounts(_MAX_RUNNING, _MAX_RUNNING_OF_ADDRESS)

    @property
    def running_count(self) -> int:
        """The number of requests that are being handled."""
        return self._counts.total

    def _dispatch(self, http_session: HTTPSession, post: IncomingPost) -> PostResponder | None:
        """Let a session handle a posted message; return None if the message gets no response."""
        session = http_session.session
        assert session is not None, "an HTTP session gets its session when it is opened"
        responder = self._responder_class(session, http_session, post)
        if not post.head.accepts_json:
            responder.open_stream()
        token = CALLER.set(responder.client_key)
        try:
            event = session.connection.receive_message(post.message)
            return responder if session.handle_event(event, responder.reply, responder) else None
        finally:
            CALLER.reset(token)  # What the context of the request outlives has no reference to the responder.

    async def _respond(
        self,
        http_session: HTTPSession,
        responder: PostResponder | None,
        post: IncomingPost,
        more: Raw = (),
        client: ClientKey | None = None,
    ) -> None:
        """Send the response to a POST, when it is there."""
        session = http_session.session
        assert session is not None, "an HTTP session gets its session when it is opened"
        if responder is not None and responder.response is None:
            if not responder.is_done and client is not None:
                self._counts.add(client)
                responder.on_done = partial(self._counts.remove, client)
            await responder.wait_until_decided(self._keep_alive.seconds)
        if responder is None or responder.response is not None:
            if http_session.is_shared:  # The client can send its next request to any worker.
                await http_session.save()
            await _send_body(session, responder, post, more)
        elif responder.is_done and responder.stream is None:
            await _send_nothing(session, post)
        else:
            primed = session.connection.revision.http.priming_event
            gone = disconnection(post.receive)
            stream = responder.open_stream()
            await send_stream(stream, gone, post.send, self._keep_alive, more=more, priming_event=primed)


def _send_body(session: Session, responder: PostResponder | None, post: IncomingPost, more: Raw) -> Awaitable[None]:
    """Send a response that is one body, or the one to a message without a response."""
    if responder is None or responder.response is None:
        return respond(post.send, 202)
    status = 200
    if responder.code:
        challenge = post.auth.challenge_headers
        more = (*more, *challenge, *retry_headers(responder.code, responder.response))
        status = 403 if challenge else _status(responder.code, session, post.message)
    return respond(post.send, status, responder.response, more)


def _status(code: int, session: Session, message: Message | list[Message]) -> int:
    """Return the HTTP status of an error response: 400 if the body was not a JSON-RPC message."""
    revision = session.connection.revision
    readable = revision.batches if isinstance(message, list) else hasattr(message, "method")
    return status_of(code, revision) if readable else 400


async def _send_nothing(session: Session, post: IncomingPost) -> None:
    """End a request without a response: 404 if its session was ended, an empty stream if it was cancelled."""
    if session.ended:
        return await send_error(post.send, HTTPError(404, session.transport.close_reason), id_of(post.message))
    await send_empty_stream(post.send)


class StatefulHandler(PostHandler):
    """Serve the sessions of one endpoint, wherever they are."""

    def __init__(
        self,
        factory: SessionFactory,
        directory: SessionDirectory,
        keep_alive: KeepAliveTimer,
        responder_class: type[SessionResponder] = SessionResponder,
    ) -> None:
        super().__init__(keep_alive, responder_class)
        self._factory = factory
        self._directory = directory

    @property
    def session_count(self) -> int:
        """The number of sessions in the memory of this process."""
        return self._directory.count

    async def open(self, post: IncomingPost) -> None:
        """Open a session with the newest server; end it at once if `initialize` fails. Raises RefusedRequestError."""
        http_session = await self._directory.create(post.auth, address_of(post.scope))
        responder = self._dispatch(http_session, post)
        headers: Raw = ((_SESSION, http_session.id.encode()),)
        if responder is not None and responder.response is None:
            await responder.wait_until_decided(self._keep_alive.seconds)  # Middleware may refuse the session.
        if http_session.is_initialized and not (responder is not None and responder.code):
            await self._directory.begin(http_session)
        else:
            await self._directory.end(http_session)
            headers = ()
        await self._respond(http_session, responder, post, headers)

    async def serve(self, post: IncomingPost) -> None:
        """Serve a POST that belongs to a session. Raises RefusedRequestError."""
        message, id, http_session = post.message, post.head.headers[SESSION_ID], None
        if isinstance(message, RequestMessage):
            http_session = self._directory.current(id, post.auth.owner)
        if http_session is None:
            http_session = await self._directory.find(id, post.auth, address_of(post.scope))
        if http_session is None:
            raise RefusedRequestError(_UNKNOWN_SESSION)
        if self._counts.total >= _MAX_RUNNING and isinstance(message, (RequestMessage, list)):
            if self._counts.is_full(http_session.client):
                raise RefusedRequestError(TOO_MANY)
        if not isinstance(message, RequestMessage):
            rest = await self._directory.forward(http_session, message)
            if rest is None:
                return await respond(post.send, 202)
            post.message = rest
        responder = self._dispatch(http_session, post)
        await self._respond(http_session, responder, post, client=http_session.client)

    async def listen(self, headers: Headers, auth: RequestAuth, receive: Receive, send: Send) -> None:
        """Serve a GET: send the standalone stream, or resume the stream that `Last-Event-ID` names. Raises
        RefusedRequestError."""
        http_session = await self._find(headers, auth)
        position = resume_position(headers)
        if isinstance(position, HTTPError):
            raise RefusedRequestError(position)
        stream = await self._directory.stream(http_session, None if position is None else position[0])
        if stream is None:
            raise RefusedRequestError(_NO_STREAM)
        try:
            auth.require_scopes(await stream.required_scopes())
        except JSONRPCError as error:
            refusal = HTTPError(403, str(error), error.code, error.data)
            raise RefusedRequestError(refusal, tuple(auth.challenge_headers)) from None
        after = await self._directory.claim(http_session, stream, position)
        if position is not None:
            instruments().counted("resumed", {})
        # No await until the connection is attached: the next one would be replaced by this one.
        await self._send(stream, http_session, after, auth, receive, send)

    async def _send(
        self,
        stream: SSEStream,
        http_session: HTTPSession,
        after: int | None,
        auth: RequestAuth,
        receive: Receive,
        send: Send,
    ) -> None:
        """Send a stream after a message until the token expires."""
        assert http_session.session is not None, "an HTTP session gets its session when it is opened"
        await send_stream(
            stream,
            disconnection(receive, auth.expires_in),
            send,
            self._keep_alive,
            after=after,
            priming_event=http_session.session.connection.revision.http.priming_event,
            holds=True,
            max_seconds=auth.expires_in,
        )

    async def end(self, headers: Headers, auth: RequestAuth, send: Send) -> None:
        """Serve a DELETE: end the session. Raises RefusedRequestError."""
        await self._directory.end(await self._find(headers, auth))
        await respond(send, 204)

    async def _find(self, headers: Headers, auth: RequestAuth) -> HTTPSession:
        http_session = await self._directory.find(headers[SESSION_ID], auth)
        if http_session is None:
            raise RefusedRequestError(_UNKNOWN_SESSION)
        return http_session

    def hand_over(self) -> None:
        """Close the streams that other workers can go on with."""
        self._directory.hand_over()

    async def close(self) -> None:
        """End what this process serves."""
        await self._directory.close()
        await self._factory.close()


# HTTP requests of revisions with a handshake, served without sessions: any process can serve any request.


class SessionlessHandler(PostHandler):
    """Serve requests without a session. A handshake changes nothing, and handlers cannot send requests to clients."""

    session_count = 0

    def __init__(
        self,
        servers: Sequence[Service],
        lifespans: Mapping[int, SharedLifespan],
        keep_alive: KeepAliveTimer,
        responder_class: type[SessionResponder] = SessionResponder,
    ) -> None:
        """`servers` are those of the revisions with a handshake, oldest first."""
        super().__init__(keep_alive, responder_class)
        self._servers = servers
        self._lifespans = lifespans
        self._events = InMemoryEventStore()
        self._starter: TaskStarter | None = None

    async def serve(self, post: IncomingPost) -> None:
        """Serve a POST with a session that ends with its response, in the version that its header names.

        Without the header that is the oldest version with Streamable HTTP, or the oldest that is served:
        https://modelcontextprotocol.io/specification/draft/basic/transports
        """
        await self._serve_one(post, None)

    async def open(self, post: IncomingPost) -> None:
        """Serve an `initialize` request: its response has no session id."""
        await self._serve_one(post, Phase.NEW)

    async def listen(self, headers: Headers, auth: RequestAuth, receive: Receive, send: Send) -> None:
        """Refuse a GET."""
        raise RefusedRequestError(_POST_ONLY, ((b"allow", b"POST"),))

    async def end(self, headers: Headers, auth: RequestAuth, send: Send) -> None:
        """Refuse a DELETE."""
        raise RefusedRequestError(_POST_ONLY, ((b"allow", b"POST"),))

    async def _serve_one(self, post: IncomingPost, phase: Phase | None) -> None:
        auth = post.auth
        named = post.head.headers.get(PROTOCOL_VERSION)
        default = self._servers[-1] if phase is Phase.NEW else self._servers[min(1, len(self._servers) - 1)]
        service = next((server for server in self._servers if server.revision.id == named), default)
        dispatcher = service.dispatcher(await self._lifespans[id(service.origin)].state())
        dispatcher.identify(None)
        connection = service.connection()
        if phase is None:
            connection.enter_phase(Phase.OPEN)
        if self._starter is None:
            self._starter = task_starter(asyncio.get_running_loop())
        http_session = HTTPSession(auth.owner, self._events)
        http_session.dispatcher = dispatcher
        handle, opening = dispatcher.handle, dispatcher.initialize
        session = Session(connection, http_session, handle, opening, self._starter, auth)
        http_session.session = session
        dispatcher.attach(session)
        try:
            await self._respond(http_session, self._dispatch(http_session, post), post)
        finally:
            await http_session.end()

    def hand_over(self) -> None:
        """Do nothing: there are no streams to go on with."""

    async def close(self) -> None:
        """End what serves requests."""
        if self._starter is not None:
            await self._starter.close()
