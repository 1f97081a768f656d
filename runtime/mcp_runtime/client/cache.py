"""Questions and their answers go in; an answer that still holds comes out, for who may see it (2026:
server/utilities/caching)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from ..endpoint.subscription_filter import is_within_resource
from ..errors import RemoteJSONRPCError
from ..protocol.capabilities import parse_capability_path
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.revision import Notification, Request
from ..session.options import DEFAULT_OPTIONS, Params, RequestOptions

_MAX_TTL: Final = 24 * 3600.0  # Seconds; a server does not say that it is never to be asked again.
_SHARED: Final = "everybody"
_PUBLIC: Final = "public"
_RETRY_PARAMS: Final = ("inputResponses", "requestState")

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One answer, as JSON; `feature` is the part of the server it is about."""

    result: bytes
    expires: float
    method: str
    feature: str
    uri: str | None


class ResponseCache:
    """Answers for any number of clients: at most so many, and so many bytes; what was not used for longest goes first.

    `clock` gives seconds.
    """

    def __init__(
        self, *, max_entries: int = 1000, max_bytes: int = 16 * 2**20, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self.invalidations: dict[str, int] = {}

    @property
    def size(self) -> int:
        """How many answers there are."""
        return len(self._entries)

    def for_user(self, server: str, user: str) -> ClientResponseCache:
        """The answers of one server for one user; what is public is shared with the others at the same server. Who is
        called alike has to be the same: a user stands for all that an access token lets see."""
        return ClientResponseCache(self, server, ("user", user))

    def get(self, key: _Key) -> bytes | None:
        """An answer, if there is one that holds."""
        kept = self._entries.get(key)
        if kept is None:
            return None
        if self.clock() >= kept.expires:
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        return kept.result

    def put(self, key: _Key, entry: _Entry) -> None:
        """Keep an answer, if there can be room for it."""
        self._remove(key)
        if len(entry.result) > self._max_bytes:
            return
        self._entries[key] = entry
        self._bytes += len(entry.result)
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._remove(next(iter(self._entries)))

    def invalidate(self, server: str, matches: Callable[[_Entry], bool]) -> None:
        """Forget answers of a server, and those that are under way."""
        self.invalidations[server] = self.invalidations.get(server, 0) + 1
        for key in [key for key, kept in self._entries.items() if key[0] == server and matches(kept)]:
            self._remove(key)

    def _remove(self, key: _Key) -> None:
        kept = self._entries.pop(key, None)
        if kept is not None:
            self._bytes -= len(kept.result)


class ClientResponseCache:
    """The answers of one server for one user. Without a shelf, nothing of it is shared."""

    def __init__(self, cache: ResponseCache | None = None, server: str = "", user: object = "") -> None:
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
        """The answer to a request: what is kept, as long as it holds, else what `ask` gives. Errors are not kept, nor
        what asks something first, nor what depends on answers to that."""
        said = params.model_dump() if isinstance(params, BaseModel) else params
        given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        chosen = options or DEFAULT_OPTIONS
        if any(name in given for name in _RETRY_PARAMS):
            return await send()

        def key(who: object) -> _Key:
            return self._server, who, revision, row.method, to_json([given, chosen.meta])

        if self._cache.size and not chosen.bypass_cache:
            found = self._cache.get(key(self._user)) or self._cache.get(key(_SHARED))
            if found is not None:
                return row.read_result(from_json(found), given)
        drops = self._cache.invalidations.get(self._server, 0)
        try:
            answer = await send()
        except RemoteJSONRPCError as refused:
            if refused.code == INVALID_PARAMS and "cursor" in given:  # The list is not what its pages were of.
                self._cache.invalidate(self._server, lambda kept: kept.method == row.method)
            raise
        scope = getattr(answer, "cache_scope", None)  # Without one it is not a result to be kept, whatever ends in it.
        if (
            scope is not None
            and isinstance(answer, row.result)
            and drops == self._cache.invalidations.get(self._server, 0)
        ):
            ttl = min(getattr(answer, "ttl_ms", 0), _MAX_TTL * 1000) / 1000
            if ttl > 0:
                until, about = self._cache.clock() + ttl, _feature(row.capability)
                kept = _Entry(to_json(answer), until, row.method, about, given.get("uri"))
                self._cache.put(key(_SHARED if scope == _PUBLIC else self._user), kept)
        return answer

    def handle_change(self, row: Notification, uri: str | None) -> None:
        """A server told that something has changed: a resource, with what lies below it, or the lists of a feature."""
        if uri is not None:
            self._cache.invalidate(
                self._server, lambda kept: kept.uri is not None and is_within_resource(uri, kept.uri)
            )
        elif row.capability:
            feature = _feature(row.capability)
            self._cache.invalidate(self._server, lambda kept: kept.uri is None and kept.feature == feature)


def _feature(capability: str) -> str:
    """`server.tools.listChanged` → `tools`."""
    return parse_capability_path(capability)[1][0] if capability else ""
