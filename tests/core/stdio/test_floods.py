"""Bytes that are meant to cost more than they are worth: the server's work and memory stay in proportion."""

from __future__ import annotations

import json
import time

import pytest
from support.project import package
from support.raw_process import RawServer

from mcp_runtime.protocol.connection import Connection, MessageRejected, RequestReceived, ResponseReceived

MIB = 1 << 20
WORD = (1 << 61) - 1  # Integers that differ by this have the same hash.


@pytest.mark.long
def test_a_hundred_thousand_keys_take_time_in_proportion() -> None:
    def cost(keys: dict[str, int]) -> float:
        before = server.cpu_seconds
        server.say({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": keys}})
        assert server.answer()["id"] == 1
        return server.cpu_seconds - before

    with RawServer() as server:
        assert cost({f"k{number}": number for number in range(100_000)}) < 4
        assert cost({str(WORD * number): number for number in range(100_000)}) < 4


@pytest.mark.long
def test_numbers_with_the_same_hash_take_time_in_proportion() -> None:
    with RawServer() as server:
        before = server.cpu_seconds
        server.say(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "ping",
                "params": {"_meta": {"x": [WORD * n for n in range(100_000)]}},
            }
        )
        assert server.answer()["id"] == 1
        assert server.cpu_seconds - before < 4


@pytest.mark.long
def test_two_hundred_thousand_notifications_leave_nothing_behind() -> None:
    notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "gone"}})
    chunk = (notification.encode() + b"\n") * 2000
    with RawServer() as server:
        for _ in range(10):
            server.write(chunk)
        server.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert server.answer()["id"] == 1
        before = server.peak_memory
        for _ in range(90):
            server.write(chunk)
        server.say({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert server.answer(60)["id"] == 2
        assert server.peak_memory - before < 16 * MIB


# ---- without a process, for each revision ---------------------------------------------------------------------------


def opened(revision: str, side: str) -> Connection:
    row = package(revision, "methods").REVISION
    peer = Connection(row, side, local_capabilities={})  # type: ignore[arg-type]
    peer.negotiated(row, {})
    return peer


def meta(revision: str) -> dict[str, object]:
    key = "io.modelcontextprotocol/"
    who = {"name": "raw", "version": "1"}
    return {f"{key}protocolVersion": revision, f"{key}clientInfo": who, f"{key}clientCapabilities": {}}


def test_keys_that_only_look_right_are_not_those_of_the_envelope(revision: str) -> None:
    peer = opened(revision, "server")
    method = "server/discover" if revision == "2026-07-28" else "ping"
    params = {"_meta": meta(revision)}
    for wrong in ("Method", "METHOD", "metho\u0501", "method\u0000"):
        event = peer.receive(json.dumps({"jsonrpc": "2.0", "id": 1, wrong: method, "params": params}).encode())
        assert isinstance(event, MessageRejected), wrong
    for wrong in ("Id", "ID"):
        envelope = {"jsonrpc": "2.0", wrong: 1, "method": method, "params": params}
        assert not isinstance(peer.receive(json.dumps(envelope).encode()), RequestReceived), wrong
    folded = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "param\u017f": {"name": "x", **params}}
    assert isinstance(peer.receive(json.dumps(folded).encode()), MessageRejected)


def test_a_key_that_stands_twice_has_one_reading(revision: str) -> None:
    peer = opened(revision, "server")
    method = "server/discover" if revision == "2026-07-28" else "ping"
    tail = json.dumps({"_meta": meta(revision)})
    line = f'{{"jsonrpc":"2.0","id":1,"id":2,"method":"nonsense","method":"{method}","params":{tail}}}'
    event = peer.receive(line.encode())
    assert isinstance(event, MessageRejected) or (
        isinstance(event, RequestReceived) and (event.id, event.row.method) == (2, method)
    )


@pytest.mark.parametrize("digits", [5_000, 1_000_000])
def test_integers_of_any_length_raise_nothing_and_cost_little(revision: str, digits: int) -> None:
    peer = opened(revision, "server")
    method = "server/discover" if revision == "2026-07-28" else "ping"
    head = json.dumps({"_meta": meta(revision)})[:-1]
    number = "9" * digits
    start = time.process_time()
    for line in (
        f'{{"jsonrpc":"2.0","id":{number},"method":"{method}"}}',
        f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{head},"x":{number}}}}}',
    ):
        assert isinstance(peer.receive(line.encode()), (RequestReceived, MessageRejected))
    assert time.process_time() - start < 2


def test_answers_to_nothing_leave_nothing_behind(revision: str) -> None:
    peer = opened(revision, "client")
    for number in range(20_000):
        event = peer.receive(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number)
        assert not isinstance(event, ResponseReceived)
    assert not peer.in_flight
