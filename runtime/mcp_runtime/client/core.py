"""The client core: connection, negotiation, requests and handlers, independent of transports."""

# pyright: reportPrivateUsage=false
# The parts of a client are made beside it.
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from types import NoneType
from typing import Any, ClassVar, Final, TypeAlias, TypedDict, Unpack, cast, get_args

from pydantic import BaseModel

from .. import products
from .._lazy import load
from ..aio import forks
from ..aio.rates import RateLimit
from ..aio.tasks import shielded_from_scopes
from ..endpoint.base import Extension, Handler, check_revisions, own_params, to_async
from ..endpoint.context import ClientContext as ClientContext
from ..endpoint.requests import ResultT, send_notification, send_request
from ..errors import (
    ConnectionClosedError,
    LocalError,
    MCPError,
    RemoteError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from ..protocol.connection import Connection, NotificationReceived, RequestReceived
from ..protocol.lifecycle import Capabilities, is_declared, merge, parse_capability_path, required_extensions
from ..protocol.model_methods import ServerDetails
from ..protocol.revision import (
    LOG_LEVEL,
    META,
    Direction,
    Handshake,
    InputRequest,
    Notification,
    Request,
    Revision,
    Stateless,
    own_row,
)
from ..session.instruments import (
    ClientObserver,
    Handle,
    OnClose,
    OnError,
    new_observer,
    observer_for_log,
    report_left_out,
    with_trace_context,
)
from ..session.interfaces import (
    FORWARDING,
    Candidate,
    Channel,
    Connect,
    RevisionChoice,
    other_versions,
    set_current_request,
)
from ..session.requests import DEFAULT_OPTIONS, Params, RequestKeywords, RequestOptions, with_timeout_of
from ..session.session import Session
from ..usage.keywords import checked
from ..usage.rules import FLAG, FUNCTION, MAPPING, SECONDS, TEXT, Rule, is_items, like
from .input_required import InputAnswers, prepare_handlers
from .negotiation import discovery_options, send_initialized, set_transport_revision, supported_versions
from .subscriptions import ClientRoots, ResultCache, SubscriptionManager

DISTRIBUTION: Final = "mcp-generated"
# A server may take long to start, however short the timeout of the requests is.
_OPEN: Final = RequestOptions(timeout=60.0)
_log: Final = logging.getLogger("mcp_runtime.client.observer")
_calls: Final = logging.getLogger("mcp_runtime.client.calls")
WaitForTask: TypeAlias = "Callable[[BaseModel, RequestOptions | None], Awaitable[Any]]"

# What the arguments of a client's constructor must be.


class EventKeywords(TypedDict, total=False):
    """The keywords of a client for what the server requests, and for what happens to the connection.

    Attributes:
        rate_limits: How many requests of the server the client answers, by handler, such as
            `{"on_elicit": RateLimit(per_second=0.1, burst=5)}`; further ones get an error. `on_create_message` and
            `on_elicit` are limited to 1 a second (after the first 60) unless their value here is None.
        on_close: A function, or an `async def`, that is called when the connection has ended: with None if this
            client has closed it, else with the error.
        on_error: A function, or an `async def`, that is called with errors that no call raises: of a handler, and of
            an invalid message of the server.
        strict: True to refuse a message of the server of which any part is wrong, for tests of servers. By default such
            a part, such as a tool of a list or an icon of a tool, is left out with a warning in the log.
    """

    rate_limits: Mapping[str, RateLimit | None] | None
    on_close: OnClose | None
    on_error: OnError | None
    strict: bool


_CACHE: Final = like("a ClientResponseCache", "handle_change")


def _are_packages(value: Any) -> bool:
    return is_items(value) and all(hasattr(item, "methods") for item in value)


def _are_rate_limits(value: Any) -> bool:
    return MAPPING.accepts(value) and all(item is None or isinstance(item, RateLimit) for item in value.values())


RULES: Final[Mapping[str, Rule]] = {
    "connect": Rule(FUNCTION.accepts, "an async function: write Client.http(url), or Client.stdio(*words)"),
    "name": TEXT,
    "version": TEXT.or_none(),
    "capabilities": Rule(MAPPING.accepts, 'a dict, such as {"roots": {}}').or_none(),
    "connect_options": Rule(lambda value: isinstance(value, RequestOptions), "RequestOptions(timeout=…)"),
    "ping_interval": SECONDS.or_none(),
    "timeout": SECONDS.or_none(),
    "rate_limits": Rule(_are_rate_limits, 'a dict such as {"on_elicit": RateLimit(1, burst=5)}').or_none(),
    "strict": FLAG,
    "on_close": Rule(callable, "a function of an error or None").or_none(),
    "on_error": Rule(callable, "a function of an exception").or_none(),
    "extensions": Rule(_are_packages, "a list of packages of mcp_generated.extensions"),
    "cache": Rule(lambda it: isinstance(it, bool) or _CACHE.accepts(it), "True, False or a ClientResponseCache"),
    "roots": like('FileRoots("folder", …)', "list_changed_row").or_none(),
}


# How a client identifies itself to servers, unless its program has a name: no other module has a name for it.


@cache
def package_version() -> str:
    """Return the version of this package; "0" for a generated package that has a copy of it."""
    metadata = load("importlib.metadata")  # Costs more than the client.
    try:
        version: str = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        version = "0"
    return version


def package_details() -> dict[str, str]:
    """Return the `clientInfo` of a client that speaks for no program of its own, as a bridge's first request."""
    return {"name": DISTRIBUTION, "version": package_version()}


def capabilities_property(revision: Revision) -> tuple[Any, str]:
    """Return the type of the message that declares the client's capabilities, and the property of it."""
    lifecycle = revision.lifecycle
    if isinstance(lifecycle, Handshake):
        return lifecycle.initialize_request.params, lifecycle.fields.client_capabilities
    annotation = lifecycle.discover.params.__pydantic_fields__["meta"].annotation
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]  # Of optional metadata.
    return (kinds or [annotation])[0], "client_capabilities"


def _own_cache() -> ResultCache | None:
    """Return a cache that no other client has; None where the product is not there, so that nothing is cached."""
    product = products.find("result_cache")
    return None if product is None else cast("ResultCache", product.new_cache())


class ClientParts:
    """What adapters, relays and products take of a client, as it is now: one object, so that no generated method of the
    client can hide what it has.

    Attributes:
        handlers: The handlers by method.
        wait_for_task: Returns the result of a request that was answered with a task.
        negotiated: The protocol version that was negotiated; before that, the client's own.
        own: The handlers of messages that the protocol does not have, by method and kind.
        connect: The function that opens the transport.
        connect_options: The options of the first requests.
        session: The open connection; None without one.
        background: The tasks that end with the connection.
        observer: What is told about the connection; None if nobody listens.
        open: Connects to the server, and returns the candidate of the negotiated protocol version.
        observe: Adds callbacks for the end of the connection and for errors that no call raises.
        wrap_handlers: Collects the handlers anew, each as a function returns it.
        unwrap_handlers: Collects the handlers anew, as the class has them.
    """

    def __init__(self, client: ClientCore, handlers: dict[str, Handler], wait_for_task: WaitForTask) -> None:
        """Create the parts of a client, with its handlers by method."""
        self.handlers = handlers
        self.wait_for_task = wait_for_task
        self.own = client._own
        self.negotiated = (client._adapter() or client).revision
        self.connect = client._connect
        self.connect_options = client._connect_options
        self.session = client._session
        self.background = client._background
        self.observer = client._observer
        self.open = client._open
        self.observe = client._observe
        self.wrap_handlers = client._wrap_handlers
        self.unwrap_handlers = client._unwrap_handlers


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
    _log_level: str | None = None

    @checked(EventKeywords, rules=RULES, example="Client.http(url) or Client.stdio(*words)")
    def __init__(
        self,
        connect: Connect,
        *,
        name: str = DISTRIBUTION,
        version: str | None = None,
        capabilities: Mapping[str, Any] | None = None,
        connect_options: RequestOptions = DEFAULT_OPTIONS,
        ping_interval: float | None = None,
        revisions: RevisionChoice = (),
        extensions: Sequence[Extension] = (),
        cache: ResultCache | bool = True,
        roots: ClientRoots | None = None,
        timeout: float | None = 60.0,
        **events: Unpack[EventKeywords],
    ) -> None:
        """Create a client. It declares the capabilities of the `on_…` methods that its class overrides.

        Args:
            connect: An async function that opens the transport; `stdio`, `http` and `memory` provide one.
            name: The name of the program, sent to the server in `clientInfo`; by default that of this package.
            version: The version of the program, sent to the server in `clientInfo`; by default that of this package, or
                "0" with another name.
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
        self.version = version if version is not None else package_version() if name == DISTRIBUTION else "0"
        self._connect = connect
        self._revisions = revisions
        self._ping_interval = ping_interval
        self._options = RequestOptions(timeout=timeout)
        self._own: dict[tuple[str, type[Any]], Handler] = {}
        self._user_client: ClientCore = self  # The one that an adapter adapts.
        self._connect_options = with_timeout_of(connect_options, _OPEN)
        self._background: list[asyncio.Task[None]] = []  # They end with the connection.
        self._cache = _own_cache() if cache is True else cache or None
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
            raise ConnectionClosedError("a client that is not connected has no server; use `async with`, or `with`")
        return cast(ServerDetails, self._server)

    async def request_log_level(self, level: str | None) -> None:
        """Request the log messages of a severity and above, from the next request on; of a server that has none,
        nothing.

        In a handshake lifecycle this is a request of its own, and None changes nothing. In a stateless one each request
        has the level, and None requests none.
        """
        if (adapter := self._adapter()) is not None:
            await adapter.request_log_level(level)
            return
        self._log_level = level
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            others = {name: value for name, value in self._request_meta.items() if name != LOG_LEVEL}
            self._request_meta = {**others, **self._log_meta()}
            return
        row, declared = lifecycle.set_level, self._require_channel().connection.remote_capabilities
        if level is not None and row is not None and is_declared(declared, parse_capability_path(row.capability)[1]):
            await self._send_request(row, {"level": level}, None)

    async def request_sign_of_life(self, options: RequestOptions | None = None) -> None:
        """Send the request that only shows that the server responds: a ping, or discovery in a stateless lifecycle.

        Raises MCPError.
        """
        if (adapter := self._adapter()) is not None:
            await adapter.request_sign_of_life(options)
            return
        lifecycle = self.revision.lifecycle
        row = lifecycle.discover if isinstance(lifecycle, Stateless) else lifecycle.ping_request
        await self._send_request(row, {}, replace(with_timeout_of(options, self._options), bypass_cache=True))

    def options_with(
        self, method: str, options: RequestOptions | None, keywords: RequestKeywords
    ) -> RequestOptions | None:
        """Return the options of a request with other values. Raises TypeError for an unknown keyword."""
        return self._with_keywords(method, options, keywords) if keywords else options

    async def request_own(self, method: str, params: Params, options: RequestOptions | None = None) -> dict[str, Any]:
        """Send a request that the protocol does not have, and return its result as JSON. Raises MCPError."""
        sender = self._adapter() or self
        return own_params(await send_request(sender, own_row(sender.revision, method, Request), params, options))

    async def notify_own(self, method: str, params: Params) -> None:
        """Send a notification that the protocol does not have. Raises MCPError."""
        sender = self._adapter() or self
        await send_notification(sender, own_row(sender.revision, method, Notification), params)

    @property
    def parts(self) -> ClientParts:
        """What adapters, relays and products take of the client; not for users."""
        return ClientParts(self, self._handlers, self._wait_for_task)

    def _wrap_handlers(self, wrap: Callable[[Handler], Handler], wrap_callback: Any) -> None:
        """Collect the handlers anew, each as `wrap` returns it; call callbacks through `wrap_callback`, if any."""
        self._to_async = wrap  # type: ignore[assignment, method-assign]
        self._handlers = self._overridden_handlers()
        self._prepare_handlers()
        if self._observer is not None:
            self._observer.wrap = wrap_callback

    def _unwrap_handlers(self) -> None:
        """Collect the handlers anew, as the class has them."""
        self._wrap_handlers(to_async, None)
        vars(self).pop("_to_async")

    def _adapt(self, client: ClientCore) -> None:
        """Make this client, of another protocol version, one with the settings of `client`."""
        ClientCore.__init__(
            self,
            client._connect,
            name=client.name,
            version=client.version,
            connect_options=client._connect_options,
            ping_interval=client._ping_interval,
            cache=client._cache or False,
            timeout=client._options.timeout,
            strict=client._strict,
            roots=client._file_roots,
        )
        self._observer = client._observer
        self._own = client._own
        self._user_client = client

    def _give_connection(self, client: ClientCore, session: Any, server: BaseModel) -> None:
        """Give the connection to `client`, which sends its messages through this one from then on; `session` and
        `server` are in its protocol version."""
        client._session = session
        client._runner = self._runner
        client._background = self._background
        client._subscriptions = self._subscriptions
        client._observer = self._observer
        self._runner = None
        self._background = []
        if isinstance(client.revision.lifecycle, Stateless):
            client._request_meta = {
                f"{META}protocolVersion": client.revision.id,
                f"{META}clientCapabilities": client.capabilities,
            }
        client._server = server

    def _adapter(self) -> ClientCore | None:
        """Return what sends the messages in another protocol version than this client's; None if nothing does."""
        return getattr(self._session, "adapter", None)

    def _log_meta(self) -> dict[str, Any]:
        return {} if self._log_level is None else {LOG_LEVEL: self._log_level}

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
        self._observer = self._observer or observer_for_log(_calls)
        if self._observer is not None:
            self._observer.connecting()
        transport = await self._connect()
        connection = self._new_connection()
        open_session = Session if self._observer is None else self._observer.open_session
        session = open_session(connection, transport, self._message_handler())
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
        connection.own = self._own
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
            **self._log_meta(),
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
        except RemoteError as error:
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
        self,
        session: Session,
        error: RemoteError | RequestTimeoutError,
        candidates: Sequence[Candidate[ClientCore]],
    ) -> ClientCore:
        """Negotiate another version over the same transport: a stateless one that the error lists, or else the newest
        that has a handshake lifecycle."""
        versions = other_versions()
        others = versions.other_candidates(self.revision, error, candidates) if versions is not None else ()
        if not others:
            if (status := getattr(error, "status", None) or 0) in (401, 403, 429) or status >= 500:
                raise error  # It is not about the version.
            raise LocalError(f"the server does not support {self.revision.id}: {error}") from error
        return await self._change_version(session, others)

    async def _change_version(self, session: Session, candidates: Sequence[Candidate[ClientCore]]) -> ClientCore:
        """Negotiate the version of the last of these candidates, and then those before it."""
        client = candidates[-1].get()
        self._request_meta = {}
        last_id = session.connection.last_id
        session.connection = client._new_connection()
        session.connection.last_id = last_id  # The response to the first request may still arrive, or arrive twice.
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
        if handler is None and row.is_own:
            handler = self._user_client._to_async(self._own[row.method, type(row)])
        if handler is None:
            if isinstance(message, RequestReceived):
                raise self._not_handled(row)
            return None
        return await handler(ClientContext(session, message, self), message.params)


async def ping_regularly(
    session: Session, send_ping: Callable[[RequestOptions], Awaitable[Any]], interval: float
) -> None:
    """Send a ping every `interval` seconds; close the session if there is no response within as many seconds.

    See https://modelcontextprotocol.io/specification/draft/basic/utilities/ping

    Args:
        session: The session to close.
        send_ping: A function that sends the request with these options.
        interval: The seconds between two pings, and the timeout of each.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            await send_ping(RequestOptions(timeout=interval))
        except MCPError as error:
            _log.warning("the server does not answer pings, and the connection is closed: %s", error)
            await session.close()
            return
