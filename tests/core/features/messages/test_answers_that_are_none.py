"""Answers that are not responses: the call that they belong to fails at once, and nothing is answered to an answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.endpoints import HANDSHAKE

from mcp_generated import InvalidResponseError
from mcp_runtime.protocol.connection import Connection, MessageRejected, ResponseReceived
from mcp_runtime.protocol.framing import LineDecoder, OversizedMessage, SizeLimit
from mcp_runtime.protocol.lifecycle import Phase

DEEP = "[" * 3000 + "]" * 3000
ANSWERS = {
    "neither a result nor an error": '{"jsonrpc":"2.0","id":ID}',
    "a result and an error": '{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"x"}}',
    "another version": '{"jsonrpc":"1.0","id":ID,"result":{}}',
    "an error that is none": '{"jsonrpc":"2.0","id":ID,"error":5}',
    "too deep": '{"jsonrpc":"2.0","id":ID,"result":' + DEEP + "}",
    "too deep, the id first": '{"id":ID,"result":' + DEEP + ',"jsonrpc":"2.0"}',
    "too deep, the id last": '{"jsonrpc":"2.0","result":' + DEEP + ',"id":ID}',
    "too deep, with spaces": '{ "jsonrpc" : "2.0" , "id" : ID , "result" : ' + DEEP + "}",
    "no UTF-8": '{"jsonrpc":"2.0","id":ID,"result":{"x":"\xff"}}',
    "cut off": '{"jsonrpc":"2.0","id":ID,"result":{"x":',
    "a number beyond all": '{"jsonrpc":"2.0","id":ID,"error":{"code":NaN,"message":"x"}}',
    "an infinite number": '{"jsonrpc":"2.0","id":ID,"result":{"x":[1e400]}}',
    "an infinite number in metadata": '{"jsonrpc":"2.0","result":{"_meta":{"a/b":{"x":-1E+0999}}},"id":ID}',
    "an infinite number of digits": '{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"x","data":'
    + "9" * 310
    + ".5}}",
    "an infinite number for a code": '{"jsonrpc":"2.0","id":ID,"error":{"code":1e400,"message":"x"}}',
    "many values": '{"jsonrpc":"2.0","id":ID,"result":{"x":[' + "1," * 1_000_000 + "1]}}",
}


def client_in_session(id: int | str) -> Connection:
    rev = HANDSHAKE[-1]
    connection = Connection(rev.revision, "client", local_capabilities={})
    connection.enter_phase(Phase.OPEN)
    connection.send_request(id, rev.revision.lifecycle.ping_request, None)  # type: ignore[union-attr]
    return connection


@pytest.mark.parametrize("id", [7, "a-7"])
@pytest.mark.parametrize("what", list(ANSWERS))
def test_the_call_fails_at_once(what: str, id: Any) -> None:
    connection = client_in_session(id)
    event = connection.receive(ANSWERS[what].replace("ID", json.dumps(id)).encode("latin-1"))
    assert isinstance(event, ResponseReceived) and event.id == id
    assert isinstance(event.outcome, InvalidResponseError)


@pytest.mark.parametrize("what", [what for what in ANSWERS if what != "neither a result nor an error"])
def test_an_answer_to_no_call_settles_none_and_is_not_answered(what: str) -> None:
    connection = client_in_session("ours")
    event = connection.receive(ANSWERS[what].replace("ID", "99").encode("latin-1"))
    assert isinstance(event, MessageRejected) and event.reply is None
    good = connection.receive(b'{"jsonrpc":"2.0","id":"ours","result":{}}')
    assert isinstance(good, ResponseReceived) and not isinstance(good.outcome, Exception)


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize(
    "request_", ['{"jsonrpc":"2.0","id":7,"method":"ping","params":{"result":' + DEEP + "}}", '{"id":7,"method":NaN}']
)
def test_a_request_that_cannot_be_read_settles_no_call(request_: str, side: Any) -> None:
    connection = client_in_session("7")
    connection.side = side
    event = connection.receive(request_.encode())
    is_read_as_request = "NaN" not in request_  # What is JSON has an id, by which the peer waits for the answer.
    assert isinstance(event, MessageRejected) and (event.reply is None) == (side == "client" and not is_read_as_request)


JUNK = [
    "not JSON",
    "[]",
    "5",
    '"text"',
    "{}",
    '{"id":7}',
    '{"jsonrpc":"2.0","id":7}',
    '{"jsonrpc":"2.0","id":null,"x":1}',
]


@pytest.mark.parametrize("junk", [*JUNK, "\xff", DEEP, '{"jsonrpc":"2.0","method":5}', '[{"x":1},5]'])
def test_a_client_responds_to_requests_alone(junk: str) -> None:
    connection = client_in_session("ours")
    event = connection.receive(junk.encode("latin-1"))
    for item in getattr(event, "events", [event]):
        assert isinstance(item, MessageRejected) and item.reply is None
    request = connection.receive(b'{"jsonrpc":"2.0","id":7,"method":"no/such"}')
    assert isinstance(request, MessageRejected) and request.reply is not None
    malformed = connection.receive(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":5}')
    assert isinstance(malformed, MessageRejected) and malformed.reply is not None


@pytest.mark.parametrize("id", [7, "a-7"])
@pytest.mark.parametrize("what", sorted({*ANSWERS, "an error"} - {"neither a result nor an error", "another version"}))
def test_the_call_fails_at_once_if_the_answer_is_longer_than_the_limit(what: str, id: Any) -> None:
    connection = client_in_session(id)
    padding = " " * 10_000
    answer = {**ANSWERS, "an error": '{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"x"}}'}[what]
    line = answer.replace("ID", json.dumps(id))
    decoder = LineDecoder(SizeLimit(1000))
    data = (re.sub('("(?:result|error)" ?:)', rf"\1{padding}", line, count=1) + "\n").encode("latin-1")
    parts = [data[at : at + 700] for at in range(0, len(data), 700)]
    [message] = [message for part in parts for message in decoder.feed(part)]
    assert isinstance(message, OversizedMessage) and len(message) < 5000
    event = connection.oversized(message)
    assert isinstance(event, ResponseReceived) and event.id == id
    assert isinstance(event.outcome, InvalidResponseError) and "limit" in str(event.outcome)
    assert decoder.feed(b"next\n") == [b"next"]
