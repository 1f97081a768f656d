"""Open a connection to an upstream in the revision of the client, or in the nearest one that the upstream has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Final, NamedTuple, Protocol

from mcp_runtime._lazy import load
from mcp_runtime.client.negotiation import send_initialized, supported_versions
from mcp_runtime.errors import (
    ConnectionClosedError,
    HTTPStatusError,
    InvalidResponseError,
    JSONRPCError,
    LocalError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.http.client_rules import may_know_other_lifecycle
from mcp_runtime.protocol.connection import NotificationReceived, RequestReceived
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, Id
from mcp_runtime.protocol.lifecycle import Capabilities, Phase
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.revision import META, Handshake, Revision, Stateless
from mcp_runtime.session.interfaces import Channel, RequestTransport, RevisionChoice, Transport
from mcp_runtime.session.requests import RequestOptions

from .raw import FROM_CLIENT, RawConnection, RawResult, UpstreamSession, raw_notification, raw_request
from .translation import LossCounter, Translation

OPEN_SECONDS: Final = 60.0  # Seconds that an upstream has to start; `npx` may install it first.
_LASTING_SECONDS: Final = 5.0  # Seconds after which a connection is not one that failed.
_FIRST_DELAY: Final = 0.1
MAX_DELAY: Final = 30.0
_PROBE_SECONDS: Final = 5.0  # Seconds without a response after which an old server is assumed to ignore discovery.


class UpstreamEvents(Protocol):
    """Gets what an upstream sends besides results."""

    async def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Handle a message of the upstream."""
        ...

    def stream_closed(self, id: Id) -> None:
        """Note that the upstream has closed the SSE stream of a request, whose response comes later."""


class Connector(Protocol):
    """Opens transports to one upstream."""

    @property
    def open_seconds(self) -> float | None:
        """Seconds that the first request may take; None without limit."""
        ...

    async def connect(self, newest: Revision, stream_closed: Callable[[Id], None]) -> Transport | RequestTransport:
        """Return a new transport; `stream_closed` gets the id of a request whose SSE stream the upstream closes early.
        Raises MCPError, and OSError for a command that cannot be started."""
        ...


class NoAnswerError(JSONRPCError):
    """The error of a request to which an upstream has given no answer.

    `is_outage` is True if the upstream is at fault: it cannot be reached or started, it ends, is late, or has an error
    of the server (HTTP 5xx). `was_open` is False if there was no connection, so that the request was not sent.
    `is_late` is True if there was no answer in time.
    """

    def __init__(self, message: str, *, is_outage: bool, was_open: bool = True, is_late: bool = False) -> None:
        super().__init__(INTERNAL_ERROR, message)
        self.is_outage = is_outage
        self.was_open = was_open
        self.is_late = is_late


def is_outage(error: Exception) -> bool:
    """Return True for an error that says that an upstream cannot be reached, or does not answer."""
    if isinstance(error, HTTPStatusError):
        return error.status >= 500
    return isinstance(error, (ConnectionClosedError, RequestTimeoutError, OSError))


class UpstreamNames(NamedTuple):
    """How errors name an upstream: one that has failed, and one that was not reached; its connections, and the setting
    of their number."""

    failed: str
    unreachable: str
    connections_of: str
    setting: str

    def failure(self, error: Exception, was_open: bool = True) -> NoAnswerError:
        """Return the error of a request that has got no answer: without the output of a process, which is logged."""
        reason = error.reason if isinstance(error, ConnectionClosedError) else str(error) or type(error).__name__
        message = f"{self.failed if was_open else self.unreachable}: {reason}"
        return NoAnswerError(message, is_outage=is_outage(error), was_open=was_open)


class ClientDetails(NamedTuple):
    """What an upstream is to know of a client: its revision, its capabilities in it, and its name and version."""

    revision: Revision
    capabilities: Capabilities
    info: dict[str, Any]


class OpenUpstream:
    """An open connection to an upstream. `details` is its result of `initialize` or of discovery."""

    __slots__ = ("session", "revision", "capabilities", "details", "runner", "is_closing", "client_capabilities",
                 "request_meta", "names")  # fmt: skip

    def __init__(self, session: UpstreamSession, runner: asyncio.Task[None], names: UpstreamNames) -> None:
        self.session = session
        self.runner = runner
        self.names = names
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

    on_open: Callable[[OpenUpstream], None] | None = None
    """Called with each connection that was opened."""
    on_failed: Callable[[Exception], None] | None = None
    """Called with the error of each connection that could not be opened."""

    def __init__(
        self,
        connector: Connector,
        package: str,
        losses: LossCounter,
        names: UpstreamNames,
        revisions: RevisionChoice = "all",
    ) -> None:
        """Create an opener.

        Args:
            connector: Opens the transports.
            package: The generated package with the revisions.
            losses: Counts what a revision cannot represent.
            names: How errors name the upstream.
            revisions: The ids of the revisions that may be negotiated. Default "all".

        Raises LocalError for an unknown revision.
        """
        self.connector = connector
        self.losses = losses
        self.names = names
        self._revisions = chosen_revisions(package, revisions)
        self._absent: type[Handshake | Stateless] | None = None  # The lifecycle that the upstream does not have.
        self.max_delay: Callable[[], float] = lambda: MAX_DELAY
        """Returns the longest time that a connection waits after failures."""
        self._failures = 0  # Connections that could not be opened, or ended soon, since one has lasted.
        self._not_before = 0.0  # The time of the event loop before which none is opened.

    async def open(self, client: ClientDetails, events: UpstreamEvents) -> OpenUpstream:
        """Open a connection; `events` gets what the upstream sends besides results. Raises MCPError and OSError.

        After failures the next connection waits, longer after each, up to `max_delay`.
        """
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._not_before - loop.time(), 0.0))
        try:
            upstream = await self._open(client, events)
        except Exception as error:
            self._note_failure(loop)
            if self.on_failed is not None:
                self.on_failed(error)
            raise
        opened = loop.time()

        def ended(_: object) -> None:
            if loop.time() - opened < _LASTING_SECONDS and not upstream.is_closing:
                self._note_failure(loop)

        upstream.session.closed.add_done_callback(ended)
        loop.call_later(_LASTING_SECONDS, self._forget_failures, upstream)
        if self.on_open is not None:
            self.on_open(upstream)
        return upstream

    @property
    def is_waiting(self) -> bool:
        """True if the next connection is not opened at once, because the last ones have failed."""
        return self._not_before > asyncio.get_running_loop().time()

    @property
    def newest(self) -> Revision:
        """The newest revision."""
        return self._revisions[-1]

    def _note_failure(self, loop: asyncio.AbstractEventLoop) -> None:
        delay = 0.0 if not self._failures else min(_FIRST_DELAY * 2.0 ** min(self._failures, 10), self.max_delay())
        self._failures += 1
        self._not_before = loop.time() + delay

    def _forget_failures(self, upstream: OpenUpstream) -> None:
        if not upstream.session.ended:
            self._failures = 0

    async def _open(self, client: ClientDetails, events: UpstreamEvents) -> OpenUpstream:
        """Open a connection in the first revision that the upstream accepts. A transport that is still open after a
        refusal is used for the next one: a process need not start again."""
        upstream = await self._connected(events)
        order, tried, errors = [*self._order(client.revision, upstream)], set[str](), list[Exception]()
        is_patient = False
        try:
            while True:
                first = order.pop(0)
                tried.add(first.id)
                if upstream.session.ended:
                    await upstream.close()
                    upstream = await self._connected(events)
                self._begin(upstream, first)
                try:
                    await self._negotiate(upstream, first, client, is_patient)
                    break
                except Exception as error:
                    if not self._may_try_other(error, first, upstream):
                        raise
                    errors.append(error)
                    order = [*self._listed(error, tried), *order]
                    if not order and isinstance(errors[0], RequestTimeoutError) and not is_patient:
                        order, is_patient = [client.revision], True  # It was slow, and has no handshake.
                    if not order:
                        raise errors[0] from None
        except BaseException:
            await upstream.close()
            raise
        if errors and not is_patient:
            self._absent = Stateless if isinstance(upstream.revision.lifecycle, Handshake) else Handshake
        return upstream

    async def _connected(self, events: UpstreamEvents) -> OpenUpstream:
        transport = await self.connector.connect(self.newest, events.stream_closed)
        session = UpstreamSession(RawConnection(self.newest, "client", {}), transport, events.handle)
        session.name = self.names.connections_of
        return OpenUpstream(session, asyncio.create_task(session.run()), self.names)

    def _begin(self, upstream: OpenUpstream, first: Revision) -> None:
        """Let the next request be the first one of a revision. Its id is another one than those before: a response to
        them may still arrive."""
        session = upstream.session
        connection = RawConnection(first, "client", {})
        connection.last_id = session.connection.last_id
        connection.enter_phase(Phase.OPEN)  # Upstreams may send messages before their first result.
        session.connection = connection
        upstream.revision = first
        upstream.request_meta = {}
        if isinstance(session.transport, RequestTransport):
            session.transport.set_revision(first, lambda: self._revisions)

    def _order(self, requested: Revision, upstream: OpenUpstream) -> Sequence[Revision]:
        """Return the revisions to try: one of either lifecycle. Upstreams list others in their errors."""
        stateful = [revision for revision in self._revisions if isinstance(revision.lifecycle, Handshake)]
        stateless = [revision for revision in self._revisions if isinstance(revision.lifecycle, Stateless)]
        is_stateless = isinstance(requested.lifecycle, Stateless)
        same = requested in self._revisions and (
            is_stateless or requested.http.streamable or not is_over_http(upstream)
        )
        first, others = (stateless, stateful) if is_stateless else (stateful, stateless)
        order = [*([requested] if same else first[-1:]), *others[-1:]]
        if self._absent is not None:
            order.sort(key=lambda revision: type(revision.lifecycle) is self._absent)
        return order

    def _listed(self, error: Exception, tried: Collection[str]) -> Sequence[Revision]:
        """Return the newest stateless revision that an error lists as supported, unless it was tried."""
        versions = supported_versions(error) if isinstance(error, (RemoteJSONRPCError, HTTPStatusError)) else []
        listed = [item for item in self._revisions if item.id in versions and isinstance(item.lifecycle, Stateless)]
        return [item for item in listed if item.id not in tried][-1:]

    def _may_try_other(self, error: Exception, first: Revision, upstream: OpenUpstream) -> bool:
        if isinstance(error, (RequestTimeoutError, ConnectionClosedError)):
            # Some servers ignore a first message that they do not expect, or end at it.
            return isinstance(first.lifecycle, Stateless) and not is_over_http(upstream)
        if isinstance(error, InvalidResponseError):  # A page, or nothing, as some answer what they do not expect.
            return isinstance(first.lifecycle, Stateless)
        if not isinstance(error, (RemoteJSONRPCError, HTTPStatusError)):
            return False
        code = error.code if isinstance(error, RemoteJSONRPCError) else 0
        return bool(supported_versions(error)) or may_know_other_lifecycle(error.status, code, first)

    async def _negotiate(
        self, upstream: OpenUpstream, first: Revision, client: ClientDetails, is_patient: bool
    ) -> None:
        capabilities = Translation(client.revision, first, self.losses).client_capabilities(client.capabilities)
        upstream.client_capabilities = capabilities
        lifecycle = first.lifecycle
        if isinstance(lifecycle, Handshake):
            await self._initialize(upstream, lifecycle, capabilities, client)
        else:
            await self._discover(upstream, lifecycle, capabilities, client, is_patient)

    async def _initialize(
        self, upstream: OpenUpstream, lifecycle: Handshake, capabilities: Capabilities, client: ClientDetails
    ) -> None:
        session, names, began = upstream.session, lifecycle.fields, asyncio.get_running_loop().time()
        params = {
            names.version: upstream.revision.id,
            names.client_capabilities: capabilities,
            names.client_info: client.info,
        }
        result = await self._request(session, lifecycle.initialize_request.method, params, self.connector.open_seconds)
        version = result.get(names.version)
        revision = next((item for item in self._revisions if item.id == version), None)
        if revision is None or not isinstance(revision.lifecycle, Handshake):
            ids = ", ".join(item.id for item in self._revisions)
            raise LocalError(f"the server supports {version!r}, and not one of {ids}")
        self._use(upstream, revision)
        upstream.capabilities = result.get(names.server_capabilities) or {}
        upstream.details = result
        initialized = raw_notification(lifecycle.initialized.method, FROM_CLIENT)
        await send_initialized(session, initialized, began, self.connector.open_seconds)

    async def _discover(
        self,
        upstream: OpenUpstream,
        lifecycle: Stateless,
        capabilities: Capabilities,
        client: ClientDetails,
        is_patient: bool,
    ) -> None:
        upstream.request_meta = {
            f"{META}protocolVersion": upstream.revision.id,
            f"{META}clientInfo": client.info,
            f"{META}clientCapabilities": capabilities,
        }
        has_handshake = any(isinstance(revision.lifecycle, Handshake) for revision in self._revisions)
        may_ignore = not is_over_http(upstream) and self._absent is None and not is_patient and has_handshake
        seconds = _PROBE_SECONDS if may_ignore else self.connector.open_seconds
        params = {"_meta": upstream.request_meta}
        result = await self._request(upstream.session, lifecycle.discover.method, params, seconds)
        versions = result.get("supportedVersions")
        if not is_list(versions) or upstream.revision.id not in versions:
            raise RemoteJSONRPCError(0, "unsupported protocol version", {"supported": versions or ["unknown"]})
        self._use(upstream, upstream.revision)
        upstream.capabilities = result.get("capabilities") or {}
        upstream.details = result

    async def _request(
        self, session: UpstreamSession, method: str, params: dict[str, Any], seconds: float | None
    ) -> dict[str, Any]:
        result = await session.send_request(raw_request(method, FROM_CLIENT), params, RequestOptions(timeout=seconds))
        value = result.value if isinstance(result, RawResult) else None
        if not is_object(value):
            raise InvalidResponseError(f"the result of {method!r} is not an object")
        return value

    def _use(self, upstream: OpenUpstream, revision: Revision) -> None:
        upstream.revision = upstream.session.connection.revision = revision
        upstream.session.connection.enter_phase(Phase.OPEN)
        transport = upstream.session.transport
        if isinstance(transport, RequestTransport):
            transport.set_revision(revision, lambda: self._revisions)


def is_over_http(upstream: OpenUpstream) -> bool:
    """Return True if each request of an upstream is a request of HTTP, which gets an answer in any case."""
    return isinstance(upstream.session.transport, RequestTransport)


def chosen_revisions(package: str, choice: RevisionChoice) -> list[Revision]:
    """Return those of `revisions_of` that a choice has. Raises LocalError for an unknown id."""
    revisions = revisions_of(package)
    known = [revision.id for revision in revisions]
    for id in () if choice == "all" else choice:
        if id not in known:
            raise LocalError(f"there is no protocol version {id!r}; there are {', '.join(known)}")
    return [revision for revision in revisions if choice == "all" or revision.id in choice]


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
