"""Several workers of one server, each with an application of its own, and a client that uses them in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from support.endpoints import Rev
from support.http.asgi_client import Answer, Web
from support.stores.homes import open_home


class Workers(Web):
    """A client of several workers; `at` is one of them, and without it requests go to them in turn."""

    def __init__(self, applications: list[Any], servers: list[Any], rev: Rev) -> None:
        super().__init__(applications[0], rev)
        self.applications = applications
        self.servers = servers
        self._next = 0

    async def open(self, at: int | None = None) -> Answer:
        self._next = self._next if at is None else at
        return await super().open()

    def request(self, *arguments: Any, at: int | None = None, **named: Any) -> Answer:
        number = self._next if at is None else at
        self._next = (number + 1) % len(self.applications)
        self.app = self.applications[number]
        return super().request(*arguments, **named)


@asynccontextmanager
async def workers(
    rev: Rev,
    make: Callable[[], Any],
    place: Any,
    count: int = 3,
    opened: Callable[[Any], Any] = open_home,
    **settings: Any,
) -> AsyncIterator[Workers]:
    """A client of several workers of the servers that `make` returns; its session is open. `opened` opens the store of
    one worker."""
    servers = [make() for _ in range(count)]
    async with AsyncExitStack() as stack:
        applications: list[Any] = []
        for server in servers:
            application = server.asgi(revisions=[rev.id], store=opened(place), **settings)
            stack.push_async_callback(application.close)
            await application.open()  # As the lifespan of its ASGI server does.
            applications.append(application)
        client = Workers(applications, servers, rev)
        if not rev.stateless:
            await client.open()
        yield client
