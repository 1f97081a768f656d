"""Names of the official SDK for annotations: what callbacks get and return, type variables, and small constants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

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

SamplingFnT = Callable[[Any, Any], Awaitable[Any]]
"""Answers a request to sample a message, which it gets with its context."""
ElicitationFnT = Callable[[Any, Any], Awaitable[Any]]
"""Answers a request for input, which it gets with its context."""
ListRootsFnT = Callable[[Any], Awaitable[Any]]
"""Answers a request for the roots; it gets the context of the request."""
LoggingFnT = Callable[[Any], Awaitable[None]]
"""Gets the params of a log message."""
MessageHandlerFnT = Callable[[Any], Awaitable[None]]
"""Gets a message of the server, or an error of the transport."""
ProgressFnT = Callable[[float, float | None, str | None], Awaitable[None]]
"""Gets the progress of a request."""
McpHttpClientFactory = Callable[..., Any]
"""Makes an HTTP client with headers, a timeout and an authentication."""
