"""Clients: a way to connect goes in, and an open conversation comes out of `async with`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, cast

from pydantic import BaseModel

from ..endpoint.base import Endpoint
from ..endpoint.context import Context
from ..endpoint.extensions import Extension
from ..endpoint.requests import ResultT
from ..errors import HTTPStatusError, LocalError, MCPError, RemoteJSONRPCError
from ..protocol.capabilities import merge, required_extensions
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.revision import (
    META,
    Direction,
    Handshake,
    InputRequest,
    Request,
    Revision,
    Stateless,
)
from ..session.interfaces import (
    Candidate,
    Channel,
    Connect,
    RequestTransport,
    RevisionChoice,
)
from ..session.options import DEFAULT_OPTIONS, Params, RequestOptions
from ..session.session import Session
from ..session.tracing import with_trace_context
from .cache import ClientResponseCache
from .fallback import legacy_candidates, supported_versions
from .roots import FileRoots
from .subscriptions import SubscriptionManager

_log: Final = logging.getLogger(__name__)


class ClientContext(Context):
    """What a client's handler knows of the message it handles; `state` is the client."""


class ClientCore(Endpoint):
    """A client: `async with` opens the conversation, and ends it.

    `capabilities` are declared beside those that the overridden methods declare, such as
    `{"roots": {"listChanged": True}}`. `opening` says how the opening calls are made. With `keep_alive`, the server is
    asked every so many seconds whether it is still there, and the conversation ends where it does not answer in time.
    With `revisions`, servers of these are spoken to as well, and what is of another revision than its own is converted.
    `extensions` are generated packages: the client declares them. What a server says may be kept is kept: with `cache`,
    there, to be shared with other clients; with False, nowhere. `roots` are told to servers that ask for them.
    """

    _receives: ClassVar[Direction] = "server_to_client"

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
    ) -> None:
        super().__init__(capabilities, extensions)
        self._file_roots = roots
        if roots is not None:
            roots.add_handler(self._handlers, self.revision)
        self.name = name
        self.version = version
        self.server: BaseModel | None = None
        self._connect = connect
        self._session: Session | None = None
        self._connect_options = connect_options
        self._ping_interval = ping_interval
        self._revisions = revisions
        self._background: list[asyncio.Task[None]] = []  # What goes on as long as the conversation.
        self._runner: asyncio.Task[None] | None = None
        self._cache = ClientResponseCache() if cache is True else cache or None
        self.subscriptions = SubscriptionManager(
            self.revision, self._require_channel, self._send_request, self._build_params, self._cache
        )
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake):
            self.capabilities = self._declared_capabilities(
                lifecycle.initialize_request.params, lifecycle.fields.client_capabilities
            )
        else:
            meta = lifecycle.discover.params.model_fields["meta"].annotation
            self.capabilities = self._declared_capabilities(meta, "client_capabilities")
        for each in extensions:
            merge(self.capabilities, required_extensions(each.methods.REVISION, "client"))
        if roots is not None:
            merge(self.capabilities, roots.capabilities(self.revision))

    def _require_channel(self) -> Session:
        return self._session or cast(Session, super()._require_channel())

    async def _send_request(
        self, row: Request[ResultT] | InputRequest[ResultT], params: Params, options: RequestOptions | None
    ) -> ResultT:
        if self._cache is not None and isinstance(row, Request) and row.cacheable:
            ask = partial(super()._send_request, row, params, options)
            answer: Any = await self._cache.request(self.revision.id, row, params, options, ask)
        else:
            answer = await super()._send_request(row, params, options)
        if isinstance(answer, row.result) or not isinstance(row, Request):
            return cast("ResultT", answer)
        answer = await self._resolve_input_required(row, params, answer, options)
        if not isinstance(answer, row.result_types):  # A task, which the result type of an extension stands for.
            answer = await self._wait_for_task(answer, options)
        return cast("ResultT", answer)

    async def _resolve_input_required(
        self, row: Request[Any], params: Params, result: Any, options: RequestOptions | None
    ) -> Any:
        """Answer the input requests of a result with this client's handlers, and send the request again."""
        from .input_required import resolve_input_required

        arguments = params.model_dump() if isinstance(params, BaseModel) else dict(params)
        if arguments.get("inputResponses") is not None or arguments.get("requestState") is not None:
            return result  # The caller sends the rounds itself.
        rows = self._input_handlers()

        def is_answerable(result: Any) -> bool:
            if not hasattr(result, "input_requests"):
                return False
            input_requests: dict[str, Any] = result.input_requests or {}
            return all(input_request.method in rows for input_request in input_requests.values())

        async def answer(input_request: Any) -> Any:
            return await self._answer_input_request(rows[input_request.method], input_request.params)

        retry = partial(super()._send_request, row, options=options)
        return await resolve_input_required(
            row.method, arguments, result, is_answerable=is_answerable, answer=answer, retry=retry
        )

    async def _wait_for_task(self, task: BaseModel, options: RequestOptions | None) -> Any:
        """Return the result of the request that was answered with this task."""
        from .task_polling import TaskRequests, wait_for_task

        requests = TaskRequests(self.revision, self._send_request, self._input_handlers(), self._answer_input_request)
        return await wait_for_task(requests, task, options)

    def _input_handlers(self) -> dict[str, InputRequest[Any]]:
        rows = (row for row in self.revision.rows if isinstance(row, InputRequest))
        return {row.method: row for row in rows if row.method in self._handlers}

    async def _answer_input_request(self, row: InputRequest[Any], params: Any) -> Any:
        """What the handler says to a question inside a result."""
        asked = RequestReceived("", cast(Any, row), params)
        return await self._handlers[row.method](ClientContext(self._require_channel(), asked, self), params)

    # ---- opening and closing ------------------------------------------------------------------------------------------

    async def _open(self, candidates: Sequence[Candidate[ClientCore]]) -> ClientCore:
        """Connect, and open the conversation as that one of the candidates whose revision the server agrees to."""
        known = [] if self._file_roots is None else await self._file_roots.current_uris()
        transport = await self._connect()
        session = Session(
            Connection(self.revision, "client", local_capabilities=self.capabilities),
            transport,
            with_trace_context(self._handle_message),
        )
        _set_transport_revision(session, self.revision, candidates)
        self._runner = asyncio.create_task(session.run())
        self._session = session
        try:
            agreed = await self._negotiate(session, candidates)
        except BaseException:
            await self.close()
            raise
        agreed._start_background(session, known)
        return agreed

    def _start_background(self, session: Session, known_roots: list[str]) -> None:
        """Begin what goes on as long as the conversation; `known` are the roots that there were before it."""
        lifecycle = self.revision.lifecycle
        if self._ping_interval is not None and isinstance(lifecycle, Handshake):
            self._background.append(asyncio.create_task(self._ping(lifecycle.ping_request, self._ping_interval)))
        if self._file_roots is not None and (row := self._file_roots.list_changed_row(self.revision)) is not None:
            watching = self._file_roots.watch(
                known_roots, session.closed, partial(session.send_notification, row, None)
            )
            self._background.append(asyncio.create_task(watching))

    async def _ping(self, row: Request[Any], seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._send_request(row, {}, RequestOptions(timeout=seconds))
            except MCPError as fault:
                _log.warning("the server does not answer: %s", fault)
                if self._session is not None:
                    await self._session.close()
                return

    async def close(self) -> None:
        """End the conversation; more than once does no harm. Works from any task."""
        session, running, beside = self._session, self._runner, self._background
        self._session, self._runner, self._background = None, None, []
        for each in beside:
            each.cancel()
        if session is not None:
            await session.close()
        if running is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running, *beside])

    async def _negotiate(self, session: Session, candidates: Sequence[Candidate[ClientCore]]) -> ClientCore:
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            return await self._discover(session, lifecycle, candidates)
        return await self._initialize(session, lifecycle, candidates)

    async def _initialize(
        self, session: Session, lifecycle: Handshake, candidates: Sequence[Candidate[ClientCore]]
    ) -> ClientCore:
        """Offer this revision, and take the one the server answers with if it is one of the candidates'."""
        terms = lifecycle.fields
        offer = {
            terms.version: self.revision.id,
            terms.client_capabilities: self.capabilities,
            terms.client_info: {"name": self.name, "version": self.version},
        }
        result = cast(BaseModel, await self._send_request(lifecycle.initialize_request, offer, self._connect_options))
        said = result.model_dump()
        named = next((each for each in candidates if each.revision_id == said[terms.version]), None)
        if named is None:
            ids = ", ".join(each.revision_id for each in candidates)
            raise LocalError(f"the server speaks {said[terms.version]!r}, this client {ids}")
        agreed = named.get()
        session.connection.local_capabilities = agreed.capabilities
        session.connection.negotiated(agreed.revision, said[terms.server_capabilities])
        _set_transport_revision(session, agreed.revision)
        self._transfer_session(agreed, result)
        opened = agreed.revision.lifecycle
        assert isinstance(opened, Handshake), "a handshake was answered with a revision that has none"
        await session.send_notification(opened.initialized, None)
        return agreed

    async def _discover(
        self, session: Session, lifecycle: Stateless, candidates: Sequence[Candidate[ClientCore]]
    ) -> ClientCore:
        """Ask what the server is; where it is not of this lifecycle, shake hands as the newest candidate that can."""
        self._request_meta = {
            f"{META}protocolVersion": self.revision.id,
            f"{META}clientInfo": {"name": self.name, "version": self.version},
            f"{META}clientCapabilities": self.capabilities,
        }
        try:
            result: Any = await super()._send_request(lifecycle.discover, {}, self._connect_options)
        except (RemoteJSONRPCError, HTTPStatusError) as refused:
            if self.revision.id not in supported_versions(refused):
                return await self._fall_back(session, refused, candidates)
            result = await super()._send_request(
                lifecycle.discover, {}, self._connect_options
            )  # It does speak it, it says: once more.
        if self.revision.id not in result.supported_versions:
            raise LocalError(
                f"the server speaks {', '.join(result.supported_versions)}, this client {self.revision.id}"
            )
        session.connection.negotiated(self.revision, result.capabilities.model_dump())
        _set_transport_revision(session, self.revision)
        self.server = result
        return self

    async def _fall_back(
        self, session: Session, error: RemoteJSONRPCError | HTTPStatusError, candidates: Sequence[Candidate[ClientCore]]
    ) -> ClientCore:
        left = legacy_candidates(self.revision, error, candidates)
        if not left:
            raise LocalError(f"the server does not speak {self.revision.id}: {error}") from error
        other = left[-1].get()
        self._request_meta = {}
        session.connection = Connection(other.revision, "client", local_capabilities=other.capabilities)
        _set_transport_revision(session, other.revision, left)
        self._transfer_session(other, None)
        return await other._negotiate(session, left)

    def _transfer_session(self, negotiated: ClientCore, server: BaseModel | None) -> None:
        """Let another client of the same conversation go on with it."""
        negotiated.server = server
        if negotiated is not self:
            negotiated._session, negotiated._runner = self._session, self._runner
            self._session = self._runner = None
            assert negotiated._session is not None
            negotiated._session.handle = with_trace_context(negotiated._handle_message)

    async def _handle_message(self, session: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """The answer to a message: the runtime's own to a probe, else that of the handler."""
        lifecycle, row = session.connection.revision.lifecycle, message.row
        if (
            isinstance(lifecycle, Handshake)
            and isinstance(message, RequestReceived)
            and row.method == lifecycle.ping_request.method
        ):
            return message.row.result()
        if isinstance(message, NotificationReceived):
            self.subscriptions.dispatch(message.row, message.params)
        handler = self._handlers.get(row.method)
        if handler is None:
            if isinstance(message, RequestReceived):
                raise self._not_handled(row)
            return None
        return await handler(ClientContext(session, message, self), message.params)


def _set_transport_revision(
    session: Session, revision: Revision, candidates: Sequence[Candidate[ClientCore]] = ()
) -> None:
    """Tell a transport that wants to know of which revision the messages are from now on, and which others the server
    may agree to."""
    if isinstance(session.transport, RequestTransport):
        session.transport.set_revision(revision, lambda: (each.get().revision for each in candidates))
