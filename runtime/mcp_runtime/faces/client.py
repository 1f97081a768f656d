"""Clients: a way to connect goes in, and an open conversation comes out of `async with`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pydantic import BaseModel

from ..errors import ErrorResponse, LocalError, McpError, Rejected
from ..exchange import log
from ..lifecycle import extensions_needed, merge
from ..peer import Asked, Peer, Told
from ..seams import Exchanging, Speaker, Transport
from ..session import Session
from ..spec import META, Direction, Handshake, InputRequest, Request, Revision, Stateless
from .caching import Cache
from .calls import DEFAULT, Options, Params, ResultT
from .face import Chosen, Context, Extension, Face, Speaking
from .listening import Hearing
from .refused import older, supported
from .tracing import in_trace

if TYPE_CHECKING:
    from ..transports.http_client.channel import Reach
    from .folders import Folders

Connect = Callable[[], Awaitable[Transport]]


class ClientContext(Context):
    """What a client's handler knows of the message it handles; `state` is the client."""


class BaseClient(Face):
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
        opening: Options = DEFAULT,
        keep_alive: float | None = None,
        revisions: Chosen = (),
        extensions: Sequence[Extension] = (),
        cache: Cache | bool = True,
        roots: Folders | None = None,
    ) -> None:
        super().__init__(capabilities, extensions)
        self._folders = roots
        if roots is not None:
            roots.serve(self._handlers, self.revision)
        self.name = name
        self.version = version
        self.server: BaseModel | None = None
        self._connect = connect
        self._session: Session | None = None
        self._opening = opening
        self._keep_alive = keep_alive
        self._revisions = revisions
        self._beside: list[asyncio.Task[None]] = []  # What goes on as long as the conversation.
        self._running: asyncio.Task[None] | None = None
        self._cache = Cache() if cache is True else cache or None
        self.hearing = Hearing(self.revision, self._live, self._ask, self._given, self._cache)
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake):
            self.capabilities = self._capabilities(lifecycle.open.params, lifecycle.terms.client)
        else:
            meta = lifecycle.discover.params.model_fields["meta"].annotation
            self.capabilities = self._capabilities(meta, "client_capabilities")
        for each in extensions:
            merge(self.capabilities, extensions_needed(each.methods.REVISION, "client"))
        if roots is not None:
            merge(self.capabilities, roots.declared(self.revision))

    @classmethod
    def stdio(
        cls,
        *command: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stderr: Callable[[str], None] | None = None,
        **settings: Any,
    ) -> Self:
        """A client of a server that is started as a child process.

        The child gets a small environment, and `env` beside it. `stderr` gets each line of the child's standard
        error; without it, they go to this process's. `settings` are those of the class.
        """

        async def start() -> Transport:
            from ..transports.child import ChildTransport

            return await ChildTransport.start(command, env, cwd, stderr)

        return cls(start, **settings)

    @classmethod
    def memory(cls, *servers: Any, **settings: Any) -> Self:
        """A client of server objects in the same process, for tests."""
        from .memory import connect

        return cls(connect(servers), **settings)

    @classmethod
    def http(cls, url: str, *, reach: Reach | None = None, **settings: Any) -> Self:
        """A client of the server at this URL. `reach` says how it is reached: with which headers and credentials, over
        which proxy, within which limits. `settings` are those of the class."""

        async def start() -> Transport:
            from ..transports.http_client.channel import Reach
            from ..transports.http_client.transport import HttpTransport

            return HttpTransport(url, cls.revision, reach or Reach())

        if reach is not None and reach.patience:
            settings.setdefault("opening", Options(timeout=reach.patience + 60.0))
        return cls(start, **settings)

    def _live(self) -> Session:
        return self._session or cast(Session, super()._live())

    async def _ask(
        self, row: Request[ResultT] | InputRequest[ResultT], params: Params, options: Options | None
    ) -> ResultT:
        if self._cache is not None and isinstance(row, Request) and row.keeps:
            ask = partial(super()._ask, row, params, options)
            answer: Any = await self._cache.ask(self.revision.id, row, params, options, ask)
        else:
            answer = await super()._ask(row, params, options)
        if isinstance(answer, row.result) or not isinstance(row, Request):
            return cast("ResultT", answer)
        from .answering import go_on

        again = partial(super()._ask, row, options=options)
        answer = await go_on(row, params, answer, self._answerable(), self._answer, again)
        if not isinstance(answer, row.answers):  # The caller does not expect it: it is a task, of an added extension.
            from .following import follow

            answer = await follow(self, answer, options)
        return cast("ResultT", answer)

    def _answerable(self) -> dict[str, InputRequest[Any]]:
        rows = (row for row in self.revision.rows if isinstance(row, InputRequest))
        return {row.method: row for row in rows if row.method in self._handlers}

    async def _answer(self, row: InputRequest[Any], params: Any) -> Any:
        """What the handler says to a question inside a result."""
        asked = Asked("", cast(Any, row), params)
        return await self._handlers[row.method](ClientContext(self._live(), asked, self), params)

    # ---- opening and closing ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if not self._revisions:
            await self.open([self])
            return self
        from .lent import ClientFace
        from .revisions import clients_of

        candidates = clients_of(self, self._revisions)
        # A server that shakes hands says so when it is asked what it is; one that does not, would not say what it is.
        first = next((each for each in reversed(candidates) if not each.shakes_hands), candidates[-1])
        agreed = await first.face().open(candidates)
        if isinstance(agreed, ClientFace):
            agreed.hand_back()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def open(self, candidates: Sequence[Speaking[BaseClient]]) -> BaseClient:
        """Connect, and open the conversation as that one of the candidates whose revision the server agrees to."""
        known = [] if self._folders is None else await self._folders.now()
        transport = await self._connect()
        session = Session(Peer(self.revision, "client", own=self.capabilities), transport, in_trace(self._handle))
        _speak(session, self.revision, candidates)
        self._running = asyncio.create_task(session.run())
        self._session = session
        try:
            agreed = await self._agree(session, candidates)
        except BaseException:
            await self.close()
            raise
        agreed._attend(session, known)
        return agreed

    def _attend(self, session: Session, known: list[str]) -> None:
        """Begin what goes on as long as the conversation; `known` are the roots that there were before it."""
        lifecycle = self.revision.lifecycle
        if self._keep_alive is not None and isinstance(lifecycle, Handshake):
            self._beside.append(asyncio.create_task(self._stay_alive(lifecycle.probe, self._keep_alive)))
        if self._folders is not None and (row := self._folders.news(self.revision)) is not None:
            watching = self._folders.watch(known, session.over, partial(session.tell, row, None))
            self._beside.append(asyncio.create_task(watching))

    async def _stay_alive(self, probe: Request[Any], seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._ask(probe, {}, Options(timeout=seconds))
            except McpError as fault:
                log.warning("the server does not answer: %s", fault)
                if self._session is not None:
                    await self._session.close()
                return

    async def close(self) -> None:
        """End the conversation; more than once does no harm. Works from any task."""
        session, running, beside = self._session, self._running, self._beside
        self._session, self._running, self._beside = None, None, []
        for each in beside:
            each.cancel()
        if session is not None:
            await session.close()
        if running is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running, *beside])

    async def _agree(self, session: Session, candidates: Sequence[Speaking[BaseClient]]) -> BaseClient:
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            return await self._discover(session, lifecycle, candidates)
        return await self._shake_hands(session, lifecycle, candidates)

    async def _shake_hands(
        self, session: Session, lifecycle: Handshake, candidates: Sequence[Speaking[BaseClient]]
    ) -> BaseClient:
        """Offer this revision, and take the one the server answers with if it is one of the candidates'."""
        terms = lifecycle.terms
        offer = {
            terms.version: self.revision.id,
            terms.client: self.capabilities,
            terms.client_info: {"name": self.name, "version": self.version},
        }
        result = cast(BaseModel, await self._ask(lifecycle.open, offer, self._opening))
        said = result.model_dump()
        named = next((each for each in candidates if each.speaks == said[terms.version]), None)
        if named is None:
            ids = ", ".join(each.speaks for each in candidates)
            raise LocalError(f"the server speaks {said[terms.version]!r}, this client {ids}")
        agreed = named.face()
        session.peer.own = agreed.capabilities
        session.peer.agree(agreed.revision, said[terms.server])
        _speak(session, agreed.revision)
        self._hand_over(agreed, result)
        opened = agreed.revision.lifecycle
        assert isinstance(opened, Handshake), "a handshake was answered with a revision that has none"
        await session.tell(opened.opened, None)
        return agreed

    async def _discover(
        self, session: Session, lifecycle: Stateless, candidates: Sequence[Speaking[BaseClient]]
    ) -> BaseClient:
        """Ask what the server is; where it is not of this lifecycle, shake hands as the newest candidate that can."""
        self._own_meta = {
            f"{META}protocolVersion": self.revision.id,
            f"{META}clientInfo": {"name": self.name, "version": self.version},
            f"{META}clientCapabilities": self.capabilities,
        }
        try:
            result: Any = await super()._ask(lifecycle.discover, {}, self._opening)
        except (ErrorResponse, Rejected) as refused:
            if self.revision.id not in supported(refused):
                return await self._turn_to_older(session, refused, candidates)
            result = await super()._ask(lifecycle.discover, {}, self._opening)  # It does speak it, it says: once more.
        if self.revision.id not in result.supported_versions:
            raise LocalError(
                f"the server speaks {', '.join(result.supported_versions)}, this client {self.revision.id}"
            )
        session.peer.agree(self.revision, result.capabilities.model_dump())
        _speak(session, self.revision)
        self.server = result
        return self

    async def _turn_to_older(
        self, session: Session, refused: ErrorResponse | Rejected, candidates: Sequence[Speaking[BaseClient]]
    ) -> BaseClient:
        left = older(self.revision, refused, candidates)
        if not left:
            raise LocalError(f"the server does not speak {self.revision.id}: {refused}") from refused
        other = left[-1].face()
        self._own_meta = {}
        session.peer = Peer(other.revision, "client", own=other.capabilities)
        _speak(session, other.revision, left)
        self._hand_over(other, None)
        return await other._agree(session, left)

    def _hand_over(self, agreed: BaseClient, server: BaseModel | None) -> None:
        """Let another client of the same conversation go on with it."""
        agreed.server = server
        if agreed is not self:
            agreed._session, agreed._running = self._session, self._running
            self._session = self._running = None
            assert agreed._session is not None
            agreed._session.handle = in_trace(agreed._handle)

    async def _handle(self, session: Speaker, message: Asked | Told) -> Any:
        """The answer to a message: the runtime's own to a probe, else that of the handler."""
        lifecycle, row = session.peer.revision.lifecycle, message.row
        if isinstance(lifecycle, Handshake) and isinstance(message, Asked) and row.method == lifecycle.probe.method:
            return message.row.result()
        if isinstance(message, Told):
            self.hearing.heard(message.row, message.params)
        handler = self._handlers.get(row.method)
        if handler is None:
            if isinstance(message, Asked):
                raise self._not_handled(row)
            return None
        return await handler(ClientContext(session, message, self), message.params)


def _speak(session: Session, revision: Revision, candidates: Sequence[Speaking[BaseClient]] = ()) -> None:
    """Tell a transport that wants to know of which revision the messages are from now on, and which others the server
    may agree to."""
    if isinstance(session.transport, Exchanging):
        session.transport.speak(revision, lambda: (each.face().revision for each in candidates))


async def negotiate(*clients: BaseClient) -> BaseClient:
    """Open one conversation, over the connection of the last client, as that one whose revision the server agrees to.

    Clients are given oldest revision first; the newest is offered. The client that comes back is open: close it.
    """
    return await clients[-1].open(clients)
