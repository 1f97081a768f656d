"""What the function of a repeatable task has of its call: its user, its params, and the task for its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from ....errors import ProtocolViolationError
from ....protocol.connection import Connection
from ....protocol.models import plain_of
from ....protocol.revision import InputRequest, Notification, Request
from ....server.context import ServerContext
from ....server.task_options import TaskOptions
from ....session.identity import AuthenticatedUser, RequestAuth
from ....session.options import RequestOptions
from ..execution import TaskExecution
from ..store import TaskRecord

_USER: Final = ("subject", "client_id", "issuer", "claims", "dpop_thumbprint", "expires_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatableCall:
    """A call as it is stored, from which its context is made wherever it runs. `failures` counts the runs that have
    raised an exception."""

    method: str
    params: dict[str, Any]
    capabilities: dict[str, Any]
    client_info: dict[str, Any]
    user: dict[str, Any] | None
    retries: int
    failures: int = 0

    @classmethod
    def of(cls, ctx: ServerContext, row: Request[Any], options: TaskOptions) -> RepeatableCall:
        """Return the call of a context."""
        user = ctx.user
        fields = None if user is None else {name: getattr(user, name) for name in _USER}
        return cls(
            method=row.method,
            params=plain_of(ctx._message.params),  # pyright: ignore[reportPrivateUsage]
            capabilities=dict(ctx.capabilities),
            client_info=ctx.client_info,
            user=None if user is None or fields is None else {**fields, "scopes": sorted(user.scopes)},
            retries=options.retries,
        )

    @classmethod
    def read(cls, value: bytes) -> RepeatableCall:
        """Return a stored call."""
        return cls(**from_json(value))

    def written(self) -> bytes:
        """Return the call as it is stored."""
        return to_json({name: getattr(self, name) for name in self.__slots__})

    def auth(self, record: TaskRecord) -> RequestAuth:
        """Return the authentication of the request."""
        user = None
        if self.user is not None:
            fields: dict[str, Any] = {**self.user, "scopes": frozenset(self.user["scopes"])}
            user = AuthenticatedUser(**fields)
        auth = _StoredAuth(user)
        auth.stored_key = record.owner
        auth.checked_scopes = frozenset(record.scopes)
        return auth


class _StoredAuth(RequestAuth):
    """The authentication of a request that was answered long ago."""

    __slots__ = ("stored_key",)
    stored_key: str

    @property
    def owner_key(self) -> str:
        return self.stored_key


class JobChannel:
    """The channel of the function of a repeatable task: input requests are those of its task."""

    scope: Mapping[str, Any] | None = None

    def __init__(self, connection: Connection, auth: RequestAuth) -> None:
        """Create the channel of one run; `execution` is set before the function begins."""
        self.connection = connection
        self.auth = auth
        self.execution: TaskExecution | None = None

    def _running(self) -> TaskExecution:
        assert self.execution is not None, "the execution is set before the function begins"
        return self.execution

    async def begin(self, options: TaskOptions) -> bool:
        """Return True: the call is a task."""
        return True

    async def set_status_message(self, message: str) -> None:
        """Set the status message of the task."""
        await self._running().set_status_message(message)

    async def send_request(
        self, row: Request[Any] | InputRequest[Any], params: dict[str, Any] | BaseModel, options: RequestOptions
    ) -> BaseModel:
        """Send an input request of the task. Raises ProtocolViolationError for another request."""
        if not isinstance(row, InputRequest):
            raise ProtocolViolationError(f"a repeatable task cannot send {row.method!r}: it has no connection")
        return await self._running().request_input(row, params)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Drop a notification: tasks have none from their functions."""

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Do nothing: there is no stream."""
