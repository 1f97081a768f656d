"""Names of the official SDK for annotations: what callbacks get and return, type variables, and small constants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from pydantic import BaseModel
from typing_extensions import TypeVar

MCP_SESSION_ID: Final = "mcp-session-id"
MCP_PROTOCOL_VERSION: Final = "mcp-protocol-version"
GetSessionIdCallback = Callable[[], str | None]
IncomingMessage = Any
CacheMode = str
SendRequestT = TypeVar("SendRequestT", default=Any)
SendResultT = TypeVar("SendResultT", default=Any)
SendNotificationT = TypeVar("SendNotificationT", default=Any)
ReceiveRequestT = TypeVar("ReceiveRequestT", default=Any)
ReceiveResultT = TypeVar("ReceiveResultT", bound=BaseModel)
ReceiveNotificationT = TypeVar("ReceiveNotificationT", default=Any)
LifespanResultT = TypeVar("LifespanResultT", default=Any)
LifespanContextT = TypeVar("LifespanContextT", default=Any)
SessionT = TypeVar("SessionT", default=Any)
RequestT = TypeVar("RequestT", default=Any)
ElicitSchemaModelT = TypeVar("ElicitSchemaModelT", bound=BaseModel)
Handler = Callable[..., Awaitable[Any]]


class SamplingFnT(Protocol):
    """Answers a request to sample a message."""

    async def __call__(self, context: Any, params: Any) -> Any: ...


class ElicitationFnT(Protocol):
    """Answers a request for input."""

    async def __call__(self, context: Any, params: Any) -> Any: ...


class ListRootsFnT(Protocol):
    """Answers a request for the roots."""

    async def __call__(self, context: Any) -> Any: ...


class LoggingFnT(Protocol):
    """Gets the params of a log message."""

    async def __call__(self, params: Any) -> None: ...


class MessageHandlerFnT(Protocol):
    """Gets a message of the server, or an error of the transport."""

    async def __call__(self, message: Any) -> None: ...


class ProgressFnT(Protocol):
    """Gets the progress of a request."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class McpHttpClientFactory(Protocol):
    """Makes an HTTP client."""

    def __call__(self, headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any: ...
