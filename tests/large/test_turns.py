"""Large messages are handled one after the other, in the order of a connection and in turns of the clients."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.endpoints import Rev
from support.http.asgi_client import Answer, Web
from support.http.raw_server import Got, Raw, Write, reply, result, serving

from mcp_generated import App, InvalidResponseError, v2025_11_25, v2026_07_28
from mcp_products.large.messages import Turns
from mcp_runtime.bindings.server import services_of
from mcp_runtime.session.serving import serve
from mcp_runtime.transports.memory import MemoryTransport, linked_transports

STATELESS = Rev("2026-07-28")
LARGE, SMALL = 20_000, 1  # Numbers in the arguments of a call.
META = "io.modelcontextprotocol/"


def counting_app(seen: list[str]) -> App:
    app = App("counting")

    @app.tool
    async def count(name: str, values: list[int]) -> int:
        seen.append(name)
        return len(values)

    return app


def call(name: str, numbers: int, id: int = 1) -> dict[str, Any]:
    meta = {f"{META}protocolVersion": STATELESS.id, f"{META}clientCapabilities": {}}
    arguments = {"name": name, "values": [12_345] * numbers}
    return {
        **{"jsonrpc": "2.0", "id": id, "method": "tools/call"},
        "params": {"_meta": meta, "name": "count", "arguments": arguments},
    }


def post(asgi: Any, name: str, numbers: int, address: str) -> Answer:
    return Web(asgi, STATELESS).request(body=call(name, numbers), client=(address, 1))


@pytest.fixture
def collecting() -> Iterator[None]:
    yield
    assert gc.isenabled()


@pytest.mark.usefixtures("collecting")
async def test_a_small_call_does_not_wait_for_the_large_ones_before_it() -> None:
    seen: list[str] = []
    asgi = counting_app(seen).asgi()
    await post(asgi, "first", SMALL, "1.1.1.1").whole()
    large = [post(asgi, "large", LARGE, "2.2.2.2") for _ in range(10)]
    small = await post(asgi, "small", SMALL, "1.1.1.1").whole()
    assert small.status == 200 and seen.index("small") <= 2, seen
    assert [(await answer.whole()).status for answer in large] == [200] * 10
    await asgi.close()


async def test_clients_take_turns() -> None:
    seen: list[str] = []
    asgi = counting_app(seen).asgi()
    await post(asgi, "first", SMALL, "1.1.1.1").whole()
    answers = [post(asgi, "many", LARGE, "2.2.2.2") for _ in range(8)]
    answers += [post(asgi, "one", LARGE, "1.1.1.1")]
    for answer in answers:
        assert (await answer.whole()).status == 200
    assert seen.index("one") <= 3, seen
    await asgi.close()


async def test_a_client_that_leaves_gives_up_its_turn() -> None:
    turns = Turns()
    assert await turns.take("a", 1)
    waiting = [asyncio.create_task(turns.take(name, 1)) for name in ("b", "c", "d")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    turns.give_back()
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert await waiting[1] and not waiting[2].done()
    turns.give_back()
    await asyncio.sleep(0)
    waiting[2].cancel()  # It has the turn, and has not begun.
    await asyncio.wait(waiting)
    async with asyncio.timeout(10):
        assert await turns.take("e", 1)


async def test_the_messages_that_wait_are_bounded_for_each_client() -> None:
    turns = Turns(max_waiting=10, max_waiting_of_all=15)
    assert await turns.take("a", 100)
    waiting = [asyncio.create_task(turns.take(name, size)) for name, size in (("b", 6), ("b", 4), ("c", 100))]
    await asyncio.sleep(0)
    assert not await turns.take("b", 1)
    assert not await turns.take("c", 1)
    for _ in waiting:
        turns.give_back()
        await asyncio.wait([task for task in waiting if not task.done()], return_when=asyncio.FIRST_COMPLETED)
    assert [await task for task in waiting] == [True, True, True]
    turns.give_back()


@pytest.mark.usefixtures("collecting")
async def test_a_connection_keeps_the_order_of_its_messages() -> None:
    seen: list[str] = []
    client, server = linked_transports(MemoryTransport)
    serving = asyncio.create_task(serve(services_of([counting_app(seen)]), server))
    names = [f"{size} {number}" for number in range(5) for size in ("large", "small")]
    for id, name in enumerate(names):
        client.send(json.dumps(call(name, LARGE if name.startswith("large") else SMALL, id)).encode())
    received = [json.loads(await client.receive() or b"") for _ in names]
    assert seen == names
    assert {answer["id"]: answer["result"]["structuredContent"] for answer in received} == {
        id: {"result": LARGE if name.startswith("large") else SMALL} for id, name in enumerate(names)
    }
    await client.close()
    await serving


class EndingTransport(MemoryTransport):
    """An end that can close only its output."""

    def end_input(self) -> None:
        self._outgoing.put_nowait(None)


async def test_a_large_message_before_the_end_of_the_input_is_answered() -> None:
    client, server = linked_transports(EndingTransport)
    serving = asyncio.create_task(serve(services_of([counting_app([])]), server))
    client.send(json.dumps(call("last", LARGE, 7)).encode())
    client.end_input()
    assert json.loads(await client.receive() or b"")["id"] == 7
    await client.close()
    await serving


async def test_no_large_message_waits_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asgi = counting_app([]).asgi()
    await post(asgi, "first", SMALL, "1.1.1.1").whole()
    client, server = linked_transports(MemoryTransport)
    serving = asyncio.create_task(serve(services_of([counting_app([])]), server))
    delays: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(delay: float, result: Any = None) -> Any:
        delays.append(delay)
        return await real_sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    client.send(json.dumps(call("large", LARGE, 7)).encode())
    assert json.loads(await client.receive() or b"")["id"] == 7
    assert (await post(asgi, "large", LARGE, "1.1.1.1").whole()).status == 200
    assert set(delays) == {0}
    await client.close()
    await serving
    await asgi.close()


def tools(number: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}
    return [{"name": f"tool{index}", "description": "x" * 50, "inputSchema": schema} for index in range(number)]


async def answer_all(got: Got, write: Write) -> None:
    common = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
    server = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    answers: dict[str, dict[str, Any]] = {
        "server/discover": {**server, "serverInfo": {"name": "raw", "version": "1"}},
        "tools/list": {"tools": tools(1500)},
        "tools/call": {"content": [{"type": "text", "text": "done"}] * 2500},
    }
    await write(reply(result(got, {**common, **answers[got.rpc]})))


async def test_what_is_long_has_the_types_and_the_effects_of_what_is_short() -> None:
    raw = Raw(dict.fromkeys(("server/discover", "tools/list", "tools/call"), answer_all))
    async with serving(raw), v2026_07_28.Client.http(raw.url) as client:
        listed = (await client.list_tools()).tools
        assert [(type(tool), tool.name) for tool in listed] == [
            (v2026_07_28.types.Tool, f"tool{index}") for index in range(1500)
        ]
        content = (await client.call_tool(name="tool1400", arguments={"city": "Rome"})).content
        assert [type(block) for block in content] == [v2026_07_28.types.TextContent] * 2500
    assert raw.requests_of("tools/call")[-1].headers["mcp-param-city"] == "Rome"


@pytest.mark.parametrize("place", [0, 999, 1000, 2499])
async def test_the_error_of_a_long_list_names_the_place(place: int) -> None:
    listed: list[Any] = tools(2500)
    listed[place] = {"name": "x", "inputSchema": 1}

    async def answer(got: Got, write: Write) -> None:
        await write(reply(result(got, {"tools": listed})))

    raw = Raw({"tools/list": answer})
    async with serving(raw), v2025_11_25.Client.http(raw.url, strict=True) as client:
        with pytest.raises(InvalidResponseError, match=rf"invalid response: tools\.{place}\.inputSchema"):
            await client.list_tools()
