"""HTTP+SSE of 2024 with several workers: one has the stream of a client, any takes its posts."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from mcp_products.legacy_sse.server import LegacySSEHandler, Post, owner_of
from mcp_runtime.http.headers import HTTPError
from mcp_runtime.session.interfaces import Candidate, RequestAuth, Service
from mcp_runtime.transports.http_server.streams import KeepAliveTimer

from .records import owner_digest
from .worker import Worker

_POST_SECONDS: Final = 30.0  # Seconds for the worker with the stream to accept a message.
_TTL: Final = 3600.0  # Seconds for which a connection is known to other workers; its worker renews it before.


class SharedLegacySSEHandler(LegacySSEHandler):
    """All HTTP+SSE connections of one worker. The id of a connection names the worker that has it."""

    def __init__(
        self,
        servers: Sequence[Candidate[Service]],
        max_connections: int,
        keep_alive: KeepAliveTimer,
        worker: Worker,
    ) -> None:
        """Create the handler of a worker."""
        super().__init__(servers, max_connections, keep_alive)
        self._worker = worker
        self._posts: dict[int, asyncio.Future[HTTPError | None]] = {}
        self._last_post = 0
        worker.keep(self._keep_connections)
        worker.on("post", lambda fields: worker.spawn(self._accept(**fields)))
        worker.on("posted", self._on_posted)

    async def _new_id(self, auth: RequestAuth) -> str:
        id = f"{self._worker.id}{secrets.token_urlsafe(24)}"
        await self._store(id, owner_of(auth))
        return id

    async def _store(self, id: str, owner: object) -> None:
        await self._worker.store.put(self._worker.key("sse", id), owner_digest(owner).encode(), _TTL)

    async def _keep_connections(self) -> None:
        """Let the other workers know the connections of this one as long as they are open."""
        for id, transport in list(self._connections.items()):
            await self._store(id, transport.owner)

    async def _post(self, id: str, auth: RequestAuth) -> Post | None:
        worker = self._worker.other_worker(id)
        if worker is None:
            return await super()._post(id, auth)
        key = self._worker.key("sse", id)
        record = await self._worker.restored(lambda: self._worker.store.touch(key, _TTL))
        if record != owner_digest(owner_of(auth)).encode():
            return None
        return partial(self._forward, worker, id)

    async def _forward(self, worker: str, id: str, message: bytes) -> HTTPError | None:
        """Pass a message to the worker with the stream, and wait until it has the message: the next one may go there
        without a detour."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            return HTTPError(400, "the message is not UTF-8")
        self._last_post += 1
        number = self._last_post
        accepted: asyncio.Future[HTTPError | None] = asyncio.get_running_loop().create_future()
        self._posts[number] = accepted
        try:
            fields = {"connection": id, "message": text, "sender": self._worker.id, "number": number}
            await self._worker.deliver(worker, "post", **fields)
            async with asyncio.timeout(_POST_SECONDS):
                return await accepted
        except TimeoutError:
            return HTTPError(503, "the worker that has the SSE stream does not respond")
        finally:
            del self._posts[number]

    async def _accept(self, connection: str, message: str, sender: str, number: int) -> None:
        transport = self._connections.get(connection)
        error = HTTPError(404, "there is no such session")
        refusal = error if transport is None else await transport.post(message.encode())
        failed = None if refusal is None else [refusal.status, refusal.reason, refusal.retry_after]
        await self._worker.deliver(sender, "posted", number=number, failed=failed)

    def _on_posted(self, fields: dict[str, Any]) -> None:
        accepted, failed = self._posts.get(fields["number"]), fields["failed"]
        if accepted is not None and not accepted.done():
            accepted.set_result(None if failed is None else _refusal(*failed))


def _refusal(status: int, reason: str, retry_after: int | None = None) -> HTTPError:
    """Return the error of a message that another worker has refused. A worker of an older release sends no time."""
    return HTTPError(status, reason, retry_after=retry_after)
