"""The state of a client's session: values that a function stores for later requests."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl

from pydantic_core import PydanticSerializationError, from_json, to_json

from mcp_products.common.caches import BoundedCache
from mcp_runtime.session.interfaces import channel_of_connection
from mcp_runtime.stores import workers

# Stores for the state of clients' sessions.

_DAY: Final = 86_400.0  # Seconds.
_MAX_SESSIONS: Final = 10_000
_log: Final = logging.getLogger("mcp_runtime.app.context.state")


class StateStore(Protocol):
    """A store of the values of sessions; write one that several processes share."""

    async def get(self, session: str, key: str) -> bytes | None:
        """Return the JSON of a value; None if there is none."""
        ...

    async def set(self, session: str, key: str, value: bytes) -> None:
        """Store the JSON of a value."""

    async def delete(self, session: str, key: str) -> None:
        """Delete a value; do nothing if there is none."""


class InMemoryStateStore:
    """A store in the memory of this process, for the sessions that were used last."""

    def __init__(self, *, max_sessions: int = _MAX_SESSIONS, lifetime: float = _DAY) -> None:
        """Create an empty store.

        Args:
            max_sessions: The number of sessions that are stored at most. Default 10000.
            lifetime: Seconds after the last `set` for which the values of a session are stored. Default one day.
        """
        self._sessions = BoundedCache[str, dict[str, bytes]](max_sessions, ttl=lifetime)

    async def get(self, session: str, key: str) -> bytes | None:
        """Return the JSON of a value; None if there is none."""
        return (self._sessions.get(session) or {}).get(key)

    async def set(self, session: str, key: str, value: bytes) -> None:
        """Store the JSON of a value."""
        values = self._sessions.get(session) or {}
        values[key] = value
        self._sessions.put(session, values)

    async def delete(self, session: str, key: str) -> None:
        """Delete a value; do nothing if there is none."""
        values = self._sessions.get(session)
        if values is not None:
            values.pop(key, None)


async def get_state(ctx: Any, key: str, default: Any) -> Any:
    """Return a value of the session; the same one in every run of a function that runs again."""
    values: dict[str, Any] = ctx.request_values or {}
    if key in values:
        return values[key]
    session = _session_key(ctx)
    if session is None:
        return default

    async def read() -> list[Any]:
        value = await _store(ctx).get(session, key)
        return [] if value is None else [from_json(value)]

    ctx.count_of_reads += 1
    stored = await ctx.once(f"#get_state {ctx.count_of_reads} {key}", read)
    return stored[0] if stored else default


async def set_state(ctx: Any, key: str, value: Any, serializable: bool) -> None:
    """Store a value of the session; a function that runs again stores it once."""
    _check_key(key)
    if not serializable:
        _request_values(ctx)[key] = value
        return
    try:
        encoded = to_json(value)
    except PydanticSerializationError:
        raise TypeError(
            f"set_state({key!r}): {type(value).__name__} is not JSON; serializable=False stores it for this request"
        ) from None
    session = _session_key(ctx)
    if session is None:
        _warn_without_session(ctx)
        _request_values(ctx)[key] = from_json(encoded)
        return
    if ctx.request_values is not None:
        ctx.request_values.pop(key, None)
    if not ctx.is_repeated("set_state"):
        await _store(ctx).set(session, key, encoded)


async def delete_state(ctx: Any, key: str) -> None:
    """Delete a value of the session; a function that runs again deletes it once."""
    if ctx.request_values is not None:
        ctx.request_values.pop(key, None)
    session = _session_key(ctx)
    if session is not None and not ctx.is_repeated("set_state"):
        await _store(ctx).delete(session, key)


def _session_key(ctx: Any) -> str | None:
    """Return the key of the session in the store: the session's id, or else the user; None if there is neither."""
    if (session_id := ctx.session_id) is not None:
        return f"session:{session_id}"
    auth = ctx.channel.auth
    owner = None if auth is None else auth.owner
    return None if owner is None else f"user:{sha256(repr(owner).encode()).hexdigest()}"


def _store(ctx: Any) -> StateStore:
    app = ctx.app
    if app.session_state_store is None and (shared := ctx.connection_state.origin.parts.store) is not None:
        product: Any = workers("store=")
        stored: StateStore = product.StoredStates(shared, ctx.connection_state.origin.name)
        return stored
    if app.session_state_store is None:
        app.session_state_store = InMemoryStateStore()
    store: StateStore = app.session_state_store
    return store


def _request_values(ctx: Any) -> dict[str, Any]:
    values: dict[str, Any] | None = ctx.request_values
    if values is None:
        values = ctx.request_values = {}
    return values


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"set_state() needs a str as the key, not {type(key).__name__}")


def _warn_without_session(ctx: Any) -> None:
    app = ctx.app
    if not getattr(app, "has_warned_of_state", False):
        app.has_warned_of_state = True
        _log.warning(
            "set_state: over HTTP, requests of %s have no session, and this client has no user: the values last for one"
            " request. Authenticate clients, or serve versions with sessions only (revisions=…)",
            ctx.protocol_version,
        )


# An HTTP request as a handler sees it: headers, the client's address, method and path.


class ClientAddress(NamedTuple):
    """The address of an HTTP client. With a proxy it is that of the proxy, unless the server trusts its headers."""

    host: str
    port: int


class CaseInsensitiveHeaders(Mapping[str, str]):
    """The headers of a request: names in any case; values of the same name are joined with a comma."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        """Create the mapping from the headers of an ASGI scope."""
        self._fields: dict[str, str] = {}
        for key, value in raw:
            name, text = key.decode("latin-1").lower(), value.decode("latin-1")
            self._fields[name] = f"{self._fields[name]}, {text}" if name in self._fields else text

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._fields

    def __repr__(self) -> str:
        return f"<headers {', '.join(self._fields)}>"  # Without the values: an access token does not belong into a log.


class RequestURL(NamedTuple):
    """The URL of a request; `str(url)` is its whole text."""

    scheme: str
    netloc: str
    path: str
    query: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}{'?' + self.query if self.query else ''}"


class ReceivedRequest:
    """An HTTP request. Its headers are input of the client: they prove no identity.

    Attributes:
        scope: The ASGI scope of the request.
    """

    def __init__(self, scope: Mapping[str, Any]) -> None:
        """Create the view of an ASGI scope."""
        self.scope = scope

    @property
    def method(self) -> str:
        """The HTTP method, such as POST."""
        return str(self.scope["method"])

    @property
    def headers(self) -> CaseInsensitiveHeaders:
        """The headers, with names in any case."""
        return CaseInsensitiveHeaders(self.scope["headers"])

    @property
    def client(self) -> ClientAddress | None:
        """The address of the client; None if the HTTP server does not have it."""
        address = self.scope.get("client")
        return None if address is None else ClientAddress(*address)

    @property
    def path(self) -> str:
        """The path of the URL."""
        return str(self.scope["path"])

    @property
    def url(self) -> RequestURL:
        """The URL, with the host that the client has sent."""
        query = self.scope.get("query_string", b"").decode("latin-1")
        return RequestURL(self.scope.get("scheme", "http"), self.headers.get("host", ""), self.path, query)

    @property
    def query_params(self) -> dict[str, str]:
        """The values of the query; the last one if a name occurs twice."""
        return dict(parse_qsl(self.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))

    @property
    def user(self) -> Any:
        """The user that a middleware has put into the scope; None without one."""
        return self.scope.get("user")

    @property
    def state(self) -> Any:
        """The state that a middleware has put into the scope; None without one."""
        return self.scope.get("state")


def negotiated_version(ctx: Any) -> str:
    """Return the protocol version that the client of a context has negotiated."""
    return channel_of_connection(ctx.channel).connection.revision.id


def received_request(ctx: Any) -> ReceivedRequest | None:
    """Return the HTTP request of a context; None over stdio and in memory."""
    scope = channel_of_connection(ctx.channel).scope
    return None if scope is None else ReceivedRequest(scope)
