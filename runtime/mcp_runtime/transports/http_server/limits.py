"""The limits of an HTTP endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.framing import MAX_MESSAGE_BYTES
from ...session.interfaces import DEFAULT_STREAM_LIMITS
from ...usage.keywords import checked_fields
from ...usage.rules import COUNT, SECONDS
from .streams import KEEP_ALIVE, RETRY


@checked_fields(
    rules={
        **dict.fromkeys(("max_body", "max_parts", "max_sessions", "max_batch", "retry_interval"), COUNT),
        **dict.fromkeys(("body_timeout", "handshake_timeout", "session_idle_timeout", "keep_alive"), SECONDS),
        **dict.fromkeys(("head_timeout", "write_timeout"), SECONDS),
        **dict.fromkeys(("max_connections", "max_connections_per_address"), COUNT.or_none()),
        **dict.fromkeys(("max_buffered", "max_subscriptions", "max_subscriptions_per_address"), COUNT),
    }
)
@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPLimits:
    """The limits of an HTTP endpoint.

    Those of connections (`head_timeout`, `write_timeout`, `max_connections` and `max_connections_per_address`) hold
    where this package runs the server, as `run("http")` does; behind `asgi()` they are the business of the ASGI server.

    Args:
        max_body: Bytes of the body of a request. Default 8 MiB.
        max_parts: JSON values in the body of a request; a member of an object counts as four. Default 300000.
        body_timeout: Seconds for the body of a request to arrive. Default 30.
        max_sessions: Sessions that are open at the same time. Default 20000.
        handshake_timeout: Seconds after `initialize` at which a session ends if its client sends nothing more. Default
            30.
        session_idle_timeout: Seconds after its last use at which a session ends. Default 1800.
        max_batch: Messages of a JSON-RPC batch. Default 100.
        keep_alive: Seconds without a message on an SSE stream after which a comment is sent, so that proxies do not
            close the connection. Default 15.
        retry_interval: Milliseconds after which a client reconnects to an SSE stream whose connection was closed.
            Default 500.
        head_timeout: Seconds for the head of a request to arrive, from the opening of a connection or the first byte.
            Default 10.
        write_timeout: Seconds after which a connection is cut if its client reads nothing of what it is sent. Default
            30. A stream on which nothing is sent has no deadline.
        max_connections: Connections of a process at the same time. Default None: 10000, or nine tenths of the files
            that the process may have open.
        max_connections_per_address: Connections of one IP address, or of one IPv6 /64. Default None: half of those that
            others leave; the addresses of this machine, such as that of a proxy, have no share.
        max_buffered: Bytes of the bodies that are being received, and as many of the responses that clients have not
            read. Above it, the client that holds most of them loses its largest. Default 256 MiB.
        max_subscriptions: Streams of subscriptions that one user or session may have open, in versions without
            sessions. Default 100.
        max_subscriptions_per_address: The same of one address whose clients are not users. Default 1000.
    """

    max_body: int = MAX_MESSAGE_BYTES
    max_parts: int = 300_000
    body_timeout: float = 30.0
    max_sessions: int = 20_000
    handshake_timeout: float = 30.0
    session_idle_timeout: float = 1800.0
    max_batch: int = 100
    keep_alive: float = KEEP_ALIVE
    retry_interval: int = RETRY
    head_timeout: float = 10.0
    write_timeout: float = 30.0
    max_connections: int | None = None
    max_connections_per_address: int | None = None
    max_buffered: int = 256 * 1024 * 1024
    max_subscriptions: int = DEFAULT_STREAM_LIMITS.of_user
    max_subscriptions_per_address: int = DEFAULT_STREAM_LIMITS.of_address
