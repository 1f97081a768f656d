"""A notification about the server goes in, and reaches every client that wants it: in its session, or on the stream it
listens on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ..errors import McpError
from ..exchange import log
from ..lifecycle import declared, split
from ..peer import Asked
from ..seams import Speaker
from ..spec import META, Notification, Stateless
from ..wire import is_list, is_object
from .questions import check_declared

if TYPE_CHECKING:
    from .server import BaseServer, ServerContext

_MOST_WATCHED: Final = 10_000  # Resources that one client may be told of.


class Hearer(Protocol):
    """Somebody who is told of changes."""

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool: ...

    async def hear(self, row: Notification, params: Mapping[str, Any]) -> None: ...


@runtime_checkable
class Choosing(Protocol):
    """A server that says itself who may hear of what; the others tell whoever knows its name."""

    async def followed(self, ctx: ServerContext, row: Notification, ids: list[str]) -> list[str]:
        """Of what a client wants to hear of by name, that of which it may."""
        ...


class Audience:
    """Everybody who is told of changes of one server."""

    def __init__(self) -> None:
        self._hearers: dict[Hearer, None] = {}

    def join(self, hearer: Hearer) -> None:
        self._hearers[hearer] = None

    def leave(self, hearer: Hearer) -> None:
        self._hearers.pop(hearer, None)

    def is_heard(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Whether somebody wants to hear it."""
        return any(hearer.wants(row, params) for hearer in self._hearers)

    async def tell(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Tell all who want to hear it; one who cannot be told harms no other."""
        for hearer in list(self._hearers):
            if hearer.wants(row, params):
                try:
                    await hearer.hear(row, params)
                except McpError as fault:
                    log.debug("%r was not told to a client: %s", row.method, fault)


class Watched:
    """The resources that the client of one session is told of."""

    def __init__(self) -> None:
        self._uris: set[str] = set()

    def __contains__(self, uri: object) -> bool:
        return uri in self._uris

    def add(self, uri: str) -> None:
        if len(self._uris) < _MOST_WATCHED:
            self._uris.add(uri)

    def discard(self, uri: str) -> None:
        self._uris.discard(uri)


class Listener:
    """A client that listens to what it has chosen, until it or the server ends that (basic/patterns/subscriptions)."""

    __slots__ = ("meta", "_speaker", "_chosen", "_ended")

    def __init__(self, speaker: Speaker, asked: Asked, chosen: Mapping[str, Any]) -> None:
        self._speaker = speaker
        self._chosen = chosen
        self._ended = asyncio.get_running_loop().create_future()
        self.meta = {f"{META}subscriptionId": asked.id}

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        return is_wanted(self._chosen, row, params)

    async def hear(self, row: Notification, params: Mapping[str, Any]) -> None:
        await self._speaker.tell(row, {**params, "_meta": {**params.get("_meta", {}), **self.meta}})

    async def listen(self, audience: Audience, lifecycle: Stateless, longest: float | None) -> None:
        """Acknowledge what was chosen, then hear of it until `end`, or for so many seconds at the longest."""
        await self._speaker.tell(lifecycle.acknowledged, {"notifications": self._chosen, "_meta": self.meta})
        audience.join(self)
        end = None if longest is None else self._ended.get_loop().call_later(longest, self.end)
        try:
            await self._ended
        finally:
            audience.leave(self)
            if end is not None:
                end.cancel()

    def end(self) -> None:
        """End it in an orderly way."""
        if not self._ended.done():
            self._ended.set_result(None)


def is_wanted(chosen: Mapping[str, Any], row: Notification, params: Mapping[str, Any]) -> bool:
    """Whether a filter names a notification: by its capability (`server.tools.listChanged` → `toolsListChanged`), or,
    where it is about a resource or one of a list, by that."""
    if row.listed is not None:
        name, key = row.listed
        return is_list(listed := chosen.get(name)) and params.get(key) in listed
    if "uri" in params:
        return any(is_list(value) and params["uri"] in value for value in chosen.values())
    return chosen.get(filter_name(row.capability)) is True


def honoured(asked: Mapping[str, Any], capabilities: Mapping[str, Any], rows: list[Notification]) -> dict[str, Any]:
    """The part of a filter that a server with these capabilities can honour."""
    can = {split(row.capability)[1] for row in rows if declared(dict(capabilities), split(row.capability)[1])}
    names = {filter_name(f"server.{'.'.join(path)}") for path in can if len(path) > 1}
    watches = any(row.capability and "uri" in fields_of(row) and split(row.capability)[1] in can for row in rows)
    lists = {row.listed[0]: split(row.capability)[1] in can for row in rows if row.listed is not None}
    return {
        name: value
        for name, value in asked.items()
        if (lists.get(name, watches) if is_list(value) else value is True and name in names)
    }


def is_below(uri: str, whole: str) -> bool:
    """Whether a URI is that of a resource, or of a part of it: a server may tell of a part, where the whole is watched."""
    return uri == whole or uri.startswith(whole if whole.endswith("/") else f"{whole}/")


async def agreed(server: BaseServer, ctx: ServerContext, asked: Asked) -> dict[str, Any]:
    """What a client will hear of what it asks to hear. Raises Refusal where it has not declared what that needs."""
    rows = [row for row in server.revision.table("server_to_client").values() if isinstance(row, Notification)]
    chosen = honoured(filter_of(asked.params), server.capabilities, rows)
    for row in rows:
        if row.listed is not None and (name := row.listed[0]) in chosen:
            check_declared(server.revision, ctx.capabilities, [f"client{row.capability.removeprefix('server')}"])
            if isinstance(server.source, Choosing):
                chosen[name] = await server.source.followed(ctx, row, chosen[name][:_MOST_WATCHED])
    return chosen


def fields_of(row: Notification) -> frozenset[str]:
    """The properties of the params of a notification."""
    return frozenset(getattr(row.params, "model_fields", {}))


def filter_name(capability: str) -> str:
    """How a filter names the changes that need this capability: `server.tools.listChanged` → `toolsListChanged`."""
    first, *rest = split(capability)[1] if capability else ("",)
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def filter_of(params: Any) -> dict[str, Any]:
    """The filter in the params of a request to listen."""
    found = params.model_dump().get("notifications")
    return found if is_object(found) else {}
