"""What a stream has to store is stored, once, also if the server cancels the task of its connection meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from support.stores.held_store import HeldStore
from support.stores.homes import FEW_HOMES, open_home, place_of

from mcp_products.workers.sessions.streams import UNCHANGED, StoredStream
from mcp_products.workers.sessions.worker import Worker
from mcp_runtime.http.asgi import PartedResponse
from mcp_runtime.transports.http_server.streams import KeepAliveTimer


@pytest.mark.parametrize("home", FEW_HOMES)
@pytest.mark.parametrize("is_run", [False, True], ids=["before the command", "after it"])
@pytest.mark.parametrize("is_complete", [False, True], ids=["a message", "all messages"])
async def test_the_messages_of_a_cancelled_connection_are_stored_once(
    home: str, is_run: bool, is_complete: bool, tmp_path: Path
) -> None:
    sent: list[bytes] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body", b""))

    async def serve() -> None:
        stream.put(b"one")
        if is_complete:
            stream.finish()
        await stream.pump(connection, PartedResponse(send, ()), KeepAliveTimer())

    store, connection = HeldStore(open_home(place_of(home, tmp_path))), object()
    worker = Worker(store, "cancelled")  # type: ignore[arg-type]
    stream = StoredStream(worker, "stream", 60, owner=UNCHANGED)
    stream.attach(connection)
    store.hold(at=int(is_run))
    sending = asyncio.create_task(serve())
    await store.reached.wait()
    sending.cancel()
    await asyncio.wait([sending])
    stream.put(b"two")
    stream.finish()
    store.go.set()
    await store.idle()
    expected = [b"one", b""] if is_complete else [b"one", b"two", b""]
    assert [entry for _, entry in await worker.read("stream", 0, 10)] == expected
    assert not any(sent), "nothing is sent that is not stored"
    await worker.close()
