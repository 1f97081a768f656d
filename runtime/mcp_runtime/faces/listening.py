"""A client and what it wants to hear of go in; the changes that its server tells of come out, one after the other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from random import random
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar

from pydantic import BaseModel

from ..errors import ErrorResponse, LocalError, McpError, NotConnected, NotConvertible, Rejected, RemoteError
from ..exchange import log
from ..jsonrpc import Id
from ..session import Session
from ..spec import META, Handshake, Notification, Request, Revision, Stateless
from ..wire import is_list, is_object, reader
from .audience import fields_of, filter_name, honoured, is_below
from .caching import Cache
from .calls import DEFAULT, Options, Params

EventT = TypeVar("EventT", bound=BaseModel)
EventT_co = TypeVar("EventT_co", bound=BaseModel, covariant=True)
Choice: TypeAlias = tuple[Notification, type[EventT], bool | Sequence[str] | None]

_MOST_FAILURES: Final = 6  # In a row, to listen again after a connection broke.
_MOST_WAITING: Final = 10_000  # Resources whose changes nobody has taken yet.
_PASSING: Final = (408, 425, 429, 500, 502, 503, 504)  # Statuses after which a second try may do.
_SUBSCRIPTION: Final = f"{META}subscriptionId"


class Hearing:
    """What a client needs to listen: how it asks, in the words of the revision that is spoken, and who listens.

    `cache` forgets what has changed; `inward` gives the params of a notification in the words of the client,
    None where it has no such thing."""

    def __init__(
        self,
        revision: Revision,
        live: Callable[[], Session],
        ask: Callable[[Request[Any], Params, Options | None], Awaitable[Any]],
        given: Callable[[Request[Any], Params, Options], Any],
        cache: Cache | None,
        inward: Callable[[Notification, dict[str, Any]], dict[str, Any] | None] | None = None,
    ) -> None:
        self.revision = revision
        self.live = live
        self.ask = ask
        self.given = given
        self.cache = cache
        self.inward = inward
        self.listeners: dict[Listener, None] = {}
        self.watched: Counter[str] = Counter()

    def heard(self, row: Notification, params: BaseModel | None) -> None:
        """Tell all who listen."""
        if self.cache is not None:
            self.cache.changed(row, getattr(params, "uri", None))
        if self.listeners:
            said = {} if params is None else params.model_dump()
            for each in list(self.listeners):
                each.hear(row, said)


class Listener(Protocol):
    """Somebody who listens."""

    def hear(self, row: Notification, params: dict[str, Any]) -> None: ...


class Listens(Protocol):
    """A client, as far as listening goes."""

    @property
    def hearing(self) -> Hearing: ...


class Listening(Generic[EventT]):
    """Changes that a server tells of, from `async with` on; `async for` gives each as the notification it is.

    What changes again before it was taken is given once. `honoured` says what the server agreed to tell. A connection
    over HTTP that breaks is made again; then each thing listened to is given once, for what was missed meanwhile. The
    iteration ends when the server ends it in an orderly way; it raises NotConnected where the conversation ended.
    """

    def __init__(self, client: Listens, choices: Sequence[Choice[EventT]], options: Options | None = None) -> None:
        self._client = client
        self._options = options or DEFAULT
        self._kinds = {row.method: kind for row, kind, _ in choices}
        self._wanted = _wanted(choices)
        self.honoured: Mapping[str, Any] = {}
        """What the server agreed to tell, by the keywords of `listen`: true, or URIs."""
        self._chosen: Mapping[str, Any] = {}
        self._id: Id | None = None
        self._waiting: dict[tuple[str, str | None], EventT] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._fault: McpError | None = None

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise LocalError("this was listened to already; call `listen` again")
        hearing = self._hearing = self._client.hearing
        session = hearing.live()
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lifecycle = session.peer.revision.lifecycle
        way = self._ask(session, lifecycle) if isinstance(lifecycle, Stateless) else self._watch(session, lifecycle)
        hearing.listeners[self] = None
        task = self._task = asyncio.create_task(way)
        task.add_done_callback(lambda _: self._wake.set())
        try:
            await asyncio.wait([self._begun, task], timeout=self._options.timeout, return_when="FIRST_COMPLETED")
            if not self._begun.done():
                if task.done():
                    task.result()
                raise NotConnected(f"{session.peer.revision.id}: listening was not acknowledged in time")
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventT:
        while not self._waiting:
            if self._task is None:
                raise LocalError("listen with `async with`")
            if self._task.done():
                fault = self._fault if self._task.cancelled() else self._task.exception()
                if fault is not None:
                    raise fault
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._waiting.pop(next(iter(self._waiting)))

    async def close(self) -> None:
        """Listen no longer; what was not taken yet can still be."""
        if self._task is not None:
            self._hearing.listeners.pop(self, None)
            self._task.cancel()
            await asyncio.wait([self._task])

    # ---- hearing ----------------------------------------------------------------------------------------------------

    def hear(self, row: Notification, params: dict[str, Any]) -> None:
        """Take note of a notification, if it is for this one."""
        if self._id is not None:
            meta = params.get("_meta")
            id = meta.get(_SUBSCRIPTION) if is_object(meta) else None
            if type(id) is not type(self._id) or id != self._id:
                return
            if not self._chosen:
                lifecycle = self._hearing.revision.lifecycle
                if isinstance(lifecycle, Stateless) and row.method == lifecycle.acknowledged.method:
                    self._acknowledged(params)
                else:
                    log.warning("%r came before listening was acknowledged", row.method)
                return
        uri = params.get("uri")
        if _is_among(self._chosen, row, uri):
            self._put(row, params, uri)

    def _put(self, row: Notification, params: dict[str, Any], uri: str | None = None) -> None:
        kind, hearing = self._kinds.get(row.method), self._hearing
        try:
            inside = params if hearing.inward is None else hearing.inward(row, params)
        except NotConvertible as fault:
            log.debug("a change is not told: %s", fault)
            return
        if kind is None or inside is None:
            return
        if len(self._waiting) >= _MOST_WAITING and self._task is not None:
            self._fault = RemoteError(f"{row.method!r}: more than {_MOST_WAITING} changes that nobody takes")
            self._task.cancel()
            return
        said = {"jsonrpc": "2.0", "method": row.method, "params": inside}
        known = {field.alias or name for name, field in kind.model_fields.items()}
        self._waiting[row.method, uri] = reader(kind)({name: each for name, each in said.items() if name in known})
        self._wake.set()

    def _agree(self, chosen: Mapping[str, Any]) -> None:
        """Note what the server agreed to tell."""
        self._chosen = chosen
        names = {self._key(row): row.name.removeprefix("on_") for row, _ in self._rows()}
        self.honoured = {names[key]: value for key, value in chosen.items() if key in names}
        if not self._begun.done():
            self._begun.set_result(None)

    def _rows(self) -> list[tuple[Notification, bool | list[str]]]:
        """What is wanted, in the words of the revision that is spoken."""
        table = self._hearing.revision.table("server_to_client")
        found = ((table.get(method), wanted) for method, wanted in self._wanted.items())
        return [(row, wanted) for row, wanted in found if isinstance(row, Notification)]

    def _key(self, row: Notification) -> str:
        """The name of a kind of change in a filter: made from its capability, or, for changes of resources that are
        named, the one property of the filter that is not."""
        lifecycle = self._hearing.revision.lifecycle
        if "uri" not in fields_of(row) or not isinstance(lifecycle, Stateless):
            return filter_name(row.capability)
        shape: Any = lifecycle.listen.params.model_fields["notifications"].annotation
        table = self._hearing.revision.table("server_to_client").values()
        flags = {filter_name(each.capability) for each in table if each.capability}
        names: list[str] = [field.alias or name for name, field in shape.model_fields.items()]
        return next(name for name in names if name not in flags)

    # ---- by a request that stays open ----------------------------------------------------------------------------------

    async def _ask(self, session: Session, lifecycle: Stateless) -> None:
        """Ask to listen, again where the connection breaks, until the server says that this is the end."""
        asked = {self._key(row): wanted for row, wanted in self._rows()}
        failures = 0
        while True:
            self._id, self._chosen = session.peer.next_id(), {}
            params = self._hearing.given(lifecycle.listen, {"notifications": asked}, self._options)
            try:
                await session.ask(lifecycle.listen, params, None, id=self._id)
                return
            except (NotConnected, Rejected, ErrorResponse) as fault:
                failures = 0 if self._chosen else failures + 1
                if session.ended or not self._begun.done() or failures > _MOST_FAILURES or not _passes(fault):
                    raise
                log.warning("listening again: %s", fault)
            from ..http.asking import delay  # Not loaded where nothing breaks.

            await asyncio.sleep(delay(failures, None, random()))

    def _acknowledged(self, params: dict[str, Any]) -> None:
        again, rows = self._begun.done(), self._rows()
        agreed = params.get("notifications")
        granted = agreed if is_object(agreed) else {}
        asked = {self._key(row): wanted for row, wanted in rows}
        self._agree({name: _both(asked[name], value) for name, value in granted.items() if asked.get(name) and value})
        if again:  # Nobody knows what was missed meanwhile.
            for row, _ in rows:
                value = self._chosen.get(self._key(row))
                for uri in value if is_list(value) else [None] if value else []:
                    said = {} if uri is None else {"uri": uri}
                    if self._hearing.cache is not None:
                        self._hearing.cache.changed(row, uri)
                    self._put(row, said, uri)

    # ---- by what a session tells anyway ---------------------------------------------------------------------------------

    async def _watch(self, session: Session, lifecycle: Handshake) -> None:
        """Subscribe to each resource, and hear what the session tells until it ends."""
        table = self._hearing.revision.table("server_to_client").values()
        notifications = [row for row in table if isinstance(row, Notification)]
        wanted = {self._key(row): wanted for row, wanted in self._rows()}
        chosen = self._chosen = honoured(wanted, session.peer.theirs, notifications)
        kept: list[str] = []
        try:
            for name, value in list(chosen.items()):
                if is_list(value):
                    chosen[name] = [uri for uri in value if await self._subscribe(lifecycle, uri, kept)]
            self._agree(chosen)
            await asyncio.shield(session.over)
        finally:
            if not session.ended:
                await self._unsubscribe(lifecycle, kept)
        raise NotConnected(session.transport.ending)

    async def _subscribe(self, lifecycle: Handshake, uri: str, kept: list[str]) -> bool:
        """Whether the server tells of this resource from now on."""
        if lifecycle.subscribe is None:
            return False
        watched = self._hearing.watched
        watched[uri] += 1
        kept.append(uri)
        try:
            if watched[uri] == 1:
                await self._hearing.ask(lifecycle.subscribe, {"uri": uri}, self._options)
        except ErrorResponse as refused:
            log.debug("%r is not watched: %s", uri, refused)
            kept.remove(uri)
            watched[uri] -= 1
            return False
        return True

    async def _unsubscribe(self, lifecycle: Handshake, kept: list[str]) -> None:
        watched = self._hearing.watched
        for uri in kept:
            watched[uri] -= 1
            if not watched[uri] and lifecycle.unsubscribe is not None:
                with suppress(McpError):
                    await self._hearing.ask(lifecycle.unsubscribe, {"uri": uri}, self._options)


def _wanted(choices: Sequence[Choice[Any]]) -> dict[str, bool | list[str]]:
    """What was chosen, by method; every list, where nothing was. Raises LocalError for one URI instead of a list."""
    every = not any(wanted for _, _, wanted in choices)
    found: dict[str, bool | list[str]] = {}
    for row, _, wanted in choices:
        if isinstance(wanted, str):
            raise LocalError(f"{row.method!r}: a list of URIs is needed, not {wanted[:200]!r}")
        if wanted is True or (every and "uri" not in fields_of(row)):
            found[row.method] = True
        elif wanted:
            found[row.method] = list(dict.fromkeys(wanted))
    return found


def _is_among(chosen: Mapping[str, Any], row: Notification, uri: str | None) -> bool:
    """Whether a change is one of those chosen; what lies below a resource counts as the resource."""
    if uri is None:
        return chosen.get(filter_name(row.capability)) is True
    return any(is_list(value) and any(is_below(uri, each) for each in value) for value in chosen.values())


def _both(asked: bool | list[str], granted: Any) -> Any:
    return [uri for uri in asked if uri in granted] if is_list(asked) and is_list(granted) else granted


def _passes(fault: McpError) -> bool:
    """Whether what went wrong may be better in a moment."""
    return isinstance(fault, NotConnected) or getattr(fault, "status", None) in _PASSING
