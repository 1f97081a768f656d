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

from ..errors import ErrorResponse
from ..jsonrpc import INVALID_PARAMS
from ..lifecycle import split
from ..spec import Notification, Request
from .audience import is_below
from .calls import DEFAULT, Options, Params

_LONGEST: Final = 24 * 3600.0  # Seconds; a server does not say that it is never to be asked again.
_EVERYBODY: Final = "everybody"
_PUBLIC: Final = "public"
_OF_A_RETRY: Final = ("inputResponses", "requestState")

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    """One answer, as JSON; `feature` is the part of the server it is about."""

    answer: bytes
    until: float
    method: str
    feature: str
    uri: str | None


class Shelf:
    """Answers for any number of clients: at most so many, and so many bytes; what was not used for longest goes first.

    `clock` gives seconds.
    """

    def __init__(
        self, *, most: int = 1000, size: int = 16 * 2**20, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock
        self._most = most
        self._size = size
        self._taken = 0
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self.drops: dict[str, int] = {}

    @property
    def kept(self) -> int:
        """How many answers there are."""
        return len(self._kept)

    def of(self, server: str, user: str) -> Cache:
        """The answers of one server for one user; what is public is shared with the others at the same server. Who is
        called alike has to be the same: a user stands for all that an access token lets see."""
        return Cache(self, server, ("user", user))

    def get(self, key: _Key) -> bytes | None:
        """An answer, if there is one that holds."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if self.clock() >= kept.until:
            self._remove(key)
            return None
        self._kept.move_to_end(key)
        return kept.answer

    def put(self, key: _Key, kept: _Kept) -> None:
        """Keep an answer, if there can be room for it."""
        self._remove(key)
        if len(kept.answer) > self._size:
            return
        self._kept[key] = kept
        self._taken += len(kept.answer)
        while len(self._kept) > self._most or self._taken > self._size:
            self._remove(next(iter(self._kept)))

    def drop(self, server: str, is_meant: Callable[[_Kept], bool]) -> None:
        """Forget answers of a server, and those that are under way."""
        self.drops[server] = self.drops.get(server, 0) + 1
        for key in [key for key, kept in self._kept.items() if key[0] == server and is_meant(kept)]:
            self._remove(key)

    def _remove(self, key: _Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._taken -= len(kept.answer)


class Cache:
    """The answers of one server for one user. Without a shelf, nothing of it is shared."""

    def __init__(self, shelf: Shelf | None = None, server: str = "", user: object = "") -> None:
        self._shelf = shelf or Shelf()
        self._server = server
        self._user = user

    async def ask(
        self,
        revision: str,
        row: Request[Any],
        params: Params,
        options: Options | None,
        ask: Callable[[], Awaitable[Any]],
    ) -> Any:
        """The answer to a request: what is kept, as long as it holds, else what `ask` gives. Errors are not kept, nor
        what asks something first, nor what depends on answers to that."""
        said = params.model_dump() if isinstance(params, BaseModel) else params
        given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        chosen = options or DEFAULT
        if any(name in given for name in _OF_A_RETRY):
            return await ask()

        def key(who: object) -> _Key:
            return self._server, who, revision, row.method, to_json([given, chosen.meta])

        if self._shelf.kept and not chosen.fresh:
            found = self._shelf.get(key(self._user)) or self._shelf.get(key(_EVERYBODY))
            if found is not None:
                return row.read_result(from_json(found), given)
        drops = self._shelf.drops.get(self._server, 0)
        try:
            answer = await ask()
        except ErrorResponse as refused:
            if refused.code == INVALID_PARAMS and "cursor" in given:  # The list is not what its pages were of.
                self._shelf.drop(self._server, lambda kept: kept.method == row.method)
            raise
        scope = getattr(answer, "cache_scope", None)  # Without one it is not a result to be kept, whatever ends in it.
        if scope is not None and isinstance(answer, row.result) and drops == self._shelf.drops.get(self._server, 0):
            ttl = min(getattr(answer, "ttl_ms", 0), _LONGEST * 1000) / 1000
            if ttl > 0:
                until, about = self._shelf.clock() + ttl, _feature(row.capability)
                kept = _Kept(to_json(answer), until, row.method, about, given.get("uri"))
                self._shelf.put(key(_EVERYBODY if scope == _PUBLIC else self._user), kept)
        return answer

    def changed(self, row: Notification, uri: str | None) -> None:
        """A server told that something has changed: a resource, with what lies below it, or the lists of a feature."""
        if uri is not None:
            self._shelf.drop(self._server, lambda kept: kept.uri is not None and is_below(uri, kept.uri))
        elif row.capability:
            feature = _feature(row.capability)
            self._shelf.drop(self._server, lambda kept: kept.uri is None and kept.feature == feature)


def _feature(capability: str) -> str:
    """`server.tools.listChanged` → `tools`."""
    return split(capability)[1][0] if capability else ""
