"""A peer of another protocol that sends too much: a limit holds, the error names it, and the rest goes on."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from mcp_products.json_rpc import peer as peers
from mcp_products.json_rpc.rows import NotificationRow, RequestRow
from mcp_runtime.errors import ConnectionClosedError

QUERY = RequestRow("query", None, None)


class Attacked(peers.Peer):
    """A side whose handlers end when the test says so."""

    _receives = {"note": (NotificationRow("note", Any), "on_note"), "wait": (RequestRow("wait", Any, None), "on_wait")}

    def __init__(self) -> None:
        super().__init__()
        self.going_on = asyncio.Event()
        self.notes: list[Any] = []

    async def on_note(self, params: Any) -> None:
        await self.going_on.wait()
        self.notes.append(params)

    async def on_wait(self, params: Any) -> None:
        await self.going_on.wait()

    async def query(self) -> Any:
        return await self._send_request(QUERY, None, 20)


# It answers the first request when it has read as many lines as it is asked to.
PROGRAM = """
import json, sys
def write(message):
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\\n")
    sys.stdout.flush()
def note(params):
    write({"jsonrpc": "2.0", "method": "note", "params": params})
def wait(id, params=None):
    write({"jsonrpc": "2.0", "id": id, "method": "wait", "params": params or {}})
def read():
    return json.loads(sys.stdin.readline())
id = read()["id"]
"""
ANSWER = """
write({"jsonrpc": "2.0", "id": id, "result": None})
sys.stdin.read()
"""


def attacker(attack: str) -> tuple[str, ...]:
    return sys.executable, "-c", PROGRAM + attack + ANSWER


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        ("write(json.dumps({'jsonrpc': '2.0', 'id': 5, 'method': 'wait', 'params': {'a': 'x' * (9 << 20)}}))", -32600),
        (
            'write(\'{"jsonrpc": "2.0", "id": 5, "method": "wait", "params": \' + \'[\' * 5000 + \']\' * 5000 + \'}\')',
            -32600,
        ),
        ("write({'jsonrpc': '2.0', 'id': 5, 'method': 'wait', 'params': {'a': [0] * 800_000}})", -32600),
    ],
    ids=["long", "deep", "many values"],
)
async def test_a_request_beyond_a_limit_gets_an_error_and_the_next_message_is_read(attack: str, code: int) -> None:
    check = f"\nanswer = read()\nassert answer['error']['code'] in ({code}, -32700), answer\n"
    async with Attacked().start(*attacker(attack + check)) as side:
        assert await side.query() is None


async def test_a_flood_of_notifications_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_MAX_WAITING", 50)
    async with Attacked().start(*attacker("for number in range(60): note({'n': number})")) as side:
        with pytest.raises(ConnectionClosedError, match="more than 50 messages that wait for a handler"):
            await side.query()
        with pytest.raises(ConnectionClosedError, match="more than 50 messages"):
            await side.query()
    assert side.notes == []


@pytest.mark.parametrize("message", ["note", "wait"])
async def test_large_messages_that_wait_or_are_handled_end_the_connection(
    monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    monkeypatch.setattr(peers, "_MAX_BYTES", 10_000)
    send = "note({'a': 'x' * 900})" if message == "note" else "wait(number, {'a': 'x' * 900})"
    async with Attacked().start(*attacker(f"for number in range(20): {send}")) as side:
        with pytest.raises(ConnectionClosedError, match="more than 10000 bytes that wait for a handler"):
            await side.query()


async def test_messages_that_were_handled_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_MAX_BYTES", 5_000)
    attack = """
for number in range(40):
    wait(number, {'a': 'x' * 900})
    assert read()["result"] is None
    note({'a': 'x' * 900})
    wait('after ' + str(number))
    read()
"""
    async with Attacked().start(*attacker(attack)) as side:
        side.going_on.set()
        assert await side.query() is None
        assert len(side.notes) == 40


async def test_requests_beyond_those_that_are_handled_get_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_MAX_RUNNING", 20)
    attack = """
for number in range(30): wait(number)
errors = [read() for _ in range(10)]
assert [answer["error"]["code"] for answer in errors] == [-32603] * 10, errors
assert "more than 20 requests" in errors[0]["error"]["message"]
"""
    async with Attacked().start(*attacker(attack)) as side:
        assert await side.query() is None


async def test_responses_without_a_request_are_ignored() -> None:
    attack = """
for number in range(100, 200):
    write({"jsonrpc": "2.0", "id": number, "result": {}})
    write({"jsonrpc": "2.0", "id": str(number), "error": {"code": 1, "message": "x"}})
"""
    async with Attacked().start(*attacker(attack)) as side:
        assert await side.query() is None
        assert not side._pending
