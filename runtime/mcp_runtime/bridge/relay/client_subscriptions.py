"""Subscriptions of clients without sessions at an upstream with sessions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from ...endpoint.subscription_filter import ChangeFilter, supported_filter
from ...errors import JSONRPCError, MCPError
from ...protocol.jsonrpc import INVALID_PARAMS
from ...protocol.models import is_list, is_object
from ...protocol.revision import Handshake, Notification, Stateless
from ...protocol.uris import uri_key
from ...server.subscriptions import check_filter
from ..raw.raw_connection import FROM_SERVER, raw_notification
from ..upstream.link import SUBSCRIPTION, Call, Link


class Listener:
    """A request to listen of one client: passes the changes that its filter includes."""

    def __init__(self, link: Link, call: Call, requested: Any) -> None:
        """Create a listener with the part of the requested filter that the upstream supports. Raises JSONRPCError."""
        self._link = link
        self._channel = call.channel
        self._meta = {SUBSCRIPTION: call.id}
        self.owner = link.owner
        if not is_object(requested):
            raise JSONRPCError(INVALID_PARAMS, "notifications has to be an object")
        check_filter(requested)
        translation = link.translation
        self._rows = {
            row.method: row for row in translation.down.table(FROM_SERVER).values() if isinstance(row, Notification)
        }
        capabilities = translation.server_capabilities(link.upstream.capabilities)
        self.filter = supported_filter(requested, capabilities, list(self._rows.values()))
        self._changes = ChangeFilter(self.filter)

    @property
    def uris(self) -> list[str]:
        """The resources that the client subscribes to."""
        return [uri for value in self.filter.values() if is_list(value) for uri in value if isinstance(uri, str)]

    async def run(self, listeners: set[Listener]) -> dict[str, Any]:
        """Pass changes until the request is cancelled or the upstream ends, and return the result."""
        lifecycle, upstream = self._link.translation.down.lifecycle, self._link.upstream
        assert isinstance(lifecycle, Stateless), "only clients without sessions listen"
        for uri in self.uris:
            await self._send(uri, subscribe=True)
        acknowledged = raw_notification(lifecycle.acknowledged.method, FROM_SERVER)
        await self._channel.send_notification(acknowledged, {"notifications": self.filter, "_meta": self._meta})
        listeners.add(self)
        try:
            await asyncio.shield(upstream.session.closed)
        finally:
            listeners.discard(self)
            others = {uri_key(uri) for listener in listeners for uri in listener.uris}
            by_key = {uri_key(uri): uri for uri in self.uris}
            if self._link.is_open:
                for uri in [uri for key, uri in by_key.items() if key not in others]:
                    await asyncio.shield(self._send(uri, subscribe=False))
        return {"resultType": "complete", "_meta": self._meta}

    async def _send(self, uri: str, subscribe: bool) -> None:
        lifecycle = self._link.translation.up.lifecycle
        assert isinstance(lifecycle, Handshake), "the upstream has sessions"
        row = lifecycle.subscribe if subscribe else lifecycle.unsubscribe
        if row is not None:
            with suppress(JSONRPCError):
                await self._link.send(Call(self._channel, 0, row.method), {"uri": uri})

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Pass a change, if the filter includes it."""
        row = self._rows.get(method)
        if row is not None and self._changes.includes(row, params):
            meta = params.get("_meta")
            params = {**params, "_meta": {**(meta if is_object(meta) else {}), **self._meta}}
            with suppress(MCPError):
                await self._link.pass_notification(self._channel, method, params)
