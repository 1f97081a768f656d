"""`Client` of 2.x: one object for a server, of whatever kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypedDict, Unpack, cast

import anyio
from pydantic.alias_generators import to_camel
from typing_extensions import TypeVar

from mcp_products.app.app import BaseApp
from mcp_runtime.bindings.server import BaseServer
from mcp_runtime.protocol.revision import META

from ..event_buses import ServerEvent, event_of
from ..fastmcp import needs_proxy
from ..forms.errors import McpError
from ..forms.form import FORM
from ..lowlevel import LowLevelServer
from ..served import ServedApp
from ..transports import StdioServerParameters, memory_client, stdio_client, streamable_http_client
from . import client_session
from .client_session import ClientSession, Rounds, SessionRequests
from .peer import OnProgress

ROUNDS: Final = 10
_PAUSE: Final = 0.05  # Seconds before a request without new input is sent again.
_LONGEST_PAUSE: Final = 0.25

ServerT = TypeVar("ServerT", default=Any)


class InputRequiredRoundsExceededError(RuntimeError):
    """A server has required input more often than the client allows."""

    def __init__(self, max_rounds: int) -> None:
        """Create the error."""
        super().__init__(f"the server required input more than {max_rounds} times: see input_required_max_rounds=")
        self.max_rounds = max_rounds


# `listen` of the official SDK: the changes that a server of the newest version announces.


class ListenKeywords(TypedDict, total=False):
    """The changes that a program listens to."""

    tools_list_changed: bool
    prompts_list_changed: bool
    resources_list_changed: bool
    resource_subscriptions: Sequence[str]


class ListenNotSupportedError(RuntimeError):
    """A session whose protocol version has no subscriptions."""

    def __init__(self, negotiated_version: str | None) -> None:
        """Create the error for the protocol version of a session."""
        super().__init__(
            f"listen: {negotiated_version} has no subscriptions: call subscribe_resource(), and read `message_handler`"
        )
        self.negotiated_version = negotiated_version


class SubscriptionLost(RuntimeError):  # noqa: N818 - the name of the official SDK
    """A stream that ended before its server has closed it."""


_MAX_UNREAD: Final = 1000  # Changes that a program has not read, after which its subscription ends.


class Subscription(AsyncIterator[ServerEvent]):
    """The changes that a server announces to one `listen`."""

    def __init__(self) -> None:
        """Create a subscription that is not answered."""
        self.subscription_id: str | int | None = None
        self.honored: Any = None
        """What of the filter the server has accepted."""
        self.answered = anyio.Event()
        self.scope = anyio.CancelScope()
        self.failure: Exception | None = None
        streams = anyio.create_memory_object_stream[ServerEvent](_MAX_UNREAD)
        self._give = streams[0]
        self.unread = streams[1]

    async def read(self, send: Callable[[], Awaitable[Any]]) -> None:
        """Send the request, which the server answers when the subscription ends."""
        with self.scope, self._give:
            try:
                await send()
                self.honored = self.honored or FORM.types.SubscriptionFilter()
            except McpError as error:
                self.failure = error
        self.answered.set()

    def deliver(self, method: str, params: Any) -> None:
        """Receive a notification of the subscription."""
        if (event := event_of(method, params)) is not None:
            try:
                self._give.send_nowait(event)
            except anyio.WouldBlock:
                self.failure = RuntimeError(f"more than {_MAX_UNREAD} changes were not read")
                self.scope.cancel()
        elif method == FORM.method("SubscriptionsAcknowledgedNotification"):
            self.subscription_id = params["_meta"][f"{META}subscriptionId"]
            self.honored = FORM.types.SubscriptionFilter.model_validate(params["notifications"])
            self.answered.set()

    async def __anext__(self) -> ServerEvent:
        try:
            return await self.unread.receive()
        except anyio.EndOfStream:
            if self.failure is not None:
                raise SubscriptionLost(f"the server has not ended the subscription: {self.failure}") from self.failure
            raise StopAsyncIteration from None


@asynccontextmanager
async def listen(session: Any, **kinds: Unpack[ListenKeywords]) -> AsyncGenerator[Subscription]:
    """Yield the changes that a server of the newest version announces, when it has accepted the subscription.

    Raises ListenNotSupportedError for an older version, McpError for a refusal, TimeoutError, and TypeError for another
    keyword.
    """
    client_session.refuse_others("listen()", kinds, ListenKeywords)
    if session.protocol_version not in FORM.stateless:
        raise ListenNotSupportedError(session.protocol_version)
    wanted: dict[str, Any] = {to_camel(name): value for name, value in kinds.items() if value}
    made = Subscription()
    try:
        await session.subscribe(wanted, made)
        if made.failure is not None:
            raise made.failure
        yield made
    finally:
        made.scope.cancel()
        made.unread.close()


# What a client connects to, and the client.


def streams_to(target: Any) -> AbstractAsyncContextManager[Any]:
    """Return the context manager that yields the streams of a server.

    Args:
        target: A server of this process, a URL, the parameters of a command, or a context manager that yields streams.

    Raises TypeError for another value.
    """
    if isinstance(target, (LowLevelServer, ServedApp)):
        target = target.bind()
    if isinstance(target, BaseApp):
        target = cast(Any, target).server
    if isinstance(target, BaseServer):
        return memory_client(target)
    if isinstance(target, StdioServerParameters):
        return stdio_client(target)
    if needs_proxy(target):
        return memory_client(FORM.app_class.proxy(target).server)
    if isinstance(target, str):
        return streamable_http_client(target)
    if hasattr(target, "__aenter__"):
        return target  # type: ignore[no-any-return]
    raise TypeError(
        f"Client() needs a server, a URL, StdioServerParameters or a transport, not {type(target).__name__}"
    )


def of_session(name: str, doc: str) -> Any:
    """Return a property of a client with an attribute of its session."""
    return property(lambda self: getattr(self.session, name), doc=doc)


class Page(Protocol):
    """A method that returns one page of a list, as the protocol has it; `cache_mode` has no effect."""

    async def __call__(self, *, cursor: str | None = None, meta: Any = None, cache_mode: Any = None) -> Any: ...


def page_of(method: str) -> Page:
    """Return the method of a client that calls this one of its session."""

    async def page(self: Any, *, cursor: str | None = None, meta: Any = None, cache_mode: Any = None) -> Any:
        """Return one page, which a cursor names. Raises McpError, as all requests."""
        is_plain = cursor is None and meta is None
        params = None if is_plain else FORM.types.PaginatedRequestParams(cursor=cursor, _meta=meta)
        return await getattr(self.session, method)(params=params)

    return cast(Page, page)


@dataclass(frozen=True)
class CacheConfig:
    """How results are cached in the official SDK; a client here accepts it, and asks the server each time."""

    store: Any = None
    partition: str = ""
    target_id: str | None = None
    default_ttl_ms: int = 0
    clock: Callable[[], float] | None = None
    share_public: bool = False


class Client(SessionRequests, Generic[ServerT]):
    """A client of a server: `async with` connects to it. Its methods are those of a session."""

    def __init__(
        self,
        server: Any,
        *,
        raise_exceptions: bool = False,
        mode: str = "auto",
        prior_discover: Any = None,
        input_required_max_rounds: int = ROUNDS,
        extensions: Sequence[Any] | None = None,
        cache: Any = None,
        **settings: Unpack[client_session.CallbackKeywords],
    ) -> None:
        """Create a client; `settings` are keywords of `ClientSession`.

        Args:
            server: A server of this process, a URL, `StdioServerParameters`, or a context manager that yields streams.
            raise_exceptions: Accepted: what a server raises comes as an McpError.
            mode: "auto", "legacy" for a handshake, or a stateless protocol version.
            prior_discover: A `DiscoverResult` to go on with, if `mode` is a protocol version.
            input_required_max_rounds: How often a request may require input.
            extensions: Objects with the `identifier` and the `settings()` of protocol extensions.
            cache: Accepted: results are not cached.

        Raises ValueError for another mode, and TypeError for another keyword.
        """
        client_session.refuse_others("Client()", settings, client_session.CallbackKeywords)
        if mode not in ("auto", "legacy", *FORM.stateless):
            raise ValueError(f"Client(): mode must be 'auto', 'legacy' or one of {FORM.stateless}, not {mode!r}")
        if prior_discover is not None and mode in ("auto", "legacy"):
            raise ValueError("Client(): prior_discover needs mode= with a protocol version")
        self.server = server
        self.mode = mode
        self.prior_discover = prior_discover
        self.input_required_max_rounds = input_required_max_rounds
        self._settings: dict[str, Any] = {
            **settings,
            "extensions": {item.identifier: item.settings() for item in extensions or ()} or None,
        }
        self._streams = streams_to(server)
        self._opened: ClientSession | None = None
        self._stack: AsyncExitStack | None = None
        self._was_entered = False

    async def __aenter__(self) -> Self:
        if self._was_entered:
            raise RuntimeError("Client is already entered; cannot reenter")
        self._was_entered = True
        async with AsyncExitStack() as stack:
            streams = await stack.enter_async_context(self._streams)
            session = await stack.enter_async_context(ClientSession(streams[0], streams[1], **self._settings))
            await self._negotiate(session)
            self._opened = session
            self._stack = stack.pop_all()
        return self

    async def _negotiate(self, session: ClientSession) -> None:
        if self.mode == "legacy" or FORM.is_v1:
            await session.initialize()
        elif self.mode == "auto":
            await client_session.negotiate_auto(session)
        else:
            assumed: dict[str, Any] = {"supportedVersions": [self.mode], "capabilities": {}, "resultType": "complete"}
            uncached = {"ttlMs": 0, "cacheScope": "public"}
            session.adopt(self.prior_discover or FORM.types.DiscoverResult.model_validate(assumed | uncached))

    def listen(self, **kinds: Unpack[ListenKeywords]) -> AbstractAsyncContextManager[Subscription]:
        """Return the context manager of `listen`, which yields the changes that the server announces."""
        return listen(self.session, **kinds)

    async def __aexit__(self, *exception: Any) -> None:
        self._opened = None
        if self._stack is not None:
            await self._stack.__aexit__(*exception)

    @property
    def session(self) -> ClientSession:
        """The session. Raises RuntimeError outside of the context."""
        if self._opened is None:
            raise RuntimeError("Client must be used within an async context manager")
        return self._opened

    @property
    def _session(self) -> ClientSession:
        return self.session

    protocol_version = of_session("protocol_version", "The id of the negotiated protocol version.")
    server_info = of_session("server_info", "The `Implementation` that describes the server.")
    server_capabilities = of_session("server_capabilities", "The capabilities of the server.")
    instructions = of_session("instructions", "Instructions of the server for the model.")

    # ---- requests ---------------------------------------------------------------------------------------------------

    list_tools = page_of("list_tools")
    list_resources = page_of("list_resources")
    list_resource_templates = page_of("list_resource_templates")
    list_prompts = page_of("list_prompts")

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: OnProgress | None = None,
        *,
        meta: Any = None,
        **rounds: Unpack[Rounds],
    ) -> Any:
        """Call a tool, and return the result; input that the server requires comes from the callbacks."""
        send = partial(self.session.call_tool, name, arguments, read_timeout_seconds, progress_callback, meta=meta)
        return await self._with_input(send, meta, rounds)

    async def read_resource(
        self, uri: Any, *, meta: Any = None, cache_mode: Any = None, **rounds: Unpack[Rounds]
    ) -> Any:
        """Read a resource, and return the result."""
        return await self._with_input(partial(self.session.read_resource, uri, meta=meta), meta, rounds)

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, meta: Any = None, **rounds: Unpack[Rounds]
    ) -> Any:
        """Get a prompt with its arguments filled in."""
        return await self._with_input(partial(self.session.get_prompt, name, arguments, meta=meta), meta, rounds)

    async def _with_input(self, send: Callable[..., Awaitable[Any]], meta: Any, rounds: Rounds) -> Any:
        """Send a request until its result is final, with the input that the callbacks give meanwhile."""
        client_session.refuse_others("Client", rounds, Rounds)
        given = rounds.get("input_responses")
        state = rounds.get("request_state")
        pause = _PAUSE
        for left in range(self.input_required_max_rounds, -1, -1):
            result = await send(input_responses=given, request_state=state, allow_input_required=True)
            if FORM.is_v1 or not isinstance(result, FORM.types.InputRequiredResult):
                return result
            if not left:
                break
            state = result.request_state
            if result.input_requests:
                given = await self._answers(result.input_requests, meta)
                pause = _PAUSE
            else:
                given = None
                await anyio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        raise InputRequiredRoundsExceededError(self.input_required_max_rounds)

    async def _answers(self, requests: dict[str, Any], meta: Any) -> dict[str, Any]:
        """Return the answers of the callbacks, which run at the same time. Raises McpError for a refusal."""
        answers: dict[str, Any] = {}
        refusals: list[Any] = []

        async def answer(key: str, request: Any) -> None:
            context = client_session.RequestContext(self.session, key, meta)
            result = await self.session.dispatch_input_request(context, request)
            if isinstance(result, FORM.types.ErrorData):
                refusals.append(result)
                group.cancel_scope.cancel()
            answers[key] = result

        async with anyio.create_task_group() as group:
            for key, request in requests.items():
                group.start_soon(answer, key, request)
        if refusals:
            raise McpError(refusals[0])
        return answers


def create_connected_server_and_client_session(
    server: Any, *, raise_exceptions: bool = False, **settings: Unpack[client_session.SessionKeywords]
) -> AbstractAsyncContextManager[ClientSession]:
    """Return a context manager that yields a session with a server of this process; for tests.

    `settings` are the keywords of `ClientSession`; `raise_exceptions` is accepted.
    """
    return client_session.connected_session(streams_to(server), settings)
