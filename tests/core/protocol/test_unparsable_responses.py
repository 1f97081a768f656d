"""The id of a response that cannot be parsed: it is read from the text where it is JSON, and nothing raises where it is
none."""

from __future__ import annotations

import pytest

from mcp_runtime.protocol.framing import OversizedMessage
from mcp_runtime.protocol.jsonrpc import MalformedMessage, decode, id_of_response

IDS = {b"0": 0, b"7": 7, b"123456789012345": 123456789012345, b'""': "", b'"a-1"': "a-1", b'"0x"': "0x"}
NOT_READ = (b"00", b"01", b"007", b"+1", b"-", b"1.", b".5", b"1e5", b"0x1", b"'a'", b'"\\ud800"', b'"\\x"', b'"\x01"')
FORMS = {
    "id first": b'{"jsonrpc":"2.0","id":%b,"result":{"a":%b}}',
    "no version": b'{ "id" : %b , "error" : %b }',
    "id last": b'{"jsonrpc":"2.0","result":{"a":%b},"id":%b}',
}
NO_JSON = {"two values": b"1}2", "a bad escape": b'"\\ud800"', "no number": b"01", "too deep": b"[" * 3000}


def response(form: str, id: bytes, value: bytes) -> bytes:
    return FORMS[form] % ((value, id) if form == "id last" else (id, value))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", NO_JSON)
def test_the_id_is_read(form: str, value: str) -> None:
    for id, read in IDS.items():
        message = decode(response(form, id, NO_JSON[value]))
        assert isinstance(message, MalformedMessage) and message.is_response and message.id == read


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", NO_JSON)
def test_what_is_no_id_is_not_read(form: str, value: str) -> None:
    for id in NOT_READ:
        message = decode(response(form, id, NO_JSON[value]))
        assert isinstance(message, MalformedMessage) and message.id is None and not message.is_response, id


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_id_is_not_read_of_messages_above_the_limits(form: str) -> None:
    for id in NOT_READ:
        text = response(form, id, b"[" + b"1," * 50 + b"1]")
        message = decode(text, max_parts=20)
        assert isinstance(message, MalformedMessage) and message.is_too_large and message.id is None, id
        assert id_of_response(OversizedMessage(text[:60] + b"\0" + text[-60:])) is None, id
