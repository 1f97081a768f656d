"""Links that many sessions share: the upstream sees one client without capabilities."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from ...aio.shared_work import SharedWorks
from ...errors import JSONRPCError
from ...protocol.jsonrpc import METHOD_NOT_FOUND
from ...protocol.uris import uri_key
from ..raw.raw_connection import FROM_SERVER
from ..translation.revision_translation import Translation
from ..upstream.link import Link
from ..upstream.opening import ClientDetails
from ..upstream.pools import open_link

if TYPE_CHECKING:
    from .bridge_state import BridgeState
    from .session_relay import SessionRelay


class SharedLinks:
    """A fixed number of connections to the upstream; each session uses the one with the fewest sessions."""

    def __init__(self, state: BridgeState, number: int) -> None:
        """Create links that open when a session first needs them."""
        self._state = state
        self._links: list[Link | None] = [None] * number
        self._opening: SharedWorks[int, Link] = SharedWorks("the connection to the upstream")
        self._sessions: list[dict[SessionRelay, Link]] = [{} for _ in range(number)]
        self._places: dict[SessionRelay, int] = {}
        self._counts = [0] * number  # The numbers of sessions of the links.

    async def join(self, session: SessionRelay, client: ClientDetails) -> Link:
        """Return the link of a session: a view of a shared connection in the revision of its client."""
        place = self._places.get(session)
        if place is None:
            place = self._counts.index(min(self._counts))
            self._places[session] = place
            self._counts[place] += 1
        shared = await self._shared(place)
        view = SessionView(shared, session, Translation(client.revision, shared.upstream.revision, self._state.losses))
        self._sessions[place][session] = view
        return view

    async def _shared(self, place: int) -> Link:
        link = self._links[place]
        if link is not None and link.is_open:
            return link
        return await self._opening.run(place, lambda: self._open(place))

    async def _open(self, place: int) -> Link:
        opener = self._state.opener
        client = ClientDetails(opener.newest, {}, {"name": "mcp-codegen bridge", "version": "0"})
        link = self._links[place] = await open_link(opener, client, self)
        link.fan_out = self._state.fan_out
        return link

    def leave(self, session: SessionRelay) -> None:
        """Forget a session that has ended."""
        place = self._places.pop(session, None)
        if place is not None:
            self._counts[place] -= 1
            self._sessions[place].pop(session, None)

    def is_subscribed(self, link: Link, uri: str) -> bool:
        """Return True if a session that uses the same connection has subscribed to a resource."""
        return any(
            uri_key(uri) in session.uris for place in self._sessions if link in place.values() for session in place
        )

    # ---- from the upstream -------------------------------------------------------------------------------------------

    async def notified(self, link: Link, method: str, params: dict[str, Any]) -> None:
        """Pass a change to all sessions of the link; one of a resource to those that have subscribed to it."""
        row = link.translation.up.table(FROM_SERVER).get(method)
        log = link.upstream.revision.lifecycle.log
        if row is None or (log is not None and method == log.method):
            self._state.losses.add(method, "it belongs to no session of a shared upstream")
            return
        place = self._links.index(link) if link in self._links else None
        views = list(self._sessions[place].items()) if place is not None else []
        wanting = [item for item in views if "uri" not in params or uri_key(params["uri"]) in item[0].uris]
        await self._state.fan_out.send_all(
            (session, partial(session.notified, view, method, params)) for session, view in wanting
        )

    async def requested(self, link: Link, method: str, params: dict[str, Any]) -> Any:
        """Raise JSONRPCError: the upstream has no client that could answer."""
        self._state.losses.add(method, "a shared upstream has no client that can answer")
        raise JSONRPCError(METHOD_NOT_FOUND, f"{method!r}: the client has not declared it")

    def ended(self, link: Link) -> None:
        """Let the next request open a new connection."""

    async def close(self) -> None:
        """Close all connections."""
        await self._opening.close()
        links = [link for link in self._links if link is not None]
        await asyncio.gather(*(link.close() for link in links))


class SessionView(Link):
    """A shared link as one session sees it: in the revision of its client."""

    def __init__(self, shared: Link, session: SessionRelay, translation: Translation) -> None:
        """Create the view of a session."""
        super().__init__(session)
        self.upstream = shared.upstream
        self.translation = translation
        self.share_calls_of(shared)
