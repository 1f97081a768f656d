"""Subscriptions at a stateless upstream, for a session whose client subscribes by requests of their own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from ...endpoint.subscription_filter import filter_key
from ...errors import JSONRPCError
from ...protocol.capabilities import is_declared, parse_capability_path
from ...protocol.models import is_object
from ...protocol.revision import META, Notification, Stateless
from ...protocol.uris import uri_key
from ..raw.raw_connection import FROM_SERVER, RawConnection
from ..translation.revision_translation import Translation
from ..upstream.link import SUBSCRIPTION, Call, Link

_SECONDS: Final = 5.0  # Seconds to wait for the acknowledgement.
_URIS: Final = "resourceSubscriptions"  # The property of the filter with the URIs of resources.


class SubscriptionChannel:
    """The channel of a request to listen: its notifications go to the session, without the id of the subscription."""

    auth = scope = None

    def __init__(self, link: Link, session: Any, acknowledged: str) -> None:
        """Create the channel; `acknowledged` is the method of the acknowledgement, which is not passed."""
        self._link = link
        self._session = session
        self._acknowledged = acknowledged
        self.ready = asyncio.Event()

    @property
    def connection(self) -> RawConnection:
        """The connection of the session."""
        connection: RawConnection = self._session.connection
        return connection

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Pass a notification of the subscription."""
        if row.method == self._acknowledged:
            self.ready.set()
            return
        meta = {key: value for key, value in params.get("_meta", {}).items() if key != SUBSCRIPTION}
        others = {key: value for key, value in params.items() if key != "_meta"}
        await self._link.pass_notification(self._session, row.method, {**others, "_meta": meta} if meta else others)

    async def send_request(self, row: Any, params: Any, options: Any) -> Any:
        """Raise JSONRPCError: a subscription has no requests."""
        raise NotImplementedError

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Do nothing."""


class UpstreamSubscriptions:
    """The open request to listen of one session; it is replaced when the client subscribes to another resource."""

    def __init__(self, link: Link, session: Any) -> None:
        """Create subscriptions that are not open."""
        self._link = link
        self._session = session
        self._uris: dict[str, str] = {}
        self._task: asyncio.Task[Any] | None = None

    def _filter(self) -> dict[str, Any]:
        capabilities = self._link.upstream.capabilities
        rows = [row for row in self._link.translation.up.table(FROM_SERVER).values() if isinstance(row, Notification)]
        flags: dict[str, Any] = {}
        for row in rows:
            path = parse_capability_path(row.capability)[1] if row.capability else ()
            if len(path) > 1 and path[-1] == "listChanged" and is_declared(capabilities, path):
                flags[filter_key(row.capability)] = True
        return {**flags, _URIS: list(self._uris.values())} if self._uris else flags

    def add(self, uri: str) -> None:
        """Add a resource to the filter of the next request."""
        self._uris[uri_key(uri)] = uri

    async def subscribe(self, uri: str) -> None:
        """Subscribe to a resource."""
        self._uris[uri_key(uri)] = uri
        await self.open()

    async def unsubscribe(self, uri: str) -> None:
        """Unsubscribe from a resource."""
        self._uris.pop(uri_key(uri), None)
        await self.open()

    async def open(self) -> None:
        """Listen with the present filter, and end the previous request once the new one is acknowledged."""
        previous, filter = self._task, self._filter()
        lifecycle = self._link.translation.up.lifecycle
        assert isinstance(lifecycle, Stateless), "only a stateless upstream is listened to"
        self._task = None
        if filter:
            channel = SubscriptionChannel(self._link, self._session, lifecycle.acknowledged.method)
            params = {"notifications": filter, "_meta": self._link.upstream.request_meta}
            call = Call(channel, 0, lifecycle.listen.method)
            self._task = asyncio.create_task(self._listen(call, params))
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS):
                    await channel.ready.wait()
        if previous is not None:
            previous.cancel()

    async def _listen(self, call: Call, params: dict[str, Any]) -> None:
        with suppress(JSONRPCError):
            await self._link.send(call, params)

    def close(self) -> None:
        """End the request."""
        if self._task is not None:
            self._task.cancel()


def log_level_meta(level: str | None) -> dict[str, Any]:
    """Return the key of `_meta` with the level of log messages that a client wants; none if it set none."""
    return {} if level is None else {f"{META}logLevel": level}


def stateless_params(translation: Translation, link: Link, params: dict[str, Any], level: str | None) -> dict[str, Any]:
    """Return the params of a request with what each request to a stateless upstream has in `_meta`."""
    meta = params.get("_meta")
    own = {**link.upstream.request_meta, **log_level_meta(level)}
    return {**params, "_meta": {**(meta if is_object(meta) else {}), **own}}
