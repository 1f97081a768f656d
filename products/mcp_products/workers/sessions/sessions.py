"""The sessions of an endpoint whose requests any worker may serve."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from pydantic_core import to_json

from mcp_runtime.http.clients import client_key
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.connection import Connection
from mcp_runtime.protocol.jsonrpc import (
    ErrorMessage,
    MalformedMessage,
    Message,
    NotificationMessage,
    RequestMessage,
    ResultMessage,
)
from mcp_runtime.protocol.models import is_object
from mcp_runtime.session.handlers import ignore_response
from mcp_runtime.session.interfaces import Dispatcher, RequestAuth
from mcp_runtime.stores import StoreUnavailableError
from mcp_runtime.transports.http_server.sessions import HTTPSession, SessionFactory
from mcp_runtime.transports.http_server.streams import SSEStream

from .changes import ChangeLog
from .claims import send_to_holder
from .records import SessionReplica
from .standalone import StandaloneStream
from .state import ServerSharing
from .streams import StoredStream
from .worker import RECENT, RESTORE_PAUSE, Worker

# The sessions that one worker has used last.

_log: Final = logging.getLogger("mcp_runtime.workers.sessions.sessions")

_UNUSED_SECONDS: Final = 60.0  # Seconds without a request after which a worker forgets a session that the store has.

_EXPIRED: Final = "the session has expired, or was ended by another request"
_LEAVING: Final = "the server is shutting down: send the request again"
_TOGETHER: Final = 256  # Sessions that are stored again together.
_OTHERS_SECONDS: Final = 0.3  # Seconds after a loss for other workers to store again how far clients are.
_DIGITS: Final = 15  # Of the number of a change in `Last-Event-ID`, at most.


class Replicas:
    """The sessions that this worker has used last."""

    def __init__(self, worker: Worker, ttl: float, end: Callable[[SessionReplica], None]) -> None:
        self._worker = worker
        self._ttl = ttl
        self._end = end
        self._open: dict[str, SessionReplica] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at = 0.0  # When it was last looked which sessions are unused, or the timer began.
        self._unused_since = 0.0  # A session that was used since is not unused.

    def get(self, id: str) -> SessionReplica | None:
        """Return the replica of a session, if this worker has one."""
        replica = self._open.get(id)
        if replica is not None:
            replica.last_used = self._worker.recent(asyncio.get_running_loop().time())
        return replica

    def add(self, replica: SessionReplica) -> None:
        """Add a replica."""
        loop = asyncio.get_running_loop()
        replica.last_used = self._worker.recent(loop.time())
        self._open[replica.id] = replica
        if self._timer is None:
            self._looked_at = loop.time()
            self._timer = loop.call_later(self._interval, self._sweep)

    def remove(self, id: str) -> SessionReplica | None:
        """Remove a replica, and return it."""
        return self._open.pop(id, None)

    def __iter__(self) -> Any:
        return iter(list(self._open.values()))

    @property
    def count(self) -> int:
        """The number of replicas."""
        return len(self._open)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _interval(self) -> float:
        return min(self._ttl / 3, _UNUSED_SECONDS)

    def _sweep(self) -> None:
        """Let the sessions live that are busy here, and forget the others after a while."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        # A connection may have begun just after the last look, and have ended just before this one.
        self._unused_since = min(now - _UNUSED_SECONDS, self._looked_at) - RECENT
        self._looked_at = now
        for replica in self:
            if replica.is_busy:
                replica.last_used = self._worker.recent(now)  # Its connection may be cut at any time.
                self._worker.spawn(self._touch(replica))
                self._worker.spawn(replica.live_on())
        if any(self._is_unused(replica) for replica in self):
            self._worker.spawn(self._forget_unused())
        self._timer = loop.call_later(self._interval, self._sweep) if self._open else None

    def _is_unused(self, replica: SessionReplica) -> bool:
        return replica.last_used < self._unused_since and not replica.is_busy

    async def _forget_unused(self) -> None:
        """Forget the sessions that were not used, unless the store has lost them: then they are stored again first."""
        try:
            if await self._worker.has_lost():
                return
        except StoreUnavailableError as error:
            return _log.debug("sessions are forgotten later: %s", error)
        for replica in self:
            if self._is_unused(replica):
                self._end(replica)

    async def _touch(self, replica: SessionReplica) -> None:
        """Let a session live; end it here if another worker has ended it, whose message was lost."""
        record = await self._worker.restored(lambda: self._worker.store.touch(replica.key, self._ttl))
        if record is not None and replica.record is not None:
            replica.load(record)  # The message of the worker that has changed it may have been lost.
        elif replica.record is not None:
            replica.has_ended = True
            self._end(replica)


# Messages of a client for a handler of another worker: responses, progress and cancellations.


class MessageForwarding:
    """Pass messages to the worker whose handler waits for them. The ids of requests to clients name their worker."""

    def __init__(self, worker: Worker, replicas: Replicas) -> None:
        self._worker = worker
        self._replicas = replicas
        worker.on("message", self._on_message)
        worker.on("cancel", self._on_cancel)
        worker.on("stream", self._on_stream)

    async def forward(
        self, replica: SessionReplica, message: Message | list[Message]
    ) -> Message | list[Message] | None:
        """Send what belongs to another worker to it; return the rest, None if there is none."""
        if isinstance(message, RequestMessage):
            return message
        if isinstance(message, list):
            return [item for item in message if await self.forward(replica, item) is not None] or None
        worker = await self._worker_of(replica, message)
        if worker is None:
            return message
        await self._worker.deliver(worker, "message", session=replica.id, message=to_json(_fields(message)).decode())
        return None

    async def _worker_of(self, replica: SessionReplica, message: Message) -> str | None:
        """Return the other worker that a message is for, None for this one. Cancellations are for all workers."""
        assert replica.session is not None, "a replica has its session"
        lifecycle = replica.session.connection.revision.lifecycle
        if isinstance(message, (ResultMessage, ErrorMessage, MalformedMessage)):
            return self._worker.other_worker(message.id)
        params = message.params if is_object(message.params) else {}
        if message.method == lifecycle.progress.method:
            return self._worker.other_worker(params.get("progressToken"))
        id = params.get("requestId")
        if message.method == lifecycle.cancelled.method and id not in replica.session.running:
            await self._worker.deliver_to_all("cancel", session=replica.id, id=id, reason=params.get("reason"))
        return None

    def _on_message(self, fields: dict[str, Any]) -> None:
        replica = self._replicas.get(fields["session"])
        if replica is not None and (session := replica.session) is not None:
            event = session.connection.receive_message(jsonrpc.decode(fields["message"].encode()))
            session.handle_event(event, ignore_response, session)

    def _on_cancel(self, fields: dict[str, Any]) -> None:
        replica = self._replicas.get(fields["session"])
        if replica is not None and replica.session is not None:
            replica.session.cancel_handler(fields["id"], fields["reason"])

    def _on_stream(self, fields: dict[str, Any]) -> None:
        if (stream := self._worker.streams.get(fields["stream"])) is not None:
            stream.on_hint(fields["hint"], fields.get("token", ""))
        elif fields["hint"] == "release":  # It has ended here meanwhile, and the next connection has not read the rest.
            self._worker.spawn(send_to_holder(self._worker, fields["stream"], "news"))


def _fields(message: ResultMessage | ErrorMessage | MalformedMessage | NotificationMessage) -> dict[str, Any]:
    """Return a message as JSON-RPC has it."""
    fields: dict[str, Any] = {"jsonrpc": "2.0"}
    if isinstance(message, NotificationMessage):
        return {**fields, "method": message.method, "params": message.params or {}}
    if isinstance(message, ResultMessage):
        return {**fields, "id": message.id, "result": message.result}
    if isinstance(message, ErrorMessage):
        error = {"code": message.code, "message": message.message, "data": message.data}
        return {
            **fields,
            "id": message.id,
            "error": {name: value for name, value in error.items() if value is not None},
        }
    return {**fields, "id": message.id, "error": {"code": message.code, "message": message.message}}


class SharedSessions:
    """The sessions of one endpoint, whose records and streams are in a store that all workers share."""

    def __init__(
        self,
        factory: SessionFactory,
        *,
        worker: Worker,
        sharing: ServerSharing,
        changes: ChangeLog,
        idle: float,
        handshake: float,
        retry: int,
    ) -> None:
        """Create the directory of one worker; `idle` and `handshake` are the times to live of sessions, in seconds."""
        self._factory = factory
        self._worker = worker
        self._sharing = sharing
        self._changes = changes
        self._waits: dict[str, Any] = {"ttl": idle, "handshake_ttl": handshake, "retry": retry}
        self._replicas = Replicas(worker, idle, self._forget)
        self._forwarding = MessageForwarding(worker, self._replicas)
        worker.on("end", self._on_end)
        worker.on("unwritten", lambda fields: worker.end_unwritten(fields["streams"]))
        worker.on("check", self._on_check)
        worker.on("state", self._on_state)
        worker.on("gap", lambda _: worker.spawn(self._look_again()))  # In place of that of the changes.
        worker.on_loss(self._restore)
        worker.on_loss(self._note_lost)

    @property
    def count(self) -> int:
        """The number of sessions in the memory of this worker."""
        return self._replicas.count

    async def create(self, auth: RequestAuth, address: str | None) -> SessionReplica:
        """Return a new session, which is stored when it begins."""
        replica = self._new_replica(secrets.token_urlsafe(24), auth, address)
        replica.first_change = self._changes.last
        await self._connect(replica, auth, None)
        self._replicas.add(replica)
        return replica

    async def begin(self, session: HTTPSession) -> None:
        """Store a new session, before the client can send its next request, to any worker."""
        replica = _replica(session)
        self._sharing.leave_bus(replica.handled_by)
        try:
            await replica.save()
        except StoreUnavailableError:
            self._forget(replica)
            raise

    def _new_replica(self, id: str, auth: RequestAuth, address: str | None) -> SessionReplica:
        client = client_key(auth.owner, address)
        return SessionReplica(id, auth.owner, client, self._worker, sharing=self._sharing, **self._waits)

    async def _connect(self, replica: SessionReplica, auth: RequestAuth, state: Mapping[str, Any] | None) -> bool:
        """Give a replica its session, in a state of the store if there is one; False if no server serves its
        version."""

        def restore(dispatcher: Dispatcher, connection: Connection) -> bool:
            return self._sharing.restore(dispatcher, connection, state or {})

        if not await self._factory.connect(replica, auth, None if state is None else restore):
            return False
        replica.connected.connection.new_id = self._worker.request_id
        return True

    def current(self, id: str, owner: object) -> SessionReplica | None:
        """Return a session if nobody has changed it since this worker last served it."""
        replica = self._replicas.get(id)
        return replica if replica is not None and replica.is_current() and replica.belongs_to(owner) else None

    async def find(self, id: str, auth: RequestAuth, address: str | None = None) -> SessionReplica | None:
        """Return a session with the state that the store has; None if there is no such session."""
        replica = self._replicas.get(id)
        candidate = replica or self._new_replica(id, auth, address)
        losses = self._worker.losses
        record = await candidate.read()
        while record is None and await self._worker.may_restore(losses):
            losses = self._worker.losses
            if not (self._worker.is_restoring and await candidate.restore()):
                await asyncio.sleep(RESTORE_PAUSE)  # Another worker may have the session.
                candidate = self._replicas.get(id) or self._new_replica(id, auth, address)
            record = await candidate.read()
        if record is None:
            if replica is not None:
                replica.has_ended = True
                self._forget(replica)
            return None
        if replica is None and (replica := self._replicas.get(id)) is None:
            replica = candidate
            replica.load(record)
            if not replica.belongs_to(auth.owner) or not await self._connect(replica, auth, replica.state):
                return None
            replica = self._replicas.get(id) or replica
            self._replicas.add(replica)
        replica.load(record)
        return replica if replica.belongs_to(auth.owner) else None

    async def forward(self, session: HTTPSession, message: Message | list[Message]) -> Message | list[Message] | None:
        """Send what belongs to another worker to it; return the rest, None if there is none."""
        return await self._forwarding.forward(_replica(session), message)

    # ---- streams -----------------------------------------------------------------------------------------------------

    async def stream(self, session: HTTPSession, name: str | None) -> StoredStream | None:
        """Return the stream of this name, or without one the standalone stream; None if there is none any more."""
        replica = _replica(session)
        base = (name or "").partition(".")[0]
        if not base or base == replica.standalone_id:
            return replica.standalone_stream
        return None if name is None else await replica.find_stream(name)

    async def claim(self, session: HTTPSession, stream: SSEStream, position: tuple[str, int] | None) -> int | None:
        """Take a stream over from the connection that another worker has; return the number of the message to send
        after: on the standalone stream that of its header, or else the last one that was sent."""
        name, after = ("", None) if position is None else position
        if isinstance(stream, StandaloneStream):
            return await self._listen(_replica(session), stream, after, name.partition(".")[2])
        assert isinstance(stream, StoredStream), "it is from `stream`"
        await stream.take_over()
        stream.resume_after(after or 0)
        return after

    async def _listen(self, replica: SessionReplica, stream: StandaloneStream, after: int | None, change: str) -> int:
        position = None
        if after is not None and change.isascii() and change.isdigit() and len(change) <= _DIGITS:
            position = (after, int(change))
        listener = stream.new_listener(self._changes, replica)
        await listener.take_over(position, replica.first_change)
        stream.listen(listener)
        return listener.number

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def end(self, session: HTTPSession) -> None:
        """End a session at all workers."""
        replica = _replica(session)
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
        if (replica := self._replicas.remove(fields["session"])) is not None:
            self._worker.spawn(self._stop(replica, has_ended=True))
            if self._worker.is_restoring:  # Its record may have been stored again here.
                self._worker.spawn(self._worker.store.delete(replica.key))

    def _on_state(self, fields: dict[str, Any]) -> None:
        """Know what another worker has changed of a session before what is announced afterwards."""
        replica = self._replicas.get(fields["session"])
        if replica is not None and fields["sender"] != self._worker.id:
            self._worker.spawn(self._changes.after(replica.load_again))

    async def _look_again(self) -> None:
        """Know what other workers have changed of sessions, and then what was announced: messages may have been lost
        that say so."""
        await self._changes.after(self._load_again)
        await self._changes.read()

    async def _load_again(self) -> None:
        replicas = list(self._replicas)
        for first in range(0, len(replicas), _TOGETHER):
            await asyncio.gather(*(self._load_if_reachable(one) for one in replicas[first : first + _TOGETHER]))

    async def _load_if_reachable(self, replica: SessionReplica) -> None:
        with suppress(StoreUnavailableError):  # It is read for the next request of its session.
            await replica.load_again()

    def _on_check(self, fields: dict[str, Any]) -> None:
        """Say which of these streams, which another worker sends, are not written here any more."""
        ended = [stream for stream in fields["streams"] if not any(one.writes(stream) for one in self._replicas)]
        if ended:
            self._worker.spawn(self._worker.send(fields["sender"], "unwritten", streams=ended))

    def _forget(self, replica: SessionReplica) -> None:
        self._replicas.remove(replica.id)
        # The streams of a session that has expired remain until they are sent: its calls end with an error.
        self._worker.spawn(self._stop(replica, has_ended=False, reason=_EXPIRED if replica.has_ended else _LEAVING))

    async def _stop(self, replica: SessionReplica, has_ended: bool, reason: str = _LEAVING) -> None:
        replica.has_ended = has_ended
        if replica.session is not None:
            replica.handled_by.detach()
            if not has_ended:
                replica.fail_running(reason)
            await replica.session.stop()
            replica.handled_by.background_tasks.note_end()
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


def _replica(session: HTTPSession) -> SessionReplica:
    assert isinstance(session, SessionReplica), "it is from this directory"
    return session
