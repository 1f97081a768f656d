"""A message and its conversation go in; out comes what the handler of a server knows of them, and may ask and tell."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Final, Literal

from pydantic_core import from_json, to_json

from ..aio.background import BackgroundTasks
from ..aio.rate_limit import RateLimit, TokenBucket
from ..endpoint.checks import check_form_answer, warn_about_secrets
from ..endpoint.context import LEVELS, Context
from ..endpoint.requests import ResultT
from ..errors import (
    InvalidMessageError,
    InvalidResponseError,
    JSONRPCError,
    ProtocolViolationError,
)
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.models import is_object
from ..protocol.revision import META, InputRequest, Request
from ..session.identity import AuthenticatedUser
from ..session.interfaces import Channel
from ..session.options import Params, RequestOptions
from .input_requests import MultiRoundTripRequest
from .task_options import Deferrable, TaskOptions

_LOG_RATE: Final = RateLimit(per_second=1000, burst=5000)

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class ConnectionState:
    """What a server remembers of one client's connection. `state` is what the server's lifespan yielded; `log_level` is
    the level that the client has set, None if it has set none; `client_info` is the client's `clientInfo`."""

    __slots__ = ("state", "log_level", "client_info", "log_rate", "_background_tasks", "__weakref__")

    def __init__(self, state: Any, log_level: str | None) -> None:
        self.state = state
        self.log_level = log_level
        self.client_info: dict[str, Any] = {}
        # Most clients need neither, and there may be very many clients.
        self.log_rate: TokenBucket | None = None
        self._background_tasks: BackgroundTasks | None = None

    @property
    def background_tasks(self) -> BackgroundTasks:
        """The work that goes on after the responses, until the connection ends."""
        if self._background_tasks is None:
            self._background_tasks = BackgroundTasks()
        return self._background_tasks


class ServerContext(Context):
    """What a server's handler knows of the message it handles; `state` is what the server's lifespan gave."""

    _mrtr: MultiRoundTripRequest | None = None
    _deferral: Deferrable | None = None
    _how = TaskOptions()

    def __init__(
        self, connection: ConnectionState, channel: Channel, message: RequestReceived | NotificationReceived
    ) -> None:
        # Not by way of the base class: this is done for every message.
        self._channel = channel
        self._message = message
        self.state = connection.state
        self._connection_state = connection

    @property
    def connection_state(self) -> ConnectionState:
        """The state of this client's connection: the same object for all messages of one client, where there are
        sessions, and for all clients of a stateless server."""
        return self._connection_state

    @property
    def client_info(self) -> dict[str, Any]:
        """What the client calls itself, as it said: never a proof of anything."""
        said = self.meta.get(f"{META}clientInfo")
        return said if is_object(said) else self._connection_state.client_info

    @property
    def user(self) -> AuthenticatedUser | None:
        """Whose request this is, where the endpoint is protected; None over stdio, and where nobody has to say."""
        auth = self._channel.auth
        return None if auth is None else auth.user

    def require_scopes(self, *scopes: str) -> None:
        """Raises JSONRPCError unless the user's token has all of these scopes. Over HTTP the client is asked to come back
        with them (403), if nothing of the answer was sent yet; over stdio whoever started the server may do all."""
        auth = self._channel.auth
        if auth is not None:
            auth.require_scopes(scopes)

    def close_sse_stream(self) -> None:
        """End the connection that the answer was to come over, so that a long request holds none; the client comes
        back for the answer. Does nothing where a transport has no such connection, or no way to come back."""
        self._require_channel().close_sse_stream()

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send a log message, if the client wants messages of this level; what comes too often (more than 1,000 a
        second, after the first 5,000) is left out. Raises ProtocolViolationError without the capability."""
        wanted = self.meta.get(f"{META}logLevel") or self._connection_state.log_level
        if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted):
            said = {"level": level, "data": data, "logger": logger}
            pace = self._connection_state.log_rate = self._connection_state.log_rate or TokenBucket(_LOG_RATE)
            if not pace.acquire():
                if (row := self.revision.lifecycle.log) is None:
                    raise ProtocolViolationError(f"there are no log messages of a server in {self.revision.id}")
                await self._send_notification(row, said, None)

    async def as_task(self, options: TaskOptions | None = None) -> bool:
        """Answer the request with a task now and go on behind it, where the server has tasks and the client knows
        them; what is asked from here on, is asked by the task. Elsewhere nothing happens, or, where a task is `needed`,
        JSONRPCError is raised. Without `how`, it is as the tool says. Whether it is a task now."""
        options = options or self._how
        if self._deferral is None:
            if options.required:
                raise JSONRPCError(INTERNAL_ERROR, "this needs a task, and the server has none")
            return False
        if begun := await self._deferral.begin(options):
            self._mrtr = None
        return begun

    async def status(self, message: str) -> None:
        """What the task is at, in words; nothing happens where the request has not become one."""
        if self._deferral is not None:
            await self._deferral.set_status_message(message)

    async def once(self, key: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, as JSON; where the handler runs again because it asked the client something, what it gave
        the first time. For side effects, awaited before what is asked next."""
        if self._mrtr is not None:
            return await self._mrtr.once(key, make)
        made = make()
        return from_json(to_json(await made if isawaitable(made) else made))

    async def _send_request(
        self, row: Request[ResultT] | InputRequest[ResultT], params: Params, options: RequestOptions | None
    ) -> ResultT:
        warn_about_secrets(params)
        answer = await super()._send_request(row, params, options)
        try:
            check_form_answer(params, answer)
        except InvalidMessageError as fault:
            raise InvalidResponseError(f"{row.method!r}: {fault}") from None
        return answer
