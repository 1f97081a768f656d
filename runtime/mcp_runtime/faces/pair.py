"""HTTP with Server-Sent Events as before Streamable HTTP: one endpoint to listen on, another to post to (the first
revision, basic/transports). A GET opens a conversation; what is posted to the address it is told goes into it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from ..auth.resource.caller import Caller
from ..http.headers import EVENTS, JSON, Headers, Turned, accepts, media_type
from ..sse import encode
from ..transports.http.events import MemoryEvents
from ..transports.http.silence import Silence
from ..transports.http.streams import Stream
from ..transports.http.wire import (
    Receive,
    Scope,
    Send,
    leaving,
    path_of,
    respond,
    send_stream,
    turn_away,
)
from .server import BaseServer, serve

_WAITING: Final = 256  # Messages of one client that may wait to be read before the next POST has to wait.

Body = Callable[[], Awaitable[bytes | Turned]]


class _Pair:
    """The transport of one conversation: posted messages come in, and go out on the stream."""

    ending = "the client left its stream"

    def __init__(self, caller: Caller) -> None:
        self.owner = _owner(caller)
        self.stream = Stream(MemoryEvents(), resumable=False)
        self.posted: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._closed = False

    def send(self, message: bytes, more: bool = False) -> None:
        self.stream.put(message)

    async def drained(self) -> None:
        await self.stream.drained()

    async def receive(self) -> bytes | None:
        return None if self._closed and self.posted.empty() else await self.posted.get()

    async def close(self) -> None:
        self.stream.finish()
        self._closed = True
        if not self.posted.full():
            self.posted.put_nowait(None)


class Pairs:
    """All such conversations of one application, at `listen` and `post` below where it is mounted."""

    def __init__(self, servers: Sequence[BaseServer], listen: str, post: str, most: int, silence: Silence) -> None:
        self._servers = servers
        self._listen = listen
        self._post = post
        self._most = most
        self._silence = silence
        self._open: dict[str, _Pair] = {}

    def serves(self, path: str) -> bool:
        """Whether a path is one of the two."""
        return path in (self._listen, self._post)

    async def serve(
        self, scope: Scope, headers: Headers, caller: Caller, body: Body, receive: Receive, send: Send
    ) -> None:
        """One request to one of the two; `body` waits for what it brings."""
        wanted = "GET" if path_of(scope) == self._listen else "POST"
        if scope["method"] != wanted:
            turned = Turned(405, f"this endpoint serves {wanted}")
            await turn_away(send, turned, more=[(b"allow", wanted.encode())])
        elif wanted == "GET":
            await self._converse(scope, headers, caller, receive, send)
        else:
            await self._take(scope, headers, caller, body, send)

    async def close(self) -> None:
        """End every conversation."""
        for pair in list(self._open.values()):
            await pair.close()

    async def _converse(self, scope: Scope, headers: Headers, caller: Caller, receive: Receive, send: Send) -> None:
        if not accepts(headers.get("accept"), EVENTS):
            return await turn_away(send, Turned(406, f"a GET is answered by {EVENTS} alone"))
        if len(self._open) >= self._most:
            return await turn_away(send, Turned(503, "there are too many sessions"))
        id, pair = secrets.token_urlsafe(24), _Pair(caller)
        self._open[id] = pair
        serving = asyncio.create_task(serve(self._servers, pair, caller))
        address = f"{scope.get('root_path', '')}{self._post}?session_id={id}"
        try:
            left = leaving(receive, caller.lasts)
            await send_stream(pair.stream, left, send, self._silence, first=encode(address.encode(), kind="endpoint"))
        finally:
            del self._open[id]
            await pair.close()
            await asyncio.wait([serving])

    async def _take(self, scope: Scope, headers: Headers, caller: Caller, body: Body, send: Send) -> None:
        if media_type(headers.get("content-type", "")) != JSON:
            return await turn_away(send, Turned(415, f"a message is {JSON}"))
        named: Any = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])
        pair = self._open.get(named[0])
        if pair is None or pair.owner != _owner(caller):
            return await turn_away(send, Turned(404, "there is no such session"))
        posted = await body()
        if isinstance(posted, Turned):
            return await turn_away(send, posted)
        await pair.posted.put(posted)
        await respond(send, 202)


def _owner(caller: Caller) -> object:
    """What is posted has to come from the user who listens, with the same scopes: it is served as what that user may."""
    return caller.owner if caller.user is None else (caller.owner, caller.user.scopes)
