"""What becomes of the objects of a large message: they are freed in pieces, and no garbage collection visits them all.

Nothing is timed here: objects are counted.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from support.endpoints import Rev, client_of, raw_server
from support.http.raw_server import Got, Raw, Write, reply, result, serving

from mcp_generated import v2026_07_28
from mcp_products.large.messages import without_collection

NUMBER, PIECE = 5500, 1000
TOOLS = [{"name": f"tool{index}", "inputSchema": {"type": "object"}} for index in range(NUMBER)]
CONTENT = [{"type": "text", "text": f"text {index}"} for index in range(NUMBER)]
LISTED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": TOOLS}
CALLED = {"resultType": "complete", "content": CONTENT}
OPENING = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"]}
SERVER = {"serverInfo": {"name": "raw", "version": "1"}, "capabilities": {"tools": {}}}


class Freed:
    """Counts which of some objects are freed, turn by turn of the event loop."""

    def __init__(self, items: list[Any]) -> None:
        self.references = [weakref.ref(item, self._note) for item in items]
        self.count = 0

    def _note(self, reference: object) -> None:
        self.count += 1

    async def turns(self) -> list[int]:
        """Return how many were freed in a turn, for all turns until none is left."""
        turns = [self.count]
        while sum(turns) < len(self.references):
            await asyncio.sleep(0)
            turns.append(self.count - sum(turns))
        return turns


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
@pytest.mark.parametrize("revision_id", ["2024-11-05", "2025-11-25"])
async def test_a_long_result_that_nobody_holds_is_freed_in_pieces(revision_id: str, method: str) -> None:
    rev = Rev(revision_id)
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, cache=False).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    call = asyncio.create_task(client.list_tools() if method == "tools/list" else client.call_tool(name="x"))
    request = await wire.receive()
    answer = LISTED if method == "tools/list" else CALLED
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": answer})
    got: Any = await call
    freed = Freed(got.tools if method == "tools/list" else got.content)
    assert len(freed.references) == NUMBER
    del got, call
    async with asyncio.timeout(10):
        turns = await freed.turns()
    assert max(turns) <= 2 * PIECE, turns
    await client.close()


async def answer_all(got: Got, write: Write) -> None:
    answers: dict[str, Any] = {"server/discover": {**OPENING, **SERVER}, "tools/list": LISTED}
    await write(reply(result(got, answers[got.rpc])))


async def test_over_http_as_well() -> None:
    raw = Raw(dict.fromkeys(("server/discover", "tools/list"), answer_all))
    async with serving(raw), v2026_07_28.Client.http(raw.url, cache=False) as client:
        got: Any = await client.list_tools()
        freed = Freed(got.tools)
        del got
        async with asyncio.timeout(10):
            turns = await freed.turns()
    assert max(turns) <= 2 * PIECE, turns


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """Collect garbage as a program does that has frozen nothing; then as before."""
    was_frozen, was_enabled = gc.get_freeze_count() > 0, gc.isenabled()
    gc.unfreeze()
    gc.enable()
    yield
    gc.unfreeze()
    if was_frozen:
        gc.freeze()
    if not was_enabled:
        gc.disable()


def created(number: int) -> list[Any]:
    """Return objects that were made without collections."""
    with without_collection():
        return [[[]] for _ in range(number)]


def are_old(items: list[Any]) -> bool:
    old = {id(item) for item in gc.get_objects(2)}
    return all(id(item) in old for item in items)


@pytest.mark.long
@pytest.mark.usefixtures("unfrozen")
def test_what_was_made_without_collections_is_visited_by_none_of_young_objects() -> None:
    assert are_old(created(30_000))
    assert gc.get_freeze_count() == 0


@pytest.mark.long
@pytest.mark.usefixtures("unfrozen")
def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    frozen = 0.99 * gc.get_freeze_count()  # What other threads still free of it counts no more.
    assert frozen > 0
    created(30_000)
    assert gc.get_freeze_count() >= frozen


@pytest.mark.long
@pytest.mark.usefixtures("unfrozen")
def test_few_objects_stay_young_and_a_disabled_collection_stays_disabled() -> None:
    gc.collect()
    assert not are_old(created(100))
    gc.disable()
    try:
        created(30_000)
        assert not gc.isenabled()
    finally:
        gc.enable()
