"""What a large message costs, served or refused: little CPU time and memory for each of its bytes."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time

import pytest
from support.http.attacks import HOSTILE, WELL_FORMED, answered, application, body_of

from mcp_generated.http import HTTPLimits

MICROSECONDS, MEMORY = 1.0, 60  # For each byte of a message; memory in bytes.
PARSINGS = 150  # Times that `json.loads` takes for ordinary JSON of the same size.
ATTEMPTS = 3
KINDS = [*HOSTILE, *WELL_FORMED]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_costs_little_more_than_ordinary_json_of_its_size(kind: str) -> None:
    """A microsecond a byte is about a hundred times what `json.loads` takes for ordinary JSON, measured beside it."""
    asgi = application().asgi()
    await answered(asgi, body_of(kind, 100))  # What is loaded and compiled once is not a part of the cost.
    body = body_of(kind, 100_000)
    ordinary = json.dumps([{"name": "a", "value": 1}] * (len(body) // 28))
    ratios: list[float] = []
    while len(ratios) < ATTEMPTS and min(ratios, default=PARSINGS) >= PARSINGS:
        if ratios:
            gc.collect()  # What other tests have left is not a part of the cost.
        began = time.process_time()
        answer = await answered(asgi, body)
        answered_at = time.process_time()
        json.loads(ordinary)
        ratios.append((answered_at - began) / (time.process_time() - answered_at))
    await asgi.close()
    assert answer.status in (200, 400, 413) and len(answer.content) < 2_000
    assert (b'"error"' in answer.content or b'"isError":true' in answer.content) or kind in (*WELL_FORMED, *SERVED)
    assert min(ratios) < PARSINGS


SERVED = ("subscriptions", "metadata of a subscription", "nested arrays")  # Strange, but right.


@pytest.mark.long
@pytest.mark.deadline(120)
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("size", [300_000, 7_900_000])
async def test_no_message_costs_more_than_sixty_bytes_a_byte(size: int) -> None:
    command = [sys.executable, "-m", "support.http.attacks", str(size)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, check=True, env=environment, text=True)
    costs = json.loads(done.stdout)
    assert [*costs] == KINDS
    # The interpreter takes memory from the system in steps, which count for a small message.
    dear = {
        kind: cost for kind, cost in costs.items() if cost["memory_per_byte"] * cost["bytes"] > MEMORY * size + 2**21
    }
    slow = {kind: cost for kind, cost in costs.items() if cost["microseconds_per_byte"] >= MICROSECONDS}
    assert (dear, slow) == ({}, {})


@pytest.mark.parametrize(
    ("values", "status"), [("[1,2,3]", 200), ("[1,2,3,4,5]", 413), ("[[],[],[]]", 413), ('"[,[,[,{,\\\\\\",,,,"', 200)]
)
async def test_the_values_of_a_message_are_counted_outside_its_strings(values: str, status: int) -> None:
    call = body_of("an array for an object", 4).replace(b"[1,1]", values.encode())
    # Of the message around the argument: its five objects, what follows its six commas, and three for each name.
    values_around = 5 + 6 + 3 * 10
    asgi = application().asgi(limits=HTTPLimits(max_parts=values_around + 3))
    answer = await answered(asgi, call)
    await asgi.close()
    assert answer.status == status
    if status == 413:
        assert answer.headers["connection"] == "close" and "at most 44 values" in answer.json["error"]["message"]
