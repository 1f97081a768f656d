"""Server-Sent Events: what is encoded is decoded, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_runtime.http.sse import KEEP_ALIVE_COMMENT, OversizedEventError, ServerSentEvent, SSEDecoder, encode

LINES = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=20)
EVENTS = st.lists(st.tuples(LINES.map(str.encode), LINES), max_size=5)


def decode(*chunks: bytes) -> list[ServerSentEvent]:
    events = SSEDecoder()
    return [event for chunk in chunks for event in events.feed(chunk)]


@pytest.mark.long
@given(EVENTS, st.lists(st.integers(0, 200)))
def test_events_come_out_as_they_went_in_however_they_are_cut(sent: list[tuple[bytes, str]], cuts: list[int]) -> None:
    stream = b"".join(encode(data, id=id) for data, id in sent)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    received = decode(*(stream[start:end] for start, end in pairwise(places)))
    assert [event.data for event in received] == [data for data, _ in sent]
    last = ""
    for event, (_, id) in zip(received, sent, strict=True):
        last = id or last
        assert event.id == last


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_each_of_the_three_line_ends_ends_a_line(end: bytes) -> None:
    stream = b"\xef\xbb\xbfdata: one" + end + b"data:two" + end + end + b"event: x" + end + b"data" + end + end
    bytewise = [stream[at : at + 1] for at in range(len(stream))]
    assert decode(stream) == decode(*bytewise) == [ServerSentEvent(b"one\ntwo"), ServerSentEvent(b"", kind="x")]


def test_other_separators_of_unicode_end_no_line() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be".encode()
    assert decode(encode(text)) == [ServerSentEvent(text)]


def test_text_cannot_break_out_of_its_event() -> None:
    (event,) = decode(encode(b"x\n\nevent: evil\r\rdata: more\r\n"))
    assert event.kind == "message" and event.data == b"x\n\nevent: evil\n\ndata: more\n"


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert decode(KEEP_ALIVE_COMMENT, b": hello\nfoo: bar\n\n") == []


def test_an_event_without_data_tells_where_to_resume_and_when() -> None:
    events = SSEDecoder()
    assert list(events.feed(b"id: 7\nretry: 250\ndata:\n\n")) == [ServerSentEvent(b"", "7", retry=250)]
    assert (events.last_id, events.retry) == ("7", 250)


@pytest.mark.parametrize("line", [b"retry: -5", b"retry: 1e3", b"retry:", b"retry: 99999999999", b"id: a\0b"])
def test_a_retry_that_is_no_number_and_an_id_with_a_nul_are_left_out(line: bytes) -> None:
    assert decode(line + b"\ndata: x\n\n") == [ServerSentEvent(b"x")]


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 64, b"data: xxxxxxxx\n" * 8, b": " + b"x" * 64])
def test_what_is_longer_than_the_limit_is_refused(stream: bytes) -> None:
    with pytest.raises(OversizedEventError, match="longer than 32 bytes"):
        list(SSEDecoder(limit=32).feed(stream))
