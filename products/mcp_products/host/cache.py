"""The response cache of clients: results are reused as long as their server allows.

MCP specification, https://modelcontextprotocol.io/specification/draft/server/utilities/caching
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from mcp_runtime.aio import clock as clocks
from mcp_runtime.endpoint.checks import is_within_resource
from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS
from mcp_runtime.protocol.lifecycle import parse_capability_path
from mcp_runtime.protocol.revision import Notification, Request
from mcp_runtime.session.requests import DEFAULT_OPTIONS, Params, RequestOptions

_MAX_TTL: Final = 24 * 3600.0  # Seconds; a server cannot make a client cache a result for longer.
_SHARED: Final = "shared"
_PUBLIC: Final = "public"
_RETRY_PARAMS: Final = ("inputResponses", "requestState")

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _CachedResponse:
    """A cached result, as JSON.

    Attributes:
        result: The result, as JSON.
        expires: The time of the cache's clock at which the entry expires.
        method: The method of the request.
        feature: The capability that the method belongs to, such as "tools".
        uri: The URI of the request; None if it has none.
    """

    result: bytes
    expires: float
    method: str
    feature: str
    uri: str | None


class ResponseCache:
    """Cached results, for any number of clients. The least recently used results are removed if there are too many.

    Attributes:
        clock: The function that returns the current time in seconds.
        invalidations: How often results of a server were invalidated, by server.
    """

    def __init__(
        self, *, max_entries: int = 1000, max_bytes: int = 16 * 2**20, clock: Callable[[], float] | None = None
    ) -> None:
        """Create an empty cache.

        Args:
            max_entries: The maximum number of results; by default 1,000.
            max_bytes: The maximum size of all results together, in bytes of JSON; by default 16 MiB.
            clock: A function that returns the current time in seconds; for tests.
        """
        self.clock = clock or clocks.monotonic
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[_Key, _CachedResponse] = OrderedDict()
        self.invalidations: dict[str, int] = {}

    @property
    def size(self) -> int:
        """The number of cached results, expired ones included."""
        return len(self._entries)

    def for_user(self, server: str, user: str) -> ClientResponseCache:
        """Return the cache of a client, which shares public results with other users of the same server.

        Args:
            server: A name of the server, such as its URL: clients with the same name share its public results.
            user: The id of the user: clients with the same id share private results, so it has to stand for everything
                that the access token allows.
        """
        return ClientResponseCache(self, server, ("user", user))

    def get(self, key: _Key) -> bytes | None:
        """Return a cached result that has not expired, as JSON; None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self.clock() >= entry.expires:
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        return entry.result

    def put(self, key: _Key, entry: _CachedResponse) -> None:
        """Add a result; do nothing if it is larger than the whole cache."""
        self._remove(key)
        if len(entry.result) > self._max_bytes:
            return
        self._entries[key] = entry
        self._bytes += len(entry.result)
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._remove(next(iter(self._entries)))

    def invalidate(self, server: str, matches: Callable[[_CachedResponse], bool]) -> None:
        """Remove the matching results of a server. Results of requests that are in flight will not be cached."""
        self.invalidations[server] = self.invalidations.get(server, 0) + 1
        for key in [key for key, entry in self._entries.items() if key[0] == server and matches(entry)]:
            self._remove(key)

    def _remove(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.result)


class ClientResponseCache:
    """The cache of one client: the results of one server for one user."""

    def __init__(self, cache: ResponseCache | None = None, server: str = "", user: object = "") -> None:
        """Create the cache of a client. Use `ResponseCache.for_user` to share results between clients.

        Args:
            cache: The cache that stores the results; by default a new one, which nothing else uses.
            server: A name of the server, such as its URL.
            user: The id of the user.
        """
        self._cache = cache or ResponseCache()
        self._server = server
        self._user = user

    async def request(
        self,
        revision: str,
        row: Request[Any],
        params: Params,
        options: RequestOptions | None,
        send: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Return the cached result of a request, or else send it and cache its result if the server allows it.

        Errors are not cached, nor interim results, nor results that depend on input responses.

        Args:
            revision: The protocol version of the client.
            row: The row of the request.
            params: The params of the request.
            options: How the request is made.
            send: A function that sends the request and returns its result.
        """
        fields = params.model_dump() if isinstance(params, BaseModel) else params
        arguments: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        options = options or DEFAULT_OPTIONS
        if any(name in arguments for name in _RETRY_PARAMS):
            return await send()

        def key(user: object) -> _Key:  # A function, because most servers allow no caching, and need no key.
            return self._server, user, revision, row.method, to_json([arguments, options.meta])

        if self._cache.size and not options.bypass_cache:
            cached = self._cache.get(key(self._user)) or self._cache.get(key(_SHARED))
            if cached is not None:
                return row.read_result(from_json(cached), arguments)
        invalidations = self._cache.invalidations.get(self._server, 0)
        try:
            result = await send()
        except RemoteJSONRPCError as error:
            if error.code == INVALID_PARAMS and "cursor" in arguments:  # The list has changed since its first pages.
                self._cache.invalidate(self._server, lambda entry: entry.method == row.method)
            raise
        if isinstance(result, row.result) and invalidations == self._cache.invalidations.get(self._server, 0):
            scope = getattr(result, "cache_scope", None)
            ttl = min(getattr(result, "ttl_ms", 0), _MAX_TTL * 1000) / 1000
            if scope is not None and ttl > 0:
                expires, feature = self._cache.clock() + ttl, _feature(row.capability)
                entry = _CachedResponse(to_json(result), expires, row.method, feature, arguments.get("uri"))
                self._cache.put(key(_SHARED if scope == _PUBLIC else self._user), entry)
        return result

    def handle_change(self, row: Notification, uri: str | None) -> None:
        """Invalidate the results that a change notification is about.

        Args:
            row: The row of the notification.
            uri: The URI of the changed resource, whose sub-resources are invalidated as well; None for the lists of the
                notification's feature.
        """
        if uri is not None:
            self._cache.invalidate(
                self._server, lambda entry: entry.uri is not None and is_within_resource(uri, entry.uri)
            )
        elif row.capability:
            feature = _feature(row.capability)
            self._cache.invalidate(self._server, lambda entry: entry.uri is None and entry.feature == feature)


def _feature(capability: str) -> str:
    """Return the feature of a capability: `server.tools.listChanged` → `tools`."""
    return parse_capability_path(capability)[1][0] if capability else ""


def new_cache() -> ClientResponseCache:
    """Return the cache of a client that is given none."""
    return ClientResponseCache()
