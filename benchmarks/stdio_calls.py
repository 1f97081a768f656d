"""The cost of a call in the process of the client: the same measurement for every client."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

Call = Callable[[str], Awaitable[str]]  # Returns the text of the result.

IN_FLIGHT = 100


async def report(call: Call) -> None:
    """Make the calls of the command line, and print the values as JSON."""
    warm_up, sequential, in_flight = map(int, sys.argv[1:4])
    await _one_by_one(call, warm_up)
    figures = {"sequential": await _timed(_one_by_one, call, sequential)}
    await _in_flight(call, warm_up)
    figures["in_flight"] = await _timed(_in_flight, call, in_flight)
    print(json.dumps(figures))


def server() -> list[str]:
    """Return the command of the server: the rest of the command line."""
    return sys.argv[4:]


async def _timed(make: Callable[[Call, int], Awaitable[None]], call: Call, count: int) -> tuple[float, float]:
    """Return calls per second, and CPU time of this process in µs per call."""
    start, cpu = time.perf_counter(), time.process_time()
    await make(call, count)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return count / wall, cpu / count * 1e6


async def _one_by_one(call: Call, count: int) -> None:
    await _some(call, iter(range(count)))


async def _in_flight(call: Call, count: int) -> None:
    """Keep IN_FLIGHT calls in flight until all are made."""
    numbers = iter(range(count))
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(_some(call, numbers))


async def _some(call: Call, numbers: Iterator[int]) -> None:
    for number in numbers:
        text = f"this is the text of call {number}"
        if await call(text) != text:
            raise AssertionError(f"call {number} was answered with something else")
