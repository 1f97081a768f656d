"""Requests that open a session or belong to one, served by any worker."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from ...aio.keepalive import KeepAliveTimer
from ...aio.lifespan import SharedLifespan
from ...errors import JSONRPCError
from ...http.asgi import Receive, Send, Sending, id_of, respond, send_error
from ...http.client_keys import address_of, client_key
from ...http.headers import SESSION_ID, Headers, HTTPError, Raw
from ...http.server_rules import resume_position
from ...protocol.jsonrpc import RequestMessage
from ...protocol.lifecycle import Phase
from ...session.identity import RequestAuth
from ...session.interfaces import Service, SessionSharing
from ...session.running import IdleHandlers
from ...session.serving import handler_of
from ...session.session import Session
from ...stores.primitives import StoreUnavailableError
from ..http_server.responders import IncomingPost, PostResponder, SessionResponder
from ..http_server.sessions import SessionStore
from ..http_server.stateful import TOO_MANY, UNKNOWN_SESSION, StatefulHandler
from .change_log import ChangeLog
from .forwarding import MessageForwarding
from .local_replicas import Replicas
from .refusals import refuse
from .session_replicas import ReplicatedSession, SessionReplica
from .stored_streams import StoredStream
from .worker import RESTORE_PAUSE, Worker

_SESSION: Final = SESSION_ID.encode()
_EXPIRED: Final = "the session has expired, or was ended by another request"
_LEAVING: Final = "the server is shutting down: send the request again"
_TOGETHER: Final = 256  # Sessions that are stored again together.
_OTHERS_SECONDS: Final = 0.3  # Seconds after a loss for other workers to store again how far clients are.
_DIGITS: Final = 15  # Of the number of a change in `Last-Event-ID`, at most.
_NO_STREAM: Final = HTTPError(400, "there is no such stream any more")


class SharedStatefulHandler(StatefulHandler):
    """Serve the sessions of one endpoint, whose records and streams are in a store that all workers share."""

    def __init__(
        self,
        servers: Sequence[Service],
        lifespans: Mapping[int, SharedLifespan],
        sessions: SessionStore,
        keep_alive: KeepAliveTimer,
        responder_class: type[SessionResponder] = SessionResponder,
        *,
        worker: Worker,
        sharing: SessionSharing,
        changes: ChangeLog,
        idle: float,
        handshake: float,
        retry: int,
    ) -> None:
        """Create the handler; `idle` and `handshake` are the times to live of sessions, in seconds."""
        super().__init__(servers, lifespans, sessions, keep_alive, responder_class)
        self._worker = worker
        self._sharing = sharing
        self._changes = changes
        self._idle = idle
        self._handshake = handshake
        self._retry = retry
        self._replicas = Replicas(worker, idle, self._forget)
        self._forwarding = MessageForwarding(worker, self._replicas)
        worker.on("end", self._on_end)
        worker.on("unwritten", self._on_unwritten)
        worker.on("check", self._on_check)
        worker.on("state", self._on_state)
        worker.on_loss(self._restore)
        worker.on_loss(self._note_lost)

    @property
    def session_count(self) -> int:
        """The number of sessions in the memory of this worker."""
        return self._replicas.count

    async def open(self, post: IncomingPost) -> None:
        """Open a session with the newest server; end it at once if `initialize` fails."""
        message, _, auth, scope, _, send = post
        replica = self._new_replica(secrets.token_urlsafe(24), auth, scope)
        replica.first_change = self._changes.last
        try:
            responding = await self._open(replica, post)
        except StoreUnavailableError as error:
            self._forget(replica)
            return await refuse(send, error, id_of(message))
        await responding

    async def _open(self, replica: SessionReplica, post: IncomingPost) -> Sending:
        auth = post[2]
        session = await self._connect(replica, auth, None)
        assert session is not None, "a new session has a service"
        self._replicas.add(replica)
        responder = self._dispatch(session, post, partial(replica.open_response_stream, post[0]))
        headers: Raw = ((_SESSION, replica.id.encode()),)
        if session.connection.phase is Phase.NEW:
            await self._end(replica)
            headers = ()
        else:
            self._sharing.leave_bus(replica.dispatcher)
            await replica.save()
        return self._respond(session, responder, post, headers)

    def _new_replica(self, id: str, auth: RequestAuth, scope: Any) -> SessionReplica:
        client = client_key(auth.owner, address_of(scope))
        return SessionReplica(id, auth.owner, client, self._worker, self._idle, self._handshake, self._retry)

    async def _connect(
        self, replica: SessionReplica, auth: RequestAuth, state: Mapping[str, Any] | None
    ) -> ReplicatedSession | None:
        """Give a replica its session, in a state of the store if there is one; None if no server serves its version."""
        service = self._servers[-1]
        dispatcher = service.dispatcher(await self._lifespans[id(service.origin)].state())
        if self._template is None:
            self._template = service.connection()
            self._idle_handlers = IdleHandlers(asyncio.get_running_loop())
        connection = self._template.copy_for_new_connection()
        sharing = self._sharing
        if state is not None and not sharing.restore(dispatcher, connection, state):
            return None
        dispatcher.identify(replica.id)
        opening = dispatcher.initialize if state is None else None
        session = ReplicatedSession(connection, replica, handler_of(dispatcher), opening, self._idle_handlers, auth)
        replica.connect(sharing, dispatcher, session)
        dispatcher.attach(session)
        return session

    async def _find(self, headers: Headers, auth: RequestAuth, scope: Any = None) -> SessionReplica | None:
        """Return the session of a request with the state that the store has; None if there is no such session."""
        session_id = headers[SESSION_ID]
        replica = self._replicas.get(session_id)
        candidate = replica or self._new_replica(session_id, auth, scope)
        losses = self._worker.losses
        record = await candidate.read()
        while record is None and await self._worker.may_restore(losses):
            losses = self._worker.losses
            if not (self._worker.is_restoring and await candidate.restore()):
                await asyncio.sleep(RESTORE_PAUSE)  # Another worker may have the session.
                candidate = self._replicas.get(session_id) or self._new_replica(session_id, auth, scope)
            record = await candidate.read()
        if record is None:
            if replica is not None:
                replica.has_ended = True
                self._forget(replica)
            return None
        if replica is None and (replica := self._replicas.get(session_id)) is None:
            replica = candidate
            replica.load(record)
            if not replica.belongs_to(auth.owner):
                return None
            if await self._connect(replica, auth, replica.state) is None:
                return None
            replica = self._replicas.get(session_id) or replica
            self._replicas.add(replica)
        replica.load(record)
        return replica if replica.belongs_to(auth.owner) else None

    def serve(self, post: IncomingPost) -> Sending:
        """Serve a POST that belongs to a session."""
        message, head, auth, _, _, _ = post
        # Fast path: nobody has changed the session since this worker last served it, so that nothing is read.
        replica = self._replicas.get(head.headers[SESSION_ID])
        if replica is not None and isinstance(message, RequestMessage) and replica.is_current():
            if replica.belongs_to(auth.owner) and not self._is_crowded(replica.client):
                return self._serve_with(replica, post)
        return self._serve_read(post)

    async def _serve_read(self, post: IncomingPost) -> None:
        try:
            serving = await self._read_and_serve(post)
        except StoreUnavailableError as error:
            return await refuse(post[5], error, id_of(post[0]))
        await serving

    async def _read_and_serve(self, post: IncomingPost) -> Sending:
        message, head, auth, scope, _, send = post
        replica = await self._find(head.headers, auth, scope)
        if replica is None or replica.session is None:
            return send_error(send, UNKNOWN_SESSION, id_of(message))
        if isinstance(message, (RequestMessage, list)) and self._is_crowded(replica.client):
            return send_error(send, TOO_MANY, id_of(message))
        if not isinstance(message, RequestMessage):
            rest = await self._forwarding.forward(replica, message)
            if rest is None:
                return respond(send, 202)
            post = (rest, *post[1:])
        return self._serve_with(replica, post)

    def _serve_with(self, replica: SessionReplica, post: IncomingPost) -> Sending:
        session = replica.session
        assert session is not None, "it was looked for"
        responder = self._dispatch(session, post, partial(replica.open_response_stream, post[0]))
        if (responder is None or responder.response is not None) and replica.has_changed:
            return self._save_and_respond(session, responder, post)
        return self._respond(session, responder, post, client=replica.client)

    def _respond_late(self, session: Session, responder: PostResponder, post: IncomingPost, more: Raw) -> Sending:
        if session.transport.has_changed:
            return self._save_and_respond(session, responder, post, more)
        return self._respond(session, responder, post, more)

    async def _save_and_respond(
        self, session: Session, responder: PostResponder | None, post: IncomingPost, more: Raw = ()
    ) -> None:
        """Store the state before the client can send its next request, to any worker."""
        try:
            await session.transport.save()
        except StoreUnavailableError as error:
            return await refuse(post[5], error, id_of(post[0]))
        await self._respond(session, responder, post, more)

    # ---- streams -----------------------------------------------------------------------------------------------------

    async def listen(self, headers: Headers, auth: RequestAuth, receive: Receive, send: Send) -> Sending:
        """Return the response to a GET: send the standalone stream, or resume the one that `Last-Event-ID` names."""
        try:
            return await self._attach(headers, auth, receive, send)
        except StoreUnavailableError as error:
            return refuse(send, error)

    async def _attach(self, headers: Headers, auth: RequestAuth, receive: Receive, send: Send) -> Sending:
        position = resume_position(headers)
        replica = await self._find(headers, auth)
        if replica is None or replica.session is None:
            return send_error(send, UNKNOWN_SESSION)
        if isinstance(position, HTTPError):
            return send_error(send, position)
        name, after = ("", None) if position is None else position
        base, _, change = name.partition(".")
        if not base or base == replica.standalone_id:
            stream: StoredStream = replica.standalone_stream
            after = await self._listen(replica, after, change)
        elif (resumed := await replica.find_stream(name)) is None:
            return send_error(send, _NO_STREAM)
        else:
            stream = resumed
            if (refusal := await self._refusal(stream, auth)) is not None:
                return send_error(send, refusal, headers=tuple(auth.challenge_headers))
            await stream.take_over()
            stream.resume_after(after or 0)
        # No await from here until the connection is attached: the next one would be replaced by this one.
        return self._send(stream, replica.session, after, auth, receive, send)

    async def _listen(self, replica: SessionReplica, after: int | None, change: str) -> int:
        """Let a GET have the standalone stream from a position on: that of its header, or else the last one."""
        position = None
        if after is not None and change.isascii() and change.isdigit() and len(change) <= _DIGITS:
            position = (after, int(change))
        stream = replica.standalone_stream
        listener = stream.new_listener(self._changes, replica)
        await listener.take_over(position, replica.first_change)
        stream.listen(listener)
        return listener.number

    async def _refusal(self, stream: StoredStream, auth: RequestAuth) -> HTTPError | None:
        """Return the error if the token has not all scopes that the request of a stream has needed."""
        try:
            auth.require_scopes(await stream.required_scopes())
        except JSONRPCError as error:
            return HTTPError(403, str(error), error.code, error.data)
        return None

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def end(self, headers: Headers, auth: RequestAuth, send: Send) -> None:
        """Serve a DELETE: end the session at all workers."""
        try:
            replica = await self._find(headers, auth)
            if replica is not None:
                await self._end(replica)
        except StoreUnavailableError as error:
            return await refuse(send, error)
        await (send_error(send, UNKNOWN_SESSION) if replica is None else respond(send, 204))

    async def _end(self, replica: SessionReplica) -> None:
        store, worker = self._worker.store, self._worker
        await store.delete(replica.key)
        await store.report()
        await worker.deliver_to_all("end", session=replica.id)
        worker.spawn(store.drop(worker.stream_prefix + replica.standalone_id))
        worker.spawn(store.delete(worker.key("holder", replica.standalone_id)))
        self._replicas.remove(replica.id)
        await self._stop(replica, has_ended=True)

    async def _restore(self) -> None:
        """Store the sessions of this worker again, and what its streams need."""
        replicas = list(self._replicas)
        for first in range(0, len(replicas), _TOGETHER):
            await asyncio.gather(*(self._restore_session(one) for one in replicas[first : first + _TOGETHER]))

    async def _restore_session(self, replica: SessionReplica) -> None:
        await replica.restore()
        await replica.load_again()
        await replica.restore_streams()

    async def _note_lost(self) -> None:
        """Let the warning name the messages of sessions that the store has lost, which nobody had read."""
        written = [replica for replica in self._replicas if replica.has_unread]
        if written:
            await asyncio.sleep(_OTHERS_SECONDS)
        for first in range(0, len(written), _TOGETHER):
            together = written[first : first + _TOGETHER]
            for lost in await asyncio.gather(*(replica.lost_messages() for replica in together)):
                self._worker.note_lost(message.method for message in lost)

    def _on_end(self, fields: dict[str, Any]) -> None:
        """End a session that another worker has ended."""
        replica = self._replicas.get(fields["session"])
        self._end_here(fields["session"])
        if replica is not None and self._worker.is_restoring:  # Its record may have been stored again here.
            self._worker.spawn(self._worker.store.delete(replica.key))

    def _on_state(self, fields: dict[str, Any]) -> None:
        """Know what another worker has changed of a session before what is announced afterwards."""
        replica = self._replicas.get(fields["session"])
        if replica is not None and fields["sender"] != self._worker.id:
            self._worker.spawn(self._changes.after(replica.load_again()))

    def _on_check(self, fields: dict[str, Any]) -> None:
        """Say which of these streams, which another worker sends, are not written here any more."""
        ended = [stream for stream in fields["streams"] if not any(one.writes(stream) for one in self._replicas)]
        if ended:
            self._worker.spawn(self._worker.send(fields["sender"], "unwritten", streams=ended))

    def _on_unwritten(self, fields: dict[str, Any]) -> None:
        self._worker.end_unwritten(fields["streams"])

    def _end_here(self, id: str) -> None:
        replica = self._replicas.remove(id)
        if replica is not None:
            self._worker.spawn(self._stop(replica, has_ended=True))

    def _forget(self, replica: SessionReplica) -> None:
        self._replicas.remove(replica.id)
        # The streams of a session that has expired remain until they are sent: its calls end with an error.
        reason = _EXPIRED if replica.has_ended else _LEAVING
        self._worker.spawn(self._stop(replica, has_ended=False, reason=reason))

    async def _stop(self, replica: SessionReplica, has_ended: bool, reason: str = _LEAVING) -> None:
        replica.has_ended = has_ended
        if replica.session is not None:
            replica.dispatcher.detach()
            if not has_ended:
                replica.replicated.fail_running(reason)
            await replica.session.stop()
        await replica.close()

    def hand_over(self) -> None:
        """Close the connections of GET requests; their clients resume at other workers."""
        for replica in self._replicas:
            replica.hand_over()

    async def close(self) -> None:
        """End what this worker serves; sessions go on at the other workers."""
        self._replicas.close()
        for replica in self._replicas:
            self._replicas.remove(replica.id)
            await self._stop(replica, has_ended=False)
        await super().close()
