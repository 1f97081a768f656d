"""The peer without I/O: whatever bytes come, it gives one of its events, and what it writes it can read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.project import package

from mcp_generated import REVISIONS
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.connection import (
    Batch,
    Connection,
    MessageRejected,
    NotificationReceived,
    RequestReceived,
    ResponseReceived,
)
from mcp_runtime.protocol.framing import LineDecoder, OversizedMessage, SizeLimit
from mcp_runtime.protocol.jsonrpc import ErrorMessage, NotificationMessage, RequestMessage, ResultMessage
from mcp_runtime.protocol.lifecycle import Phase

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ids = st.integers(-(2**63), 2**63) | st.text(max_size=20)
methods = st.sampled_from(
    sorted(
        {row.method for revision in REVISIONS for row in package(revision, "methods").REVISION.rows} | {"", "no/such"}
    )
)
keys = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "Method", "extra"])
messages = st.dictionaries(keys, json_values | methods | st.just("2.0") | ids, max_size=6)
EVENTS = (ResponseReceived, RequestReceived, Batch, MessageRejected, NotificationReceived)


def peer(revision: str, phase: Phase) -> Connection:
    capabilities = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}, "completions": {}}
    connection = Connection(package(revision, "methods").REVISION, "server", local_capabilities=capabilities)
    connection.enter_phase(phase)
    return connection


@pytest.mark.long
@pytest.mark.parametrize("phase", Phase)
@settings(deadline=None)
@given(data=st.binary(max_size=60) | messages.map(lambda message: json.dumps(message).encode()))
def test_any_bytes_give_an_event_and_never_raise(revision: str, phase: Phase, data: bytes) -> None:
    assert isinstance(peer(revision, phase).receive(data), EVENTS)


@pytest.mark.long
@settings(deadline=None)
@given(batch=st.lists(messages, max_size=4), method=methods, params=json_values)
def test_any_batch_and_any_params_give_an_event(revision: str, batch: Any, method: str, params: Any) -> None:
    one = peer(revision, Phase.OPEN)
    assert isinstance(one.receive(json.dumps(batch).encode()), EVENTS)
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    assert isinstance(one.receive(json.dumps(request).encode()), EVENTS)


@given(
    id=ids,
    method=st.text(max_size=10),
    params=st.none() | st.dictionaries(st.text(max_size=5), json_values, max_size=3),
)
def test_what_is_written_is_read_back(id: int | str, method: str, params: Any) -> None:
    assert jsonrpc.decode(jsonrpc.request(id, method, params)) == RequestMessage(id, method, params)
    assert jsonrpc.decode(jsonrpc.notification(method, params)) == NotificationMessage(method, params)
    assert jsonrpc.decode(jsonrpc.result(id, {"x": params})) == ResultMessage(id, {"x": params})
    assert jsonrpc.decode(jsonrpc.error(id, -7, method, params)) == ErrorMessage(id, -7, method, params)
    for written in (jsonrpc.request(id, method, params), jsonrpc.error(None, 0, method)):
        assert b"\n" not in written


@given(
    st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line and not line.endswith(b"\r"))),
    st.integers(1, 7),
)
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    whole, pieces = LineDecoder(), LineDecoder()
    cut = [line for start in range(0, len(data), size) for line in pieces.feed(data[start : start + size])]
    assert whole.feed(data) == cut == lines


@given(st.lists(st.sampled_from([1, 19, 20, 21, 40]), min_size=2, max_size=5), st.integers(1, 30))
def test_the_limit_is_the_same_for_all_lines(lengths: list[int], size: int) -> None:
    lines = LineDecoder(SizeLimit(20))
    data = b"".join(b"x" * length + b"\n" for length in lengths)
    lines_read = [line for start in range(0, len(data), size) for line in lines.feed(data[start : start + size])]
    assert [isinstance(line, OversizedMessage) for line in lines_read] == [length > 20 for length in lengths]


@given(st.integers(1, 50), st.integers(1, 9))
def test_a_line_over_the_limit_is_one_mark_and_the_next_is_itself(length: int, size: int) -> None:
    lines = LineDecoder(SizeLimit(20))
    data = b"x" * length + b"\nnext\n"
    lines_read = [line for start in range(0, len(data), size) for line in lines.feed(data[start : start + size])]
    assert [isinstance(line, OversizedMessage) for line in lines_read] == [length > 20, False]
    assert lines_read[1] == b"next" and (length > 20 or lines_read[0] == b"x" * length)
