"""HTTP requests of revisions with a handshake, served without sessions: any process can serve any request."""

from __future__ import annotations

import asyncio
from typing import Final

from ...http.asgi import Receive, Send, Sending, send_error
from ...http.headers import PROTOCOL_VERSION, Headers, HTTPError
from ...protocol.lifecycle import Phase
from ...session.identity import RequestAuth
from ...session.running import IdleHandlers
from ...session.session import Session
from .responders import IncomingPost
from .sessions import HTTPSession
from .stateful import StatefulHandler

_POST_ONLY: Final = HTTPError(405, "this endpoint has no sessions (stateless_http), and allows only POST")


class SessionlessHandler(StatefulHandler):
    """Serve requests without a session. A handshake changes nothing, and handlers cannot send requests to clients."""

    def serve(self, post: IncomingPost) -> Sending:
        """Serve a POST with a session that ends with its response, in the version that its header names.

        Without the header that is the oldest version with Streamable HTTP, or the oldest that is served:
        https://modelcontextprotocol.io/specification/draft/basic/transports
        """
        return self._serve_one(post, None)

    async def open(self, post: IncomingPost) -> None:
        """Serve an `initialize` request: its response has no session id."""
        await self._serve_one(post, Phase.NEW)

    async def listen(self, headers: Headers, auth: RequestAuth, receive: Receive, send: Send) -> Sending:
        """Refuse a GET."""
        return send_error(send, _POST_ONLY, headers=((b"allow", b"POST"),))

    async def end(self, headers: Headers, auth: RequestAuth, send: Send) -> None:
        """Refuse a DELETE."""
        await send_error(send, _POST_ONLY, headers=((b"allow", b"POST"),))

    async def _serve_one(self, post: IncomingPost, phase: Phase | None) -> None:
        _, head, auth, _, _, _ = post
        named = head.headers.get(PROTOCOL_VERSION)
        default = self._servers[-1] if phase is Phase.NEW else self._servers[min(1, len(self._servers) - 1)]
        service = next((server for server in self._servers if server.revision.id == named), default)
        dispatcher = service.dispatcher(await self._lifespans[id(service.origin)].state())
        dispatcher.identify(None)
        connection = service.connection()
        if phase is None:
            connection.enter_phase(Phase.OPEN)
        if self._idle_handlers is None:
            self._idle_handlers = IdleHandlers(asyncio.get_running_loop())
        http_session = HTTPSession(auth.owner, self._sessions.events)
        http_session.on_end = dispatcher.detach
        handle, opening = dispatcher.handle, dispatcher.initialize
        session = Session(connection, http_session, handle, opening, self._idle_handlers, auth)
        http_session.session = session
        dispatcher.attach(session)
        try:
            await self._respond(session, self._dispatch(session, post, http_session.open_stream), post)
        finally:
            await self._sessions.end(http_session)
