"""The client core: connection, negotiation, requests and handlers, independent of transports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack, cast

from pydantic import BaseModel

from ..aio import forks
from ..aio.trio_programs.trio_tasks import shielded_from_scopes
from ..endpoint.extensions import Extension
from ..endpoint.requests import ResultT
from ..endpoint.revision_ids import check_revisions
from ..errors import ConnectionClosedError, HTTPStatusError, LocalError, RemoteJSONRPCError, RequestTimeoutError
from ..protocol.capabilities import Capabilities, merge, required_extensions
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.model_methods import ServerDetails
from ..protocol.revision import META, Direction, Handshake, InputRequest, Request, Stateless
from ..session.current_request import FORWARDING, set_current_request
from ..session.interfaces import Candidate, Channel, Connect, RevisionChoice
from ..session.left_out import report_left_out
from ..session.options import DEFAULT_OPTIONS, Params, RequestKeywords, RequestOptions, with_timeout_of
from ..session.session import Session
from ..session.tracing import Handle, with_trace_context
from ..usage.keywords import checked
from .answering.handler_limits import prepare_handlers
from .cache import ClientResponseCache
from .constructor import RULES, EventKeywords, capabilities_property
from .context import ClientContext as ClientContext
from .fallback import (
    OpeningError,
    discovery_options,
    other_candidates,
    send_initialized,
    set_transport_revision,
    supported_versions,
)
from .input_required import InputAnswers
from .observation.factory import new_observer, observer_for_log, open_session
from .ping import ping_regularly
from .roots import FileRoots
from .subscription_manager import SubscriptionManager

if TYPE_CHECKING:
    from .observation.observer import ClientObserver, OnClose, OnError

# A server may take long to start, however short the timeout of the requests is.
_OPEN: Final = RequestOptions(timeout=60.0)


class ClientCore(InputAnswers):
    """A client: `async with` connects to the server, and disconnects.

    Attributes:
        name: The name of the client.
        version: The version of the client.
        capabilities: The capabilities that the client declares.
    """

    _receives: ClassVar[Direction] = "server_to_client"
    _server: BaseModel | None = None
    _session: Session | None = None
    _runner: asyncio.Task[None] | None = None
    _observer: ClientObserver | None = None

    @checked(EventKeywords, rules=RULES, example="Client.http(url) or Client.stdio(*words)")
    def __init__(
        self,
        connect: Connect,
        *,
        name: str = "mcp-codegen",
        version: str = "0",
        capabilities: Mapping[str, Any] | None = None,
        connect_options: RequestOptions = DEFAULT_OPTIONS,
        ping_interval: float | None = None,
        revisions: RevisionChoice = (),
        extensions: Sequence[Extension] = (),
        cache: ClientResponseCache | bool = True,
        roots: FileRoots | None = None,
        timeout: float | None = 60.0,
        **events: Unpack[EventKeywords],
    ) -> None:
        """Create a client. It declares the capabilities of the `on_…` methods that its class overrides.

        Args:
            connect: An async function that opens the transport; `stdio`, `http` and `memory` provide one.
            name: The name of the client, sent to the server in `clientInfo`.
            version: The version of the client, sent to the server in `clientInfo`.
            capabilities: Further capabilities to declare, as JSON, such as `{"roots": {"listChanged": True}}`.
            connect_options: The options of the first requests; by default a timeout of 60 seconds.
            ping_interval: The seconds between two pings and the timeout of each, in protocol versions with pings: the
                connection is closed if the server does not answer in time. By default no pings are sent.
            revisions: Protocol versions that may be negotiated besides the client's own: "all", or ids. Default: none.
            extensions: The generated packages of protocol extensions to declare.
            cache: True (the default) to cache results for as long as the server allows, False to cache nothing, or a
                cache that is shared with other clients: `ResponseCache.for_user`.
            roots: The files and folders to list when the server requests the roots.
            timeout: Seconds to wait for the result of a request that has no timeout; None waits without limit.
            events: What the client answers and reports: `rate_limits`, `on_close`, `on_error` and `strict`, see
                `EventKeywords`.

        Raises TypeError for an unknown keyword, and LocalError for values that are wrong or contradict another.
        """
        check_revisions(type(self).__name__, revisions, self.revision)
        super().__init__(capabilities, extensions)
        self._strict = events.get("strict", False)
        self._file_roots = roots
        self._rate_limits = events.get("rate_limits")
        self._prepare_handlers()
        self._observe(events.get("on_close"), events.get("on_error"))
        self.name = name
        self.version = version
        self._connect = connect
        self._revisions = revisions
        self._ping_interval = ping_interval
        self._options = RequestOptions(timeout=timeout)
        self._connect_options = with_timeout_of(connect_options, _OPEN)
        self._background: list[asyncio.Task[None]] = []  # They end with the connection.
        self._cache = ClientResponseCache() if cache is True else cache or None
        self._subscriptions = SubscriptionManager(
            self.revision, self._require_channel, self._send_request, self._build_params, self._cache
        )
        self.capabilities = self._client_capabilities(extensions)

    @property
    def server(self) -> ServerDetails:
        """The result of `initialize` or of discovery: the name, version, title, instructions and capabilities of the
        server.

        Raises ConnectionClosedError before the client is connected.
        """
        if self._server is None:
            raise ConnectionClosedError("the client has no server before it is connected; use `async with`")
        return cast(ServerDetails, self._server)

    def _prepare_handlers(self) -> None:
        if self._file_roots is not None:
            self._file_roots.add_handler(self._handlers, self.revision)
        prepare_handlers(self._handlers, self.revision, self._rate_limits, type(self).__name__)

    def _observe(self, on_close: OnClose | None, on_error: OnError | None) -> None:
        """Add callbacks for the end of the connection and for errors that no call raises."""
        if on_close is not None or on_error is not None:
            self._observer = self._observer or new_observer()
            self._observer.add(on_close, on_error)

    def _client_capabilities(self, extensions: Sequence[Extension]) -> Capabilities:
        capabilities = self._declared_capabilities(*capabilities_property(self.revision))
        for extension in extensions:
            merge(capabilities, required_extensions(extension.methods.REVISION, "client"))
        if self._file_roots is not None:
            merge(capabilities, self._file_roots.capabilities(self.revision))
        return capabilities

    def _require_channel(self) -> Session:
        return self._session or cast(Session, super()._require_channel())

    async def _send_request(
        self,
        row: Request[ResultT] | InputRequest[ResultT],
        params: Params,
        options: RequestOptions | None,
        keywords: RequestKeywords | None = None,
    ) -> ResultT:
        options = self._options if options is None else with_timeout_of(options, self._options)
        if keywords:
            options = self._with_keywords(row.name, options, keywords)
        if self._cache is not None and isinstance(row, Request) and row.cacheable:
            send = partial(super()._send_request, row, params, options)
            result: Any = await self._cache.request(self.revision.id, row, params, options, send)
        else:
            result = await super()._send_request(row, params, options)
        if isinstance(result, row.result) or not isinstance(row, Request):
            return cast("ResultT", result)
        result = await self._resolve_input_required(row, params, result, options)
        if not isinstance(result, row.result_types):  # A task, which only an extension has as a result.
            result = await self._wait_for_task(result, options)
        return cast("ResultT", result)

    # ---- opening and closing -----------------------------------------------------------------------------------------

    async def _open(self, candidates: Sequence[Candidate[ClientCore]]) -> ClientCore:
        """Connect to the server, and return the candidate of the negotiated protocol version."""
        root_uris = [] if self._file_roots is None else await self._file_roots.current_uris()
        self._observer = self._observer or observer_for_log()
        if self._observer is not None:
            self._observer.connecting()
        transport = await self._connect()
        connection = self._new_connection()
        session = open_session(self._observer, connection, transport, self._message_handler())
        set_transport_revision(session, self.revision, candidates)
        runner = self._runner = asyncio.create_task(session.run())
        self._session = session
        try:
            negotiated = await self._negotiate(session, candidates)
        except BaseException:
            self._session = session  # The client of another version may have had both.
            self._runner = runner
            await self.close()
            raise
        negotiated._start_background(session, root_uris)
        return negotiated

    def _new_connection(self) -> Connection:
        connection = Connection(self.revision, "client", local_capabilities=self.capabilities)
        if not self._strict:
            connection.report_left_out = report_left_out
        return connection

    def _start_background(self, session: Session, root_uris: list[str]) -> None:
        """Start the tasks that end with the connection; `root_uris` are the URIs of the roots before it was opened."""
        if self._observer is not None:
            self._observer.connected(session, self._server, self.revision.id)
        lifecycle = self.revision.lifecycle
        if self._ping_interval is not None and isinstance(lifecycle, Handshake):
            send_ping = partial(self._send_request, lifecycle.ping_request, {})
            self._background.append(asyncio.create_task(ping_regularly(session, send_ping, self._ping_interval)))
        if self._file_roots is not None and (row := self._file_roots.list_changed_row(self.revision)) is not None:
            watching = self._file_roots.watch(root_uris, session.closed, partial(session.send_notification, row, None))
            self._background.append(asyncio.create_task(watching))

    async def close(self) -> None:
        """Close the connection. May be called more than once, and from any asyncio task."""
        session, runner, background = self._session, self._runner, self._background
        self._session = None
        self._runner = None
        self._background = []
        if session is not None and session.forks != forks.count:
            return  # The connection is that of the parent of this process, which goes on with it.
        if self._observer is not None:
            self._observer.is_closing = True
        for task in background:
            task.cancel()
        with shielded_from_scopes():
            if session is not None:
                await session.close()
            if runner is not None:
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([runner, *background])
            if self._observer is not None and session is not None:
                await self._observer.finish()

    async def _negotiate(self, session: Session, candidates: Sequence[Candidate[ClientCore]]) -> ClientCore:
        if isinstance(lifecycle := self.revision.lifecycle, Stateless):
            return await self._discover(session, lifecycle, candidates)
        return await self._initialize(session, lifecycle, candidates)

    async def _initialize(
        self, session: Session, lifecycle: Handshake, candidates: Sequence[Candidate[ClientCore]]
    ) -> ClientCore:
        """Send `initialize`, and return the candidate of the protocol version that the server chooses. Raises
        LocalError if no candidate has that version.

        See https://modelcontextprotocol.io/specification/draft/basic/lifecycle#version-negotiation
        """
        names, began = lifecycle.fields, asyncio.get_running_loop().time()
        params = {
            names.version: self.revision.id,
            names.client_capabilities: self.capabilities,
            names.client_info: {"name": self.name, "version": self.version},
        }
        result = cast(BaseModel, await self._send_request(lifecycle.initialize_request, params, self._connect_options))
        version = (fields := result.model_dump())[names.version]
        candidate = next((candidate for candidate in candidates if candidate.revision_id == version), None)
        if candidate is None:
            ids = ", ".join(candidate.revision_id for candidate in candidates)
            raise LocalError(f"the server supports {version!r}, this client {ids}")
        negotiated = candidate.get()
        session.connection.local_capabilities = negotiated.capabilities
        session.connection.negotiated(negotiated.revision, fields[names.server_capabilities])
        set_transport_revision(session, negotiated.revision, candidates)
        self._transfer_session(negotiated, result)
        negotiated_lifecycle = negotiated.revision.lifecycle
        assert isinstance(negotiated_lifecycle, Handshake), "initialize negotiated a version without a handshake"
        await send_initialized(session, negotiated_lifecycle.initialized, began, self._connect_options.timeout)
        return negotiated

    async def _discover(
        self, session: Session, lifecycle: Stateless, candidates: Sequence[Candidate[ClientCore]]
    ) -> ClientCore:
        """Discover a stateless server. One that does not serve this version is asked in another one that it lists, and
        one with a handshake lifecycle in the newest candidate that has one."""
        self._request_meta = {
            f"{META}protocolVersion": self.revision.id,
            f"{META}clientInfo": {"name": self.name, "version": self.version},
            f"{META}clientCapabilities": self.capabilities,
        }
        options = discovery_options(self._connect_options, session, candidates)
        try:
            result: Any = await super()._send_request(lifecycle.discover, {}, options)
        except RequestTimeoutError as error:
            connection, meta, runner = session.connection, self._request_meta, self._runner
            if options is self._connect_options:
                raise
            try:
                return await self._fall_back(session, error, candidates)
            except RemoteJSONRPCError:
                connection.last_id = session.connection.last_id
                session.connection = connection
                self._request_meta = meta
                self._session = session
                self._runner = runner
                session.handle = self._message_handler()
            result = await super()._send_request(lifecycle.discover, {}, self._connect_options)
        except (RemoteJSONRPCError, HTTPStatusError) as error:
            if self.revision.id not in supported_versions(error):
                return await self._fall_back(session, error, candidates)
            # The error lists this version as supported: the second request may succeed.
            result = await super()._send_request(lifecycle.discover, {}, self._connect_options)
        if self.revision.id not in (supported := result.supported_versions):
            others = [item for item in candidates if not item.stateful and item.revision_id in supported]
            if others:
                return await self._change_version(session, others)
            ids = ", ".join(candidate.revision_id for candidate in candidates) or self.revision.id
            raise LocalError(f"the server supports {', '.join(supported)}, this client {ids}")
        session.connection.negotiated(self.revision, result.capabilities.model_dump())
        set_transport_revision(session, self.revision, candidates)
        self._server = result
        return self

    async def _fall_back(
        self, session: Session, error: OpeningError, candidates: Sequence[Candidate[ClientCore]]
    ) -> ClientCore:
        """Negotiate another version over the same transport: a stateless one that the error lists, or else the newest
        that has a handshake lifecycle."""
        others = other_candidates(self.revision, error, candidates)
        if not others:
            raise LocalError(f"the server does not support {self.revision.id}: {error}") from error
        last_id = session.connection.last_id if isinstance(error, RequestTimeoutError) else 0
        return await self._change_version(session, others, last_id)

    async def _change_version(
        self, session: Session, candidates: Sequence[Candidate[ClientCore]], last_id: int = 0
    ) -> ClientCore:
        """Negotiate the version of the last of these candidates, and then those before it."""
        client = candidates[-1].get()
        self._request_meta = {}
        session.connection = client._new_connection()
        session.connection.last_id = last_id  # The response to the first request may still arrive.
        set_transport_revision(session, client.revision, candidates)
        self._transfer_session(client, None)
        return await client._negotiate(session, candidates)

    def _transfer_session(self, negotiated: ClientCore, server: BaseModel | None) -> None:
        """Give the session to the client of the negotiated protocol version."""
        negotiated._server = server
        negotiated._observer = self._observer
        if negotiated is not self:
            negotiated._session = self._session
            negotiated._runner = self._runner
            self._session = self._runner = None
            assert negotiated._session is not None
            negotiated._session.handle = negotiated._message_handler()

    def _message_handler(self) -> Handle:
        """Return the function that handles the messages of the server."""
        handle = with_trace_context(self._handle_message)
        return handle if self._observer is None else self._observer.watching(handle)

    async def _handle_message(self, session: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Return the result of a message: of a ping here, of others from the handler."""
        if FORWARDING.is_on:  # A server of this process may have sent the message in the context of a request.
            set_current_request(None)
        lifecycle, row = session.connection.revision.lifecycle, message.row
        if (
            isinstance(lifecycle, Handshake)
            and isinstance(message, RequestReceived)
            and row.method == lifecycle.ping_request.method
        ):
            return message.row.result()
        if isinstance(message, NotificationReceived):
            self._subscriptions.dispatch(message.row, message.params)
        handler = self._handlers.get(row.method)
        if handler is None:
            if isinstance(message, RequestReceived):
                raise self._not_handled(row)
            return None
        return await handler(ClientContext(session, message, self), message.params)
