"""Open a connection to an upstream in the revision of the client, or in the nearest one that the upstream has."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Final, Protocol

from ..._lazy import load
from ...client.fallback import supported_versions
from ...errors import ConnectionClosedError, HTTPStatusError, LocalError, RemoteJSONRPCError, RequestTimeoutError
from ...http.client_rules import may_know_other_lifecycle
from ...protocol.capabilities import Capabilities
from ...protocol.connection import Connection
from ...protocol.events import NotificationReceived, RequestReceived
from ...protocol.jsonrpc import Id
from ...protocol.lifecycle import Phase
from ...protocol.models import is_list, is_object
from ...protocol.revision import META, Handshake, Revision, Stateless
from ...session.interfaces import Channel, RequestTransport
from ...session.options import RequestOptions
from ..raw.raw_connection import FROM_CLIENT, RawConnection, RawResult, raw_notification, raw_request
from ..raw.raw_session import UpstreamSession
from ..translation.losses import LossCounter
from ..translation.revision_translation import Translation
from .bridge_targets import Connector


class UpstreamEvents(Protocol):
    """Gets what an upstream sends besides results."""

    async def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Handle a message of the upstream."""
        ...

    def stream_closed(self, id: Id) -> None:
        """Note that the upstream has closed the SSE stream of a request, whose response comes later."""
        ...


_OPEN_SECONDS: Final = 60.0  # Seconds that an upstream has to start; `npx` may install it first.
_LASTING_SECONDS: Final = 5.0  # Seconds after which a connection is not one that failed.
_FIRST_DELAY: Final = 0.1
_MAX_DELAY: Final = 30.0
_PROBE_SECONDS: Final = 5.0  # Seconds without a response after which an old server is assumed to ignore discovery.


class ClientDetails:
    """What an upstream is to know of a client: its revision, its capabilities in it, and its name and version."""

    __slots__ = ("revision", "capabilities", "info")

    def __init__(self, revision: Revision, capabilities: Capabilities, info: dict[str, Any]) -> None:
        self.revision = revision
        self.capabilities = capabilities
        self.info = info


class OpenUpstream:
    """An open connection to an upstream. `details` is its result of `initialize` or of discovery."""

    __slots__ = ("session", "revision", "capabilities", "details", "runner", "is_closing", "client_capabilities",
                 "request_meta")  # fmt: skip

    def __init__(self, session: UpstreamSession, runner: asyncio.Task[None]) -> None:
        self.session = session
        self.runner = runner
        self.is_closing = False
        self.revision = session.connection.revision
        self.capabilities: Capabilities = {}
        self.details: dict[str, Any] = {}
        self.client_capabilities: Capabilities = {}  # Those that the upstream got, in its revision.
        self.request_meta: dict[str, Any] = {}  # What each request to a stateless upstream has in `_meta`.

    async def close(self) -> None:
        """Close the connection; a process ends."""
        self.is_closing = True
        await self.session.close()
        self.runner.cancel()
        await asyncio.wait([self.runner])


class Opener:
    """Opens connections to one upstream, and remembers which lifecycle it does not have."""

    def __init__(self, connector: Connector, package: str, losses: LossCounter) -> None:
        """Create an opener; `package` is the generated package with the revisions."""
        self.connector = connector
        self.losses = losses
        self._revisions = revisions_of(package)
        self._absent: type[Handshake | Stateless] | None = None  # The lifecycle that the upstream does not have.
        self._failures = 0  # Connections that could not be opened, or ended soon, since one has lasted.
        self._not_before = 0.0  # The time of the event loop before which none is opened.

    async def open(self, client: ClientDetails, events: UpstreamEvents) -> OpenUpstream:
        """Open a connection; `events` gets what the upstream sends besides results. Raises MCPError.

        After failures the next connection waits, longer after each, up to 30 s.
        """
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._not_before - loop.time(), 0.0))
        try:
            upstream = await self._open(client, events)
        except Exception:
            self._note_failure(loop)
            raise
        opened = loop.time()

        def ended(_: object) -> None:
            if loop.time() - opened < _LASTING_SECONDS and not upstream.is_closing:
                self._note_failure(loop)

        upstream.session.closed.add_done_callback(ended)
        loop.call_later(_LASTING_SECONDS, self._forget_failures, upstream)
        return upstream

    @property
    def newest(self) -> Revision:
        """The newest revision."""
        return self._revisions[-1]

    def _note_failure(self, loop: asyncio.AbstractEventLoop) -> None:
        delay = 0.0 if not self._failures else min(_FIRST_DELAY * 2.0 ** min(self._failures, 10), _MAX_DELAY)
        self._failures += 1
        self._not_before = loop.time() + delay

    def _forget_failures(self, upstream: OpenUpstream) -> None:
        if not upstream.session.ended:
            self._failures = 0

    async def _open(self, client: ClientDetails, events: UpstreamEvents) -> OpenUpstream:
        errors: list[Exception] = []
        order, tried = [*self._order(client.revision)], set[str]()
        while order:
            tried.add((first := order.pop(0)).id)
            transport = self.connector.connect(first, events.stream_closed)
            session = UpstreamSession(RawConnection(first, "client", {}), transport, events.handle)
            session.connection.enter_phase(Phase.OPEN)  # Upstreams may send messages before their first result.
            upstream = OpenUpstream(session, asyncio.create_task(session.run()))
            if isinstance(transport, RequestTransport):
                transport.set_revision(first, lambda: self._revisions)
            try:
                await self._negotiate(upstream, first, client)
            except BaseException as error:
                await upstream.close()
                if not isinstance(error, Exception) or not self._may_try_other(error, first):
                    raise
                errors.append(error)
                order = [*self._listed(error, tried), *order]
                continue
            if errors:
                self._absent = Stateless if isinstance(upstream.revision.lifecycle, Handshake) else Handshake
            return upstream
        raise errors[0]

    def _order(self, requested: Revision) -> Sequence[Revision]:
        """Return the revisions to try: one of either lifecycle. Upstreams list others in their errors."""
        stateful = [revision for revision in self._revisions if isinstance(revision.lifecycle, Handshake)]
        stateless = [revision for revision in self._revisions if isinstance(revision.lifecycle, Stateless)]
        if isinstance(requested.lifecycle, Stateless):
            order = [requested, stateful[-1]]
        else:
            streams = requested.http.streamable or self.connector.is_process
            order = [requested if streams else stateful[-1], *stateless[-1:]]
        if self._absent is not None:
            order.sort(key=lambda revision: type(revision.lifecycle) is self._absent)
        return order

    def _listed(self, error: Exception, tried: Collection[str]) -> Sequence[Revision]:
        """Return the newest stateless revision that an error lists as supported, unless it was tried."""
        versions = supported_versions(error) if isinstance(error, (RemoteJSONRPCError, HTTPStatusError)) else []
        listed = [item for item in self._revisions if item.id in versions and isinstance(item.lifecycle, Stateless)]
        return [item for item in listed if item.id not in tried][-1:]

    def _may_try_other(self, error: Exception, first: Revision) -> bool:
        if isinstance(error, RequestTimeoutError):
            return self.connector.is_process and isinstance(first.lifecycle, Stateless)
        if isinstance(error, ConnectionClosedError):  # Some servers end at a first message that they do not expect.
            return self.connector.is_process and isinstance(first.lifecycle, Stateless)
        code = error.code if isinstance(error, RemoteJSONRPCError) else 0
        status = getattr(error, "status", None)
        if not isinstance(error, (RemoteJSONRPCError, HTTPStatusError)):
            return False
        return bool(supported_versions(error)) or may_know_other_lifecycle(status, code, first)

    async def _negotiate(self, upstream: OpenUpstream, first: Revision, client: ClientDetails) -> None:
        capabilities = Translation(client.revision, first, self.losses).client_capabilities(client.capabilities)
        upstream.client_capabilities = capabilities
        lifecycle = first.lifecycle
        if isinstance(lifecycle, Handshake):
            await self._initialize(upstream, lifecycle, capabilities, client)
        else:
            await self._discover(upstream, lifecycle, capabilities, client)

    async def _initialize(
        self, upstream: OpenUpstream, lifecycle: Handshake, capabilities: Capabilities, client: ClientDetails
    ) -> None:
        session, names = upstream.session, lifecycle.fields
        params = {
            names.version: upstream.revision.id,
            names.client_capabilities: capabilities,
            names.client_info: client.info,
        }
        result = await self._request(session, lifecycle.initialize_request.method, params, self._seconds)
        version = result.get(names.version)
        revision = next((item for item in self._revisions if item.id == version), None)
        if revision is None or not isinstance(revision.lifecycle, Handshake):
            raise LocalError(f"the upstream has chosen the unknown protocol version {version!r}")
        self._use(upstream, revision)
        upstream.capabilities = result.get(names.server_capabilities) or {}
        upstream.details = result
        await session.send_notification(raw_notification(lifecycle.initialized.method, FROM_CLIENT), None)

    async def _discover(
        self, upstream: OpenUpstream, lifecycle: Stateless, capabilities: Capabilities, client: ClientDetails
    ) -> None:
        upstream.request_meta = {
            f"{META}protocolVersion": upstream.revision.id,
            f"{META}clientInfo": client.info,
            f"{META}clientCapabilities": capabilities,
        }
        seconds = _PROBE_SECONDS if self.connector.is_process and self._absent is None else self._seconds
        params = {"_meta": upstream.request_meta}
        result = await self._request(upstream.session, lifecycle.discover.method, params, seconds)
        versions = result.get("supportedVersions")
        if not is_list(versions) or upstream.revision.id not in versions:
            raise RemoteJSONRPCError(0, "unsupported protocol version", {"supported": versions or ["unknown"]})
        self._use(upstream, upstream.revision)
        upstream.capabilities = result.get("capabilities") or {}
        upstream.details = result

    async def _request(
        self, session: UpstreamSession, method: str, params: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        result = await session.send_request(
            raw_request(method, FROM_CLIENT), params, RequestOptions(timeout=seconds), request_id=_first_id(session)
        )
        value = result.value if isinstance(result, RawResult) else None
        if not is_object(value):
            raise LocalError(f"the result of {method!r} is no object")
        return value

    @property
    def _seconds(self) -> float:
        return _OPEN_SECONDS + self.connector.login_seconds

    def _use(self, upstream: OpenUpstream, revision: Revision) -> None:
        upstream.revision = upstream.session.connection.revision = revision
        upstream.session.connection.enter_phase(Phase.OPEN)
        transport = upstream.session.transport
        if isinstance(transport, RequestTransport):
            # Some servers choose a revision that is older than the transport that they use for it.
            oldest = next(item for item in self._revisions if item.http.streamable)
            transport.set_revision(revision if revision.http.streamable else oldest, lambda: self._revisions)


def _first_id(session: UpstreamSession) -> Any:
    connection: Connection = session.connection
    return connection.next_id()


def revisions_of(package: str) -> list[Revision]:
    """Return the revisions of a generated package that can be converted to one another, oldest first.

    They have the HTTP headers of the messages of all extensions, which pass as others do.
    """
    index = import_module(package)
    convertible = {id for older, newer, _ in index.CONVERSIONS for id in (older, newer)}
    revisions = {
        id: load(f"{package}.{module}.methods").REVISION for id, module in index.REVISIONS.items() if id in convertible
    }
    for extension in _extensions(package):
        own = revisions.get(extension.id)
        if own is not None:
            names = {**extension.http.name_params, **own.http.name_params}
            revisions[own.id] = replace(own, http=replace(own.http, name_params=names))
    return list(revisions.values())


def _extensions(package: str) -> list[Revision]:
    """Return the revisions of the extensions of a generated package."""
    if find_spec(f"{package}.extensions") is None:
        return []
    names = [name for _, name, _ in iter_modules(import_module(f"{package}.extensions").__path__)]
    methods = [f"{package}.extensions.{name}.methods" for name in names]
    return [load(name).REVISION for name in methods if find_spec(name) is not None]
