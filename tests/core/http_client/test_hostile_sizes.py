"""Large answers of a hostile server: a client refuses them for little more than they cost to read, and goes on."""

from __future__ import annotations

import gc
import json
import time

import pytest
from support.http.raw_server import Got, Raw, Write, reply, result, serving, text

from mcp_generated import InvalidResponseError, v2025_11_25

SIZE = 200_000
PARSINGS = (
    150  # Times that `json.loads` takes for ordinary JSON of the same size, measured beside it. Answers take 4 to 25.
)
ORDINARY = json.dumps([{"name": "a", "value": 1}] * (SIZE // 28))
ATTEMPTS = 3
NAMED = '{"name":"x","inputSchema":{"type":"object","properties":{"a":1}}}'
ITEMS = {
    "tools/list": ("tools", ["1", "{}", "[]", "null", '""', '{"name":1}', '{"name":"x","inputSchema":1}', NAMED]),
    "tools/call": ("content", ["1", "{}", "[]", '{"type":1}', '{"type":"text"}', '{"type":"resource","resource":{}}']),
}
CASES = [(method, name, item) for method, (name, items) in ITEMS.items() for item in items]


def many(got: Got, name: str, item: str) -> bytes:
    """A result whose list has so many items that it is as long as SIZE."""
    items = ",".join([item] * (SIZE // (len(item) + 1)))
    return result(got, {name: "HERE"}).replace(b'"HERE"', f"[{items}]".encode())


@pytest.mark.parametrize(("method", "name", "item"), CASES)
async def test_a_large_wrong_answer_costs_little_more_than_ordinary_json_of_its_size(
    method: str, name: str, item: str
) -> None:
    async def hostile(got: Got, write: Write) -> None:
        await write(reply(many(got, name, item)))

    raw = Raw({method: hostile})
    async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
        raw.answers.clear()
        assert text(await client.call_tool(name="x")) == "usual"  # What is loaded once is not a part of the cost.
        ratios: list[float] = []
        while len(ratios) < ATTEMPTS and min(ratios, default=PARSINGS) >= PARSINGS:
            raw.answers[method] = hostile
            if ratios:
                gc.collect()  # What other tests have left is not a part of the cost.
            began = time.process_time()
            with pytest.raises(InvalidResponseError) as raised:
                await (client.list_tools() if method == "tools/list" else client.call_tool(name="x"))
            ended = time.process_time()
            json.loads(ORDINARY)
            ratios.append((ended - began) / (time.process_time() - ended))
            assert f"{name}[500]" in str(raised.value) and len(str(raised.value)) < 500
            raw.answers.clear()
            assert text(await client.call_tool(name="x")) == "usual"
    assert min(ratios) < PARSINGS


async def test_an_answer_of_too_many_values_fails_its_call() -> None:
    async def hostile(got: Got, write: Write) -> None:
        await write(reply(result(got, {"content": "HERE"}).replace(b'"HERE"', b"[" + b"1," * 1_000_000 + b"1]")))

    raw = Raw({"tools/call": hostile})
    async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
        with pytest.raises(InvalidResponseError, match="at most 750000 values"):
            await client.call_tool(name="x")
        raw.answers.clear()
        assert text(await client.call_tool(name="x")) == "usual"
