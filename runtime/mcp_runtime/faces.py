"""The base classes of the generated clients and servers: what all revisions have in common."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from .errors import NotAllowed, NotConnected, Refusal, RemoteError
from .jsonrpc import METHOD_NOT_FOUND, Id
from .lifecycle import Capabilities, declare, split
from .peer import Asked, Peer, Told
from .session import Session, Transport
from .spec import Direction, Handshake, Notification, Request, Revision, Sent
from .wire import reader

T = TypeVar("T")
ResultT = TypeVar("ResultT", bound=BaseModel)

Answer: TypeAlias = T | Awaitable[T]
Params: TypeAlias = BaseModel | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Options:
    """How one call is made: `timeout` in seconds (None waits for ever), `meta` as the `_meta` of its params."""

    timeout: float | None = 60.0
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


_DEFAULT: Final = Options()


class Caller:
    """Something that sends what its revision lets its side send."""

    _session: Session | None

    async def _ask(self, row: Request[ResultT], params: Params, options: Options | None) -> ResultT:
        chosen = options or _DEFAULT
        return cast(ResultT, await self._live().ask(row, _given(row, params, chosen), chosen.timeout))

    async def _ask_for(
        self, interim: type[ResultT], row: Request[Any], params: Params, options: Options | None
    ) -> ResultT:
        answer = await self._ask(row, params, options)
        if not isinstance(answer, interim):
            raise RemoteError(
                f"{row.method!r}: was answered at once, without the {interim.__name__} that was asked for"
            )
        return answer

    async def _tell(self, row: Notification, params: Params, options: Options | None) -> None:
        await self._live().tell(row, _given(row, params, options or _DEFAULT))

    def _live(self) -> Session:
        if self._session is None:
            raise NotConnected("there is no connection; use `async with`")
        return self._session


def _given(row: Sent, params: Params, options: Options) -> Any:
    """The params as they go on the wire: a property that is None was not given, unless the schema requires it."""
    if isinstance(params, BaseModel):
        return params
    fields = getattr(row.params, "model_fields", {})
    required = {field.alias or name for name, field in fields.items() if field.is_required()}
    given = {wire: value for wire, value in params.items() if value is not None or wire in required}
    return given | {"_meta": options.meta} if options.meta else given


class Face(Caller):
    """One side of a conversation, with a method for each message it may receive."""

    revision: ClassVar[Revision]
    _receives: ClassVar[Direction]

    def __init__(self) -> None:
        self._session = None

    def _overridden(self) -> dict[str, Callable[..., Any]]:
        """The handlers a subclass has, by the method they serve."""
        generated = next(cls for cls in type(self).__mro__ if "revision" in vars(cls))
        return {
            row.method: getattr(self, row.name)
            for row in self.revision.table(self._receives).values()
            if getattr(type(self), row.name, None) is not getattr(generated, row.name, None)
        }

    def _capabilities(self, message: Any) -> Capabilities:
        """What the handlers declare, each what its method needs; `message` is the type that carries it."""
        model: type[BaseModel] = message.model_fields["capabilities"].annotation
        capabilities: Capabilities = {}
        side = self._receives.rpartition("_")[2]
        served = self._overridden()
        for row in self.revision.table(self._receives).values():
            owner, path = split(row.capability) if row.capability else ("", ())
            if row.method in served and isinstance(row, Request) and owner == side:
                declare(capabilities, path, model)
        return capabilities

    def _not_handled(self, row: Sent) -> Refusal:
        return Refusal(METHOD_NOT_FOUND, f"{row.method!r} is not served here ({self.revision.id})")

    def _handshake(self) -> Handshake:
        if not isinstance(self.revision.lifecycle, Handshake):
            raise NotAllowed(f"{self.revision.id}: its lifecycle, without a handshake, is not served yet")
        return self.revision.lifecycle


async def _call(handler: Callable[..., Any], *arguments: Any) -> Any:
    """Run a handler: an `async def` here, a plain `def` in a worker thread."""
    if inspect.iscoroutinefunction(handler):
        return await handler(*arguments)
    answer = await asyncio.to_thread(handler, *arguments)
    return await answer if inspect.isawaitable(answer) else answer


class ServerContext(Caller):
    """What a server's handler knows of the message it handles."""

    def __init__(self, session: Session, request_id: Id | None) -> None:
        self._session = session
        self.request_id = request_id

    @property
    def capabilities(self) -> Capabilities:
        """What the client has declared."""
        return self._live().peer.theirs


class ClientContext(ServerContext):
    """What a client's handler knows of the message it handles; `capabilities` are the server's."""


class BaseServer(Face):
    """A server: override its methods, then `run` it. One object serves any number of conversations."""

    context: ClassVar[type[ServerContext]]
    _receives: ClassVar[Direction] = "client_to_server"

    def __init__(self, *, name: str, version: str, instructions: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.version = version
        self.instructions = instructions

    def run(self, transport: str = "stdio") -> None:
        """Serve until the client ends the conversation."""
        if transport != "stdio":
            raise NotAllowed(f"no transport is called {transport!r}; there is 'stdio'")
        from .transports.stdio import StdioServerTransport

        asyncio.run(self.serve(StdioServerTransport()))

    async def serve(self, transport: Transport) -> None:
        """Serve one conversation."""
        lifecycle = self._handshake()
        peer = Peer(self.revision, "server", own=self._capabilities(lifecycle.open.result))
        served = self._overridden()

        async def handle(event: Asked | Told) -> Any:
            row = event.row
            if row is lifecycle.open and isinstance(event, Asked):
                return self._opened(event, peer)
            if row.method == lifecycle.probe.method and isinstance(row, Request):
                return row.result()
            handler = served.get(row.method)
            if handler is None:
                return None
            return await _call(
                handler, self.context(session, event.id if isinstance(event, Asked) else None), event.params
            )

        session = Session(peer, transport, handle)
        try:
            await session.run()
        finally:
            await session.close()

    def _opened(self, event: Asked, peer: Peer) -> BaseModel:
        """The answer to the opening request: this revision, whatever was offered, for the client to take or leave."""
        peer.theirs = event.params.capabilities.model_dump(by_alias=True)
        answer: dict[str, Any] = {
            "protocolVersion": self.revision.id,
            "capabilities": peer.own,
            "serverInfo": {"name": self.name, "version": self.version},
        }
        if self.instructions is not None:
            answer["instructions"] = self.instructions
        result: type[BaseModel] = event.row.result
        return cast(BaseModel, reader(result)(answer))


class BaseClient(Face):
    """A client: `async with` opens the conversation, and ends it."""

    _receives: ClassVar[Direction] = "server_to_client"

    def __init__(
        self, transport: Callable[[], Awaitable[Transport]], *, name: str = "mcp-codegen", version: str = "0"
    ) -> None:
        super().__init__()
        self._connect = transport
        self._stack = AsyncExitStack()
        self.name = name
        self.version = version
        self.server: BaseModel | None = None

    @classmethod
    def stdio(cls, *command: str, env: Mapping[str, str] | None = None, cwd: str | None = None) -> Self:
        """A client of a server that is started as a child process."""

        async def start() -> Transport:
            from .transports.stdio import ChildTransport

            return await ChildTransport.start(command, env, cwd)

        return cls(start)

    @classmethod
    def memory(cls, server: BaseServer) -> Self:
        """A client of a server object in the same process, for tests."""

        async def link() -> Transport:
            from .transports.memory import linked

            ours, theirs = linked()
            client._serving = asyncio.create_task(server.serve(theirs))
            return ours

        client = cls(link)
        return client

    _serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        lifecycle = self._handshake()
        peer = Peer(self.revision, "client", own=self._capabilities(lifecycle.open.params))
        transport = await self._connect()
        session = Session(peer, transport, lambda event: self._handle(event))
        running = asyncio.create_task(session.run())
        self._stack.push_async_callback(self._end, session, running)
        self._session = session
        try:
            await self._open(lifecycle, peer, session)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def _open(self, lifecycle: Handshake, peer: Peer, session: Session) -> None:
        params = {
            "protocolVersion": self.revision.id,
            "capabilities": peer.own,
            "clientInfo": {"name": self.name, "version": self.version},
        }
        result = await self._ask(lifecycle.open, params, None)
        if result.protocol_version != self.revision.id:
            raise NotAllowed(f"the server speaks {result.protocol_version}, this client {self.revision.id} alone")
        peer.theirs = result.capabilities.model_dump(by_alias=True)
        self.server = result
        await session.tell(lifecycle.opened, None)

    async def _end(self, session: Session, running: asyncio.Task[None]) -> None:
        self._session = None
        await session.close()
        if self._serving is not None:
            await self._serving
        await running

    async def _handle(self, event: Asked | Told) -> Any:
        lifecycle = self._handshake()
        row = event.row
        if row.method == lifecycle.probe.method and isinstance(row, Request):
            return row.result()
        handler = self._overridden().get(row.method)
        if handler is None:
            return None
        context = ClientContext(self._live(), event.id if isinstance(event, Asked) else None)
        return await _call(handler, context, event.params)
