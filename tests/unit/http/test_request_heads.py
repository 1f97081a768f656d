"""A head is read once and known again, whatever the length beside it, wherever that stands and however pairs are made;
and it has to say what the body says."""

from __future__ import annotations

import pytest
from support.endpoints import HANDSHAKE, STATELESS

from mcp_runtime.http.headers import HTTPError
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.http.request_head import CachedRequestHeadParser, RequestHeadParser
from mcp_runtime.http.server_rules import RequestKind, ServedRevisions, check_stateless
from mcp_runtime.protocol.jsonrpc import RequestMessage
from mcp_runtime.protocol.revision import META

REV = HANDSHAKE[-1]
ALONE = STATELESS[-1]
MISMATCH = -32020
HOST = (b"host", b"localhost")
KIND = (b"content-type", b"application/json")
NAMED = [(b"mcp-session-id", b"abc"), (b"mcp-protocol-version", REV.id.encode())]


def heads() -> CachedRequestHeadParser:
    return CachedRequestHeadParser(OriginPolicy.create(None, None), ServedRevisions.create({REV.id: REV.revision}))


def length(number: bytes) -> tuple[bytes, bytes]:
    return (b"content-length", number)


def test_a_head_is_known_again_with_another_length() -> None:
    known = heads()
    one, first = known.read("POST", [HOST, KIND, length(b"10"), *NAMED])
    two, second = known.read("POST", [HOST, KIND, length(b"2000"), *NAMED])
    assert one is two and (first, second) == (b"10", b"2000")
    assert "content-length" not in one.headers and one.kind is RequestKind.SESSION


def test_the_length_may_stand_anywhere_and_be_absent() -> None:
    known = heads()
    for raw in ([length(b"1"), HOST, KIND], [HOST, length(b"1"), KIND], [HOST, KIND, length(b"1")]):
        head, said = known.read("POST", raw)
        assert said == b"1" and head.headers == {"host": "localhost", "content-type": "application/json"}
    assert known.read("POST", [HOST, KIND])[1] == b""
    assert known.read("POST", [])[1] == b""


def test_a_value_is_not_taken_for_a_name() -> None:
    head, said = heads().read("POST", [HOST, KIND, (b"x-about", b"content-length"), length(b"7")])
    assert said == b"7" and head.headers["x-about"] == "content-length"


def test_two_lengths_are_refused_also_the_second_time() -> None:
    known = heads()
    for _ in range(2):
        head, _ = known.read("POST", [HOST, KIND, length(b"1"), length(b"2")])
        assert head.origin_error is not None and head.origin_error.status == 400


def test_the_method_belongs_to_what_is_known() -> None:
    known = heads()
    get, _ = known.read("GET", [HOST, (b"accept", b"application/json")])
    post, _ = known.read("POST", [HOST, (b"accept", b"application/json")])
    assert get.error is not None and get.error.status == 406
    assert post.error is not None and post.error.status == 415


def test_pairs_may_be_lists() -> None:
    known = heads()
    head, said = known.read("POST", [list(pair) for pair in (HOST, KIND, length(b"5"))])  # type: ignore[misc]
    assert said == b"5" and head.headers["host"] == "localhost"
    assert known.read("POST", [HOST, KIND, length(b"5")])[0] is head


def test_the_method_is_that_of_the_body_also_where_no_name_is_repeated() -> None:
    spoken = ServedRevisions.create({ALONE.id: ALONE.revision})
    named = [(b"mcp-protocol-version", ALONE.id.encode()), (b"mcp-method", b"tools/list")]
    head, _ = CachedRequestHeadParser(OriginPolicy.create(None, None), spoken).read("POST", [HOST, KIND, *named])
    params = {"_meta": {f"{META}protocolVersion": ALONE.id}}
    assert check_stateless(head, RequestMessage(1, "tools/list", params), spoken) is ALONE.revision
    refused = check_stateless(head, RequestMessage(1, "prompts/list", params), spoken)
    assert isinstance(refused, HTTPError) and (refused.status, refused.code) == (400, MISMATCH)


@pytest.mark.parametrize("name", [b"authorization", b"cookie", b"dpop"])
def test_nothing_of_a_secret_is_kept(name: bytes) -> None:
    known = heads()
    for _ in range(2):
        head, _ = known.read("POST", [HOST, KIND, (name, b"a secret")])
        assert head.headers[name.decode()] == "a secret"
        assert "a secret" not in repr(vars(known))


@pytest.mark.parametrize(
    "raw",
    [
        [],
        [HOST, KIND, *NAMED],
        [length(b"3"), HOST, KIND],
        [HOST, KIND, length(b"3"), *NAMED],
        [HOST, length(b"1"), length(b"2")],
        [(b"host", b"elsewhere.example"), KIND, length(b"3")],
        [HOST, (b"authorization", b"Bearer x"), length(b"3")],
    ],
)
def test_the_cache_changes_nothing_about_what_is_read(raw: list[tuple[bytes, bytes]]) -> None:
    policy, revisions = OriginPolicy.create(None, None), ServedRevisions.create({REV.id: REV.revision})
    plain, cached = RequestHeadParser(policy, revisions), CachedRequestHeadParser(policy, revisions)
    expected = plain.read("POST", raw)
    assert cached.read("POST", raw) == expected
    assert cached.read("POST", raw) == expected
