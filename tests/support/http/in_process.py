"""A server goes in, and what connects a client to it over HTTP comes out: in process, or on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from support.installation.extras import optional

from mcp_runtime.protocol.revision import Revision
from mcp_runtime.session.interfaces import Transport

if TYPE_CHECKING:
    import httpx2
    import uvicorn

    from mcp_generated import HTTPOptions
else:
    httpx2, uvicorn = optional("httpx2"), optional("uvicorn")


def asking(app: Any) -> httpx2.AsyncClient:
    """A client of an application."""
    from mcp_products.host.applications import InProcess

    return httpx2.AsyncClient(transport=InProcess(app), base_url="http://localhost")


def connecting(server: Any, revision: Revision) -> Callable[[], Awaitable[Transport]]:
    """What connects a client of this revision to a server, over HTTP in process."""

    @asynccontextmanager
    async def reached(app: Any) -> AsyncIterator[tuple[str, HTTPOptions]]:
        from mcp_generated import HTTPOptions

        yield "http://localhost", HTTPOptions(client=asking(app))

    return _connecting(server, revision, reached)


def connecting_by_socket(server: Any, revision: Revision) -> Callable[[], Awaitable[Transport]]:
    """What connects a client of this revision to a server, over HTTP on a real socket."""

    @asynccontextmanager
    async def reached(app: Any) -> AsyncIterator[tuple[str, HTTPOptions]]:
        from mcp_generated import HTTPOptions

        async with served_in_process(app) as port:
            yield f"http://127.0.0.1:{port}", HTTPOptions()

    return _connecting(server, revision, reached)


Reached = Callable[[Any], AbstractAsyncContextManager[tuple[str, Any]]]


def _connecting(server: Any, revision: Revision, reached: Reached) -> Callable[[], Awaitable[Transport]]:
    async def start() -> Transport:
        from mcp_runtime.transports.http_client.transport import HTTPClientTransport

        app = server.asgi(revisions=[revision.id], legacy_sse=True)
        stack = AsyncExitStack()
        url, reach = await stack.enter_async_context(reached(app))
        path = "/mcp" if revision.http.streamable else "/sse"
        transport: Any = HTTPClientTransport(url + path, revision, reach)
        close = transport.close

        async def closing() -> None:
            await close()
            await app.close()
            await stack.aclose()

        transport.close = closing
        return transport  # type: ignore[no-any-return]

    return start


@asynccontextmanager
async def served_in_process(app: Any) -> AsyncIterator[int]:
    """The port at which uvicorn's parser reads for an application, without the rest of uvicorn, which takes its time
    to begin and to end."""
    config = uvicorn.Config(app, log_config=None, lifespan="off")
    config.load()
    state = uvicorn.server.ServerState()

    def protocol() -> asyncio.Protocol:
        http_protocol: asyncio.Protocol = config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[call-arg]
        return http_protocol

    listening = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    try:
        yield int(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=10)
