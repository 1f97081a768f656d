"""Streams and their store: what is stored of them, and when."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import MutableMapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json
from support.stores.homes import FEW_HOMES, open_home, place_of

from mcp_generated.http import InMemoryStore, SQLiteStore
from mcp_products.workers.sessions import worker as worker_module
from mcp_products.workers.sessions.streams import UNCHANGED, StoredStream, read_messages
from mcp_products.workers.sessions.worker import Worker
from mcp_runtime.http.asgi import PartedResponse
from mcp_runtime.transports.http_server.streams import KeepAliveTimer


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
    stream = StoredStream(worker, f"{worker.new_token()}_x", 60.0, owner=UNCHANGED)
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
    stream = StoredStream(writer, f"{writer.new_token()}_x", 60.0, owner=UNCHANGED)
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


async def test_a_message_is_stored_before_it_is_sent(tmp_path: Path) -> None:
    """And what has changed in the session is stored before that."""
    store, stored_before, happened = SQLiteStore(tmp_path / "s.db"), [], []
    worker = Worker(store, "server")

    def stored() -> int:
        with closing(sqlite3.connect(tmp_path / "s.db")) as file:
            rows = file.execute("SELECT last FROM streams").fetchall()
        return rows[0][0] if rows else 0

    class Owner:
        has_changed = False

        async def save(self) -> None:
            happened.append(f"saved after {stored()}")
            self.has_changed = False

    async def send(message: MutableMapping[str, Any]) -> None:
        for line in message.get("body", b"").split(b"\n"):
            if line.startswith(b"data: {"):
                stored_before.append(stored())
                happened.append(line.decode())

    owner, connection = Owner(), object()
    stream = StoredStream(worker, f"{worker.new_token()}_x", 60.0, owner=owner)
    stream.requests = [7]
    stream.attach(connection)
    sending = asyncio.create_task(stream.pump(connection, PartedResponse(send, ()), KeepAliveTimer()))
    for number in range(1, 6):
        owner.has_changed = number == 3
        stream.put(b'{"n":%d}' % number)
        while len(stored_before) < number:
            await asyncio.sleep(0)
    stream.finish()
    await sending
    assert stored_before == [1, 2, 3, 4, 5]
    assert happened[2] == "saved after 2" and len(happened) == 6
    assert await read_messages(worker, stream.id, 0, 9) == [
        *((number, b'{"n":%d}' % number) for number in range(1, 6)),
        (6, b""),
    ]
    await worker.close()


@pytest.mark.parametrize("is_storing", [False, True])
async def test_an_id_is_sent_when_other_workers_find_the_stream(is_storing: bool) -> None:
    """Also if its first message waits by then, or is being stored without the connection."""
    store, found, connection = InMemoryStore(), [], object()
    writer, reader = Worker(store, "server"), Worker(store, "server")
    stream = StoredStream(writer, f"{writer.new_token()}_x", 60.0, owner=UNCHANGED)

    async def send(message: MutableMapping[str, Any]) -> None:
        if b"id: " in message.get("body", b""):
            found.append(await StoredStream(reader, stream.id, 60.0).is_stored())

    stream.requests = [7]
    stream.put(b'{"method":"1"}')
    if is_storing:
        stream.store_soon()
    stream.attach(connection)
    response = PartedResponse(send, ())
    await stream.pump(connection, response, KeepAliveTimer(), priming_event=True, hold=lambda cursor: True)
    assert found and all(found)
    await writer.close()
    await reader.close()
