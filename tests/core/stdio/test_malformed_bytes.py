"""Bytes that no client should send: each is refused by itself, and the conversation lives on."""

from __future__ import annotations

import json

import pytest
from support.raw_process import RawServer

LIMIT = 8 << 20
MIB = 1 << 20


def alive(server: RawServer, id: str = "alive") -> None:
    server.say({"jsonrpc": "2.0", "id": id, "method": "ping"})
    assert server.answer() == {"jsonrpc": "2.0", "id": id, "result": {}}


def test_an_invalid_utf_8_byte_is_refused_and_nothing_is_executed() -> None:
    with RawServer() as server:
        server.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pri\xffnt"}}\n')
        assert server.answer()["error"]["code"] == -32700
        alive(server)


def test_a_32_mib_line_is_refused_in_linear_time() -> None:
    with RawServer() as server:
        line = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + b"x" * (32 * MIB) + b'"}}\n'
        before = server.cpu_seconds
        server.write(line)
        assert server.answer()["error"]["code"] == -32600
        assert server.cpu_seconds - before < 1.0
        alive(server)


@pytest.mark.long
def test_a_1_gib_line_without_an_end_stays_within_the_memory_of_the_limit() -> None:
    with RawServer() as server:
        alive(server)
        before, part = server.peak_memory, b"x" * MIB
        for _ in range(1024):
            server.write(part)
        server.write(b"\n")
        assert server.answer()["error"]["code"] == -32600
        assert server.peak_memory - before < 3 * LIMIT
        alive(server)


def test_ids_that_look_alike_are_two_ids() -> None:
    with RawServer() as server:
        server.call(41, "hang")
        server.call("41", "large", size=2)
        assert server.answer()["id"] == "41"
        server.call(41, "large", size=2)
        refused = server.answer()
        assert (refused["id"], refused["error"]["code"]) == (41, -32600)
        alive(server)


@pytest.mark.long
def test_deep_json_is_refused() -> None:
    for depth in (1_000, 100_000):
        with RawServer() as server:
            server.write(b"[" * depth + b"\n")
            assert server.answer()["error"]["code"] == -32600
            alive(server)


@pytest.mark.long
def test_large_numbers_do_no_harm() -> None:
    with RawServer() as server:
        for digits in (5_000, 1_000_000):
            before = server.cpu_seconds
            server.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":' + b"9" * digits + b"}}}\n")
            answer = server.answer()
            assert (answer["id"], answer["error"]["code"]) == (1, -32600)  # Too large: the request waits for nothing.
            assert server.cpu_seconds - before < 2.0
        alive(server)


@pytest.mark.long
def test_a_message_in_pieces_and_messages_in_one_piece_are_read_alike() -> None:
    with RawServer() as server:
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        for byte in ping + b"\r\n":
            server.write(bytes([byte]))
        assert server.answer()["id"] == 1
        server.write(b"\n\r\n" + ping + b"\n" + ping + b"\n")
        assert [server.answer()["id"], server.answer()["id"]] == [1, 1]


@pytest.mark.long
def test_what_a_handler_and_its_children_print_is_not_protocol() -> None:
    with RawServer() as server:
        server.call(1, "print")
        assert server.answer()["result"]["content"][0]["text"] == "print"
        alive(server)
        assert server.process.stderr is not None
        server.close_input()
        server.ends_within(2.0)
        assert b"printed by a handler" in server.process.stderr.read()
