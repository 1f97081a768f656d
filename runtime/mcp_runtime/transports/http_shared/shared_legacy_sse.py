"""HTTP+SSE of 2024 with several workers: one has the stream of a client, any takes its posts."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ...aio.keepalive import KeepAliveTimer
from ...http.headers import HTTPError
from ...session.identity import RequestAuth
from ...session.interfaces import Candidate, Service
from ..http_server.legacy_sse import LegacySSEHandler, Post, owner_of
from .session_replicas import owner_digest
from .worker import Worker

_TTL: Final = 3600.0  # Seconds after the last post through another worker for which those go on.


class SharedLegacySSEHandler(LegacySSEHandler):
    """All HTTP+SSE connections of one worker. The id of a connection names the worker that has it."""

    def __init__(
        self,
        servers: Sequence[Candidate[Service]],
        sse_path: str,
        message_path: str,
        max_connections: int,
        keep_alive: KeepAliveTimer,
        *,
        worker: Worker,
    ) -> None:
        """Create the handler of a worker."""
        super().__init__(servers, sse_path, message_path, max_connections, keep_alive)
        self._worker = worker
        worker.on("post", self._on_post)

    async def _new_id(self, auth: RequestAuth) -> str:
        id = f"{self._worker.id}{secrets.token_urlsafe(24)}"
        record = owner_digest(owner_of(auth)).encode()
        await self._worker.store.put(self._worker.key("sse", id), record, _TTL)
        return id

    async def _post(self, id: str, auth: RequestAuth) -> Post | None:
        worker = self._worker.other_worker(id)
        if worker is None:
            return await super()._post(id, auth)
        record = await self._worker.store.touch(self._worker.key("sse", id), _TTL)
        if record != owner_digest(owner_of(auth)).encode():
            return None
        return partial(self._forward, worker, id)

    async def _forward(self, worker: str, id: str, message: bytes) -> HTTPError | None:
        try:
            self._worker.send(worker, "post", connection=id, message=message.decode())
        except UnicodeDecodeError:
            return HTTPError(400, "the message is not UTF-8")
        return None

    def _on_post(self, fields: dict[str, Any]) -> None:
        transport = self._connections.get(fields["connection"])
        if transport is not None:
            self._worker.spawn(transport.post(fields["message"].encode()))
