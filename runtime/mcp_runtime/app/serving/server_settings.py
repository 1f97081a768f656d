"""The settings with which an app is served; their names are those of the official SDK."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from ...errors import LocalError
from ...server.server_info import IdentityKeywords

if TYPE_CHECKING:
    from ...stores.primitives import Store
    from ...transports.http_server.event_store import EventStore

OnDuplicate = Literal["error", "warn", "replace", "ignore"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class ServedKeywords(TypedDict, total=False):
    """The keywords of `ServerKeywords` besides `mount_path`."""

    debug: bool
    log_level: LogLevel | None
    host: str
    port: int
    sse_path: str
    message_path: str
    streamable_http_path: str
    json_response: bool
    stateless_http: bool
    max_request_body_size: int | None
    session_idle_timeout: float | None
    max_sessions: int | None
    retry_interval: int | None
    event_store: EventStore | None
    store: str | Store
    dependencies: Sequence[str]


class ServerKeywords(ServedKeywords, total=False):
    """The keywords of `App(…)` that set how it is served; `ServerSettings` describes them."""

    mount_path: str


class ListKeywords(TypedDict, total=False):
    """The keywords of `App(…)` for what it adds to its lists.

    `on_duplicate` is what happens with a name or URI that is in use: "error" refuses it (the default), "replace" takes
    the new one, "warn" does so and logs a warning, and "ignore" leaves the old one. `dereference_schemas=True` lists
    JSON Schemas without `$ref`, for clients that do not resolve it.
    """

    on_duplicate: OnDuplicate
    dereference_schemas: bool


class AppKeywords(IdentityKeywords, ServerKeywords, ListKeywords, total=False):
    """The further keywords of `App(…)`: what users see of the server, its lists, and how it is served."""


@dataclass(kw_only=True, slots=True)
class ServerSettings:
    """The settings of an app. They can be changed until it runs; keywords of `run` and `asgi` take precedence.

    Args:
        debug: Whether responses to failed custom routes have tracebacks.
        log_level: The level of the process's log, set when `run` starts. Default None: it is left as it is.
        host: The address that `run("http")` listens on.
        port: The port that `run("http")` listens on; 0 takes a free one.
        mount_path: The path that all others begin with.
        sse_path: The path of the SSE stream of HTTP+SSE; only "/sse".
        message_path: The path to POST to of HTTP+SSE; only "/messages/".
        streamable_http_path: The path of the MCP endpoint.
        json_response: Whether each POST is answered with JSON, never with an SSE stream; only a subscription is one.
            Messages before the response go to the stream that the client opens with a GET, if there is one.
        stateless_http: Whether to serve clients of versions with a handshake without sessions.
        max_request_body_size: Bytes of the body of a request. Default None: that of `HTTPLimits`.
        session_idle_timeout: Seconds after its last use at which a session ends. Default None: that of `HTTPLimits`.
        max_sessions: Sessions that are open at the same time. Default None: that of `HTTPLimits`.
        retry_interval: Milliseconds after which a client reconnects to an SSE stream whose connection was closed.
            Default None: that of `HTTPLimits`.
        event_store: Stores the messages of SSE streams, to resume them. Default None: in memory.
        store: What all workers of an HTTP endpoint share: "memory" (the default, for one worker), "sqlite:///path",
            "redis://host" or a Store.
        dependencies: The packages that the program needs, for commands that install it.

    Raises LocalError for a value that cannot be served.
    """

    debug: bool = False
    log_level: LogLevel | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    mount_path: str = "/"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    streamable_http_path: str = "/mcp"
    json_response: bool = False
    stateless_http: bool = False
    max_request_body_size: int | None = None
    session_idle_timeout: float | None = None
    max_sessions: int | None = None
    retry_interval: int | None = None
    event_store: EventStore | None = None
    store: str | Store = "memory"
    dependencies: Sequence[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise LocalError for the first setting that cannot be served, with the line to write."""
        if self.log_level is not None and self.log_level not in _LEVELS:
            raise LocalError(f"log_level={self.log_level!r} is not a level; use one of {', '.join(_LEVELS)}")
        for name in ("mount_path", "streamable_http_path"):
            if not getattr(self, name).startswith("/"):
                raise LocalError(f'{name}={getattr(self, name)!r} must begin with "/", as in {name}="/mcp"')
        if self.sse_path != "/sse" or self.message_path not in ("/messages", "/messages/"):
            raise LocalError(
                'sse_path and message_path are fixed: HTTP+SSE is served at /sse and /messages; write run("sse"), and '
                'mount_path="/x" for a path before both'
            )
        if self.store != "memory":
            from ...stores.store_urls import open_store

            open_store("App", self.store)
        if isinstance(self.dependencies, str):
            raise LocalError(
                f"dependencies={self.dependencies!r} must be a list of requirements: write [{self.dependencies!r}]"
            )

    @property
    def path(self) -> str:
        """The path of the MCP endpoint."""
        return self.mount_path.rstrip("/") + self.streamable_http_path

    def asgi_settings(self) -> dict[str, Any]:
        """Return the keywords of `MCPASGIApp` that differ from its defaults."""
        self.check()
        sizes = {
            "max_body": self.max_request_body_size,
            "max_sessions": self.max_sessions,
            "session_idle_timeout": self.session_idle_timeout,
            "retry_interval": self.retry_interval,
        }
        limits: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
        settings: dict[str, Any] = {}
        if limits:
            from ...transports.http_server.app import HTTPLimits

            settings["limits"] = HTTPLimits(**limits)
        if self.event_store is not None:
            settings["event_store"] = self.event_store
        if self.store != "memory":
            settings["store"] = self.store
        flags = {name: True for name in ("json_response", "stateless_http") if getattr(self, name)}
        return settings | flags

    def configure_logging(self) -> None:
        """Log to standard error at `log_level`, if it is set and the program has not configured logging itself."""
        if self.log_level is not None:
            logging.basicConfig(stream=sys.stderr)
            logging.getLogger().setLevel(self.log_level)


def take_settings(keywords: dict[str, Any]) -> dict[str, Any]:
    """Remove the keywords of `ServerSettings` from a dict, and return them."""
    names = [item.name for item in fields(ServerSettings)]
    return {name: keywords.pop(name) for name in names if name in keywords}
