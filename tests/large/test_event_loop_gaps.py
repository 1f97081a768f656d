"""A large message does not hold up the event loop: between its pieces, other work is done.

What is measured is the CPU time of the process between two turns of another task, beside the CPU time of a yardstick:
the machine may be slow or busy.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.http.attacks import HOSTILE, WELL_FORMED, answered, application, body_of
from support.project import SERVERS

from mcp_generated import InvalidResponseError, MCPError, v2025_11_25, v2026_07_28
from mcp_generated.http import HTTPLimits
from mcp_runtime.protocol.json_text import has_more_parts

# 100 ms on a machine that reads and writes four megabytes of ordinary JSON in 100 ms.
ORDINARY = json.dumps([{"name": f"name {index}", "value": index} for index in range(100_000)])
LIMIT = HTTPLimits().max_parts
ATTEMPTS = 4
# What takes longest for its size.
WORST = ("people", "large integral numbers", "unknown properties", "subscriptions", "free members", "nested arrays")
KINDS = [pytest.param(kind, marks=() if kind in WORST[:3] else pytest.mark.long) for kind in HOSTILE | WELL_FORMED]


class Gaps:
    """The longest CPU time between two turns of a task that does nothing but give up its turn."""

    maximum = 0.0

    async def watch(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.maximum = max(self.maximum, now - last)
            last = now


@asynccontextmanager
async def watched() -> AsyncIterator[Gaps]:
    gaps = Gaps()
    watching = asyncio.create_task(gaps.watch())
    await asyncio.sleep(0)
    try:
        yield gaps
    finally:
        watching.cancel()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_frozen() -> Iterator[None]:
    """Let garbage collection work as in a program that has frozen nothing; what all other tests have left is old: a
    collection of young objects does not visit it."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.collect()
    yield
    if was_frozen:
        gc.freeze()


async def shortest_gap(work: Callable[[], Awaitable[object]]) -> float:
    """The longest gap during some work, as a part of the yardstick; the least of a few attempts."""
    ratios: list[float] = []
    gc.collect(1)  # What is younger becomes old too.
    while len(ratios) < ATTEMPTS and min(ratios, default=1.0) >= 1:
        began = time.process_time()
        json.dumps(json.loads(ORDINARY))
        yardstick = time.process_time() - began
        async with watched() as gaps:
            await work()
        ratios.append(gaps.maximum / yardstick)
    return min(ratios)


def limit_message(kind: str) -> bytes:
    """The longest message of a kind that has few enough values, or a few percent less: a shorter one has as many for
    its length."""
    low, high = 1000, 7_900_000 // 50
    while high - low > 100:
        middle = (low + high) // 2
        low, high = (low, middle) if has_more_parts(body_of(kind, middle), LIMIT // 50) else (middle, high)
    message = body_of(kind, low * 49)
    assert not has_more_parts(message, LIMIT)
    return message


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_over_http_does_other_work_beside_the_longest_message(kind: str) -> None:
    asgi = application().asgi()
    await answered(asgi, body_of(kind, 100))  # What is loaded and compiled once is not a part of the gap.
    for body in (limit_message(kind), body_of(kind, 7_900_000)):

        async def send(body: bytes = body) -> None:
            assert (await answered(asgi, body)).status in (200, 400, 413)

        assert await shortest_gap(send) < 1
    await asgi.close()


SERVER = str(SERVERS / "long_results.py")
ITEMS = {
    "tools": ("tools/list", "tools", {"name": "NUMBER", "inputSchema": {"type": "object"}}),
    "content": ("tools/call", "content", {"type": "text", "text": "NUMBER"}),
    "wrong content": ("tools/call", "content", {"type": "text", "data": "NUMBER"}),
    "free members": ("tools/call", "x", {"NUMBER": 1}),
}
CLIENTS: dict[str, Any] = {"2025-11-25": v2025_11_25.Client, "2026-07-28": v2026_07_28.Client}


@pytest.mark.long
@pytest.mark.parametrize("revision_id", CLIENTS)
@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("size", [2_500_000, 7_900_000])
async def test_a_client_over_stdio_does_other_work_beside_a_long_result(kind: str, revision_id: str, size: int) -> None:
    method, name, item = ITEMS[kind]
    command = (sys.executable, SERVER, revision_id, method, name, json.dumps(item), str(size))
    async with CLIENTS[revision_id].stdio(*command, cache=False) as client:

        async def request() -> None:
            try:
                await (client.list_tools() if method == "tools/list" else client.call_tool(name="x"))
            except MCPError as error:
                assert isinstance(error, InvalidResponseError), error

        assert await shortest_gap(request) < 1
