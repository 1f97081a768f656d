"""Servers go in, one for each revision they are to speak, and an ASGI application comes out: one endpoint for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..auth.resource.caller import NOBODY, Caller
from ..auth.resource.challenge import Denied
from ..errors import LocalError
from ..exchange import log
from ..framing import LIMIT
from ..http.headers import Turned
from ..http.heads import Heads
from ..http.origins import Origins
from ..http.rules import Head, Spoken, Way, check_alone, classify
from ..jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, decode
from ..spec import Revision
from ..transports.http.arrivals import Arrivals
from ..transports.http.events import EventStore, MemoryEvents
from ..transports.http.exchange import Posted
from ..transports.http.sessions import Sessions
from ..transports.http.silence import KEEP_ALIVE, Silence
from ..transports.http.wire import Left, Receive, Scope, Send, Sending, announce, id_of, path_of, turn_away
from .lives import Life
from .pair import Pairs
from .server import BaseServer
from .shaking import Shaking
from .single import Single

if TYPE_CHECKING:
    from ..auth.resource.protection import Gate, Protection

Owner = Callable[[Mapping[str, Any]], object]

# Looked up here, because it takes longer in an enumeration than in a module.
_SESSION: Final = Way.SESSION
_ALONE: Final = Way.ALONE


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
    if user is None or not getattr(user, "is_authenticated", False):
        return None
    return getattr(user, "display_name", None)


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
        self._lives = {id(each.source): Life(each.source.lifespan) for each in servers}
        self._singles = {
            each.revision.id: Single(each, servers, self._lives[id(each.source)], self._silence)
            for each in servers
            if each.revision.id in self._spoken.stateless
        }
        self._sessions = Sessions(events or MemoryEvents(), limits.sessions, limits.idle)
        shaking = [each for each in servers if each.revision.id in self._spoken.shaking]
        self._shaking = Shaking(shaking, self._lives, self._sessions, self._silence)
        self._pairs = Pairs(shaking, "/sse", "/messages", limits.sessions, self._silence) if legacy_sse else None
        self._is_open = auth is None and not legacy_sse and owner is user_of
        self._leaving = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3."""
        if scope["type"] != "http":
            return await self._live(scope, receive, send)
        method: str = scope["method"]
        head, length = self._heads.read(method, scope["headers"])
        try:
            caller = NOBODY
            # At an endpoint that is open to all, nothing of what is looked at here is in the way of most requests.
            if (
                not self._is_open
                or head.turned is not None
                or "user" in scope
                or (scope["path"] != self._path and self._path is not None)
                or scope.get("root_path")
            ):
                admitted = await self._admit(scope, head, length, receive, send)
                if not isinstance(admitted, Caller):
                    del head
                    return await admitted
                caller = admitted
            if method == "POST":
                body = await self._arrivals.body(receive, length)
                if not isinstance(body, bytes):
                    return await turn_away(send, body)
                answer = self._post((decode(body), head, caller, receive, send))
                del body
            elif method == "GET":
                answer = self._shaking.listen(head.headers, caller, receive, send)
            else:
                answer = self._shaking.end(head.headers, caller, send)
            del head  # What is left to do may last for days, and needs nothing more of what was read.
            await answer
        except Left:
            log.debug("a client left before its request was there")

    async def close(self) -> None:
        """End every stream and session, then the lifespans of the servers."""
        self._leaving = True
        for single in self._singles.values():
            await single.close()
        await self._shaking.close()
        if self._pairs is not None:
            await self._pairs.close()
        for life in self._lives.values():
            await life.end()

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin and end with the process; whatever else is asked for is refused."""
        if scope["type"] != "lifespan":
            return await send({"type": "websocket.close", "code": 1000})
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

    async def _admit(self, scope: Scope, head: Head, length: bytes, receive: Receive, send: Send) -> Caller | Sending:
        """Who made a request to the endpoint; else what is left to do for it."""
        if head.stranger is not None:
            return turn_away(send, head.stranger)
        path = path_of(scope)
        if self._gate is not None and self._gate.announces(path, self._path):
            return announce(send, scope["method"], self._gate.document)
        pairs = self._pairs if self._pairs is not None and self._pairs.serves(path) else None
        if pairs is None and self._path not in (None, path):
            return turn_away(send, Turned(404, "there is nothing here"))
        caller = NOBODY
        if self._gate is not None:
            judged = await self._judge(self._gate, scope, head, pairs is None)
            if isinstance(judged, Denied):
                code = INTERNAL_ERROR if judged.status == 503 else INVALID_REQUEST
                return turn_away(send, Turned(judged.status, judged.why, code), more=judged.headers)
            caller = judged
        elif (owner := self._owner(scope)) is not None:
            caller = Caller(None, owner=owner)
        if pairs is not None:
            arriving = partial(self._arrivals.body, receive, length)
            return pairs.serve(scope, head.headers, caller, arriving, receive, send)
        if head.turned is not None:
            allow = [(b"allow", self._spoken.methods.encode())] if head.turned.status == 405 else []
            return turn_away(send, head.turned, more=allow)
        return caller

    async def _judge(self, gate: Gate, scope: Scope, head: Head, at_resource: bool) -> Caller | Denied:
        """Who made a request, by its token."""
        path = None if at_resource else scope["path"]
        return await gate.judge(head.headers, scope["method"], path, scope.get("query_string", b""))

    def _post(self, posted: Posted) -> Sending:
        message, head, _, _, send = posted
        way = head.way or classify(head, message, self._spoken)
        if type(message) is list and len(message) > self._limits.batch:
            way = Turned(413, f"a batch has at most {self._limits.batch} messages")
        if self._leaving:
            way = Turned(503, "the server is about to end", INTERNAL_ERROR)
        if way is _SESSION:
            return self._shaking.serve(posted)
        if way is _ALONE:
            revision = check_alone(head, message, self._spoken)
            if not isinstance(revision, Revision):
                return turn_away(send, revision, id_of(message))
            return self._singles[revision.id].serve(posted)
        if isinstance(way, Turned):
            null = next(iter(self._spoken.shaking.values())).null_ids if self._spoken.shaking else False
            return turn_away(send, way, id_of(message), null)
        return self._shaking.open(posted)
