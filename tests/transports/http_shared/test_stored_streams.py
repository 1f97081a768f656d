"""Streams and their store: what is stored of them, and when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json
from support.stores.homes import FEW_HOMES, open_home, place_of

from mcp_generated.http import InMemoryStore
from mcp_runtime.transports.http_shared import worker as worker_module
from mcp_runtime.transports.http_shared.stored_streams import StoredStream
from mcp_runtime.transports.http_shared.stream_registrations import read_messages
from mcp_runtime.transports.http_shared.worker import Worker


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


@pytest.mark.parametrize("closes", [True, False])
async def test_messages_whose_connection_does_not_come_are_stored_nevertheless(
    closes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_TICK", 60.0 if closes else 0.01)
    store = InMemoryStore()
    worker = Worker(store, "server")
    await worker.subscribe()
    stream = StoredStream(worker, f"{worker.new_token()}_x", 60.0, prepare=lambda: None)
    stream.put(b"1")
    stream.put(b"2")
    stream.finish()
    while not closes and not stream.finished:
        await asyncio.sleep(0.01)
    if closes:
        await worker.close()
    assert await store.read(worker.key("stream", stream.id), 0) == [(1, b"1"), (2, b"2"), (3, b"")]
    assert stream.finished
    if not closes:
        await worker.close()


@pytest.mark.parametrize("batches", [[1], [1, 1], [511, 1], [512], [600], [1, 1100], [400, 400, 400], [2000]], ids=str)
async def test_what_others_have_to_know_of_a_stream_outlives_its_first_messages(place: Any, batches: list[int]) -> None:
    """The requests that it answers are stored with its first message, and again before that is deleted."""
    writer, reader = Worker(open_home(place), "server"), Worker(open_home(place), "server")
    stream = StoredStream(writer, f"{writer.new_token()}_x", 60.0, prepare=lambda: None)
    stream.requests = [7, "seven"]
    bodies = [b'{"method":"%d"}' % number for number in range(sum(batches))]
    rest = iter(bodies)
    for batch in batches:
        for _ in range(batch):
            stream.put(next(rest))
        stream.store_soon()
        while writer.unstored:
            await asyncio.sleep(0)
    other = StoredStream(reader, stream.id, 60.0)
    assert await other.is_stored() and await other.required_scopes() == []
    await other.end_failed("gone")
    entries = await read_messages(reader, stream.id, 0, 1024)
    *messages, first, second, end = [body for _, body in entries]
    assert messages == bodies[-1021:] and end == b""
    assert [from_json(error)["id"] for error in (first, second)] == [7, "seven"]
    await writer.close()
    await reader.close()
