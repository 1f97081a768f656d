"""Requests that pass a bridge directly: as lines of any form, with no response lost, doubled or given to another."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.feature_cells.bridge.raw_clients import RawClient, a_bridge, running
from support.processes import kill

_PARAMS = '{"deep": [1.50, "\\u00e9"], "id": 9}'
LINES = {
    "compact": '{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":%s}',
    "spaces": '{"jsonrpc": "2.0", "id": "q1", "method": "acme/odd", "params": %s}',
    "method first": '{"method":"acme/odd","params":%s,"jsonrpc":"2.0","id":"q1"}',
    "method first, spaces": '{"method": "acme/odd", "params": %s, "jsonrpc": "2.0", "id": "q1"}',
    "another order": '{"id":"q1","params":%s,"method":"acme/odd","jsonrpc":"2.0"}',
    "more spaces": '  { "jsonrpc" : "2.0" ,  "id":"q1", "method":"acme/odd", "params" :  %s }  ',
    "an escape in the id": '{"jsonrpc":"2.0","id":"\\u0071\\u0031","method":"acme/odd","params":%s}',
    "an escape in the method": '{"jsonrpc":"2.0","id":"q1","method":"acme\\u002fodd","params":%s}',
    "an escape in a name": '{"jsonrpc":"2.0","id":"q1","\\u006dethod":"acme/odd","params":%s}',
    "another member": '{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":%s,"acme":{}}',
}
BROKEN = {
    "params that are not JSON": '{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":{"a":]}}',
    "a bracket too many": '{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":{}}}',
    "two objects": '{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":{}}{"x":{}}',
    "no end": '{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":{"a":1}',
    "NaN": '{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":{"a":NaN}}',
    "no end, method first": '{"method":"acme/odd","params":{"a":1,"jsonrpc":"2.0","id":"q1"}',
    "params of another type": '{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":[1]}',
    "another version": '{"jsonrpc":"1.0","id":"q1","method":"acme/odd","params":{}}',
}


async def opened(connect: Any) -> RawClient:
    """Return a client with an open session."""
    client: RawClient = await connect()
    await client.initialize("2025-11-25")
    return client


def check_empty(bridge: Any) -> None:
    """Check that nothing is left of calls that have ended."""
    for link in bridge.state.links:
        upstream = link.upstream.session
        assert not link.running and not upstream.direct and not upstream.connection.pending
        assert not link.downstream.session.direct and not link.downstream.session.connection.in_flight


@pytest.mark.parametrize("form", LINES)
async def test_requests_pass_however_they_are_written(form: str) -> None:
    bridge = a_bridge()
    async with running(bridge) as connect:
        client = await opened(connect)
        for _ in range(2):  # The id is free again after the response.
            client.transport.send((LINES[form] % _PARAMS).encode())
            result = json.loads(await client.response("q1"))["result"]
            assert result["received"] == {"deep": [1.5, "é"], "id": 9} and result["number"] == 150.0
        check_empty(bridge)


@pytest.mark.parametrize("form", BROKEN)
async def test_a_broken_line_is_refused_and_the_next_one_passes(form: str) -> None:
    bridge = a_bridge()
    async with running(bridge) as connect:
        client = await opened(connect)
        client.transport.send(BROKEN[form].encode())
        refused = json.loads(await client.transport.receive())
        assert refused["error"]["code"] in (-32700, -32600) and "result" not in refused
        assert (await client.call(value=1))["value"] == 1
        check_empty(bridge)


async def test_a_member_that_stands_twice_has_one_meaning_for_both_sides() -> None:
    async with running(a_bridge()) as connect:
        client = await opened(connect)
        client.transport.send(b'{"jsonrpc":"2.0","id":"q1","method":"acme/odd","params":{"a":1},"id":"q2"}')
        assert json.loads(await client.response("q2"))["result"]["received"] == {"a": 1}
        client.transport.send(b'{"jsonrpc":"2.0","id":"q3","method":"acme/none","params":{},"method":"acme/odd"}')
        assert "result" in json.loads(await client.response("q3"))


async def test_ids_that_look_alike_are_apart_and_one_in_use_is_refused() -> None:
    bridge = a_bridge()
    async with running(bridge) as connect:
        client = await opened(connect)
        line = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"t","arguments":{"value":%s}}}'
        for id in ("1", '"1"', '"01"', "12345678901234567890", '"a b"', "-1"):
            client.transport.send((line % (id, json.dumps(id))).encode())
        answers = [json.loads(await client.transport.receive()) for _ in range(6)]
        values = {json.dumps(item["id"]): json.loads(item["result"]["content"][0]["text"])["value"] for item in answers}
        assert values == {id: id for id in values} and len(values) == 6
        client.transport.send((line.replace('"value":%s', '"sleep":%s') % ("5", "0.2")).encode())
        client.transport.send((line % ("5", "1")).encode())
        answers = [json.loads(await client.transport.receive()) for _ in range(2)]
        assert ["in use" in str(item.get("error")) for item in answers] == [True, False]


async def test_errors_of_the_upstream_pass_with_their_code_and_data() -> None:
    bridge = a_bridge()
    async with running(bridge) as connect:
        client = await opened(connect)
        client.transport.send(b'{"jsonrpc":"2.0","id":"e","method":"acme/none","params":{}}')
        error = json.loads(await client.response("e"))["error"]
        assert error == {"code": -32601, "message": "no such method", "data": {"acme": 1}}
        check_empty(bridge)


async def test_calls_that_run_fail_at_once_when_the_upstream_is_killed() -> None:
    bridge = a_bridge()
    async with running(bridge) as connect:
        client = await opened(connect)
        pid = (await client.call())["pid"]
        for number in range(50):
            params = json.dumps({"name": "t", "arguments": {"sleep": 60}})
            client.transport.send(
                b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (number, params.encode())
            )
        await asyncio.sleep(0)  # The bridge has read them.
        kill(pid)
        answers = [json.loads(await asyncio.wait_for(client.transport.receive(), 20)) for _ in range(50)]
        assert {answer["id"] for answer in answers} == set(range(50))
        assert all("the upstream of the bridge failed" in answer["error"]["message"] for answer in answers)
        assert (await client.call(value=2))["value"] == 2
        check_empty(bridge)


async def test_a_cancelled_call_gets_no_response_and_its_late_result_goes_to_nobody() -> None:
    bridge = a_bridge()
    async with running(bridge) as connect:
        client = await opened(connect)
        params = b'{"name":"t","arguments":{"sleep":0.2}}'
        client.transport.send(b'{"jsonrpc":"2.0","id":"late","method":"tools/call","params":%b}' % params)
        client.notify("notifications/cancelled", {"requestId": "late"})
        assert (await client.call(value=3))["value"] == 3, "the response to the cancelled call came"
        check_empty(bridge)


async def test_the_end_of_a_session_cancels_its_calls() -> None:
    bridge = a_bridge()
    async with running(bridge) as connect:
        client = await opened(connect)
        client.transport.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"sleep":60}}}')
        await asyncio.sleep(0)
        (link,) = bridge.state.links
        await client.transport.close()
        async with asyncio.timeout(20):
            while bridge.state.links:
                await asyncio.sleep(0.01)
        assert not link.running and not link.upstream.session.direct


async def test_the_use_of_a_connection_is_noted_so_that_it_does_not_end_as_idle() -> None:
    bridge = a_bridge(idle=3600)
    async with running(bridge) as connect:
        client = await opened(connect)
        (link,) = bridge.state.links
        for method in ("acme/odd", "logging/setLevel"):
            link.last_used = 0.0
            await client.request(method, {"level": "info"})
            assert link.last_used > 0, f"{method} has used the connection"


async def test_a_result_with_spaces_passes_as_bytes() -> None:
    """Python's json writes a space after each separator."""
    bridge = a_bridge("2025-11-25", "--spaces")
    async with running(bridge) as connect:
        client = await opened(connect)
        client.transport.send(b'{"jsonrpc":"2.0","id":1,"method":"acme/odd","params":{}}')
        answer = await client.transport.receive()
        assert b'"number":1.50e2,  "b":[ ]' in answer, "it was parsed"
