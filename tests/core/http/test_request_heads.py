"""A head is read once and known again, whatever the length beside it, wherever that stands and however pairs are made;
and it has to say what the body says."""

from __future__ import annotations

import pytest
from support.endpoints import HANDSHAKE, STATELESS

from mcp_products.fast.heads import CachedRequestHeadParser
from mcp_runtime.http.headers import HTTPError
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.http.server_rules import (
    RequestHeadParser,
    RequestKind,
    ServedRevisions,
    check_stateless,
)
from mcp_runtime.protocol.jsonrpc import RequestMessage
from mcp_runtime.protocol.revision import META

REV = HANDSHAKE[-1]
NEWEST = STATELESS[-1]
MISMATCH = -32020
HOST = (b"host", b"localhost")
KIND = (b"content-type", b"application/json")
NAMED = [(b"mcp-session-id", b"abc"), (b"mcp-protocol-version", REV.id.encode())]


def heads() -> CachedRequestHeadParser:
    return CachedRequestHeadParser(OriginPolicy.create(None, None), ServedRevisions.create({REV.id: REV.revision}))


def length(number: bytes) -> tuple[bytes, bytes]:
    return (b"content-length", number)


def test_a_head_is_known_again_with_another_length() -> None:
    cache = heads()
    one, first = cache.read("POST", [HOST, KIND, length(b"10"), *NAMED])
    two, second = cache.read("POST", [HOST, KIND, length(b"2000"), *NAMED])
    assert one is two and (first, second) == (b"10", b"2000")
    assert "content-length" not in one.headers and one.kind is RequestKind.SESSION


def test_the_length_may_stand_anywhere_and_be_absent() -> None:
    cache = heads()
    for raw in ([length(b"1"), HOST, KIND], [HOST, length(b"1"), KIND], [HOST, KIND, length(b"1")]):
        head, content_length = cache.read("POST", raw)
        assert content_length == b"1" and head.headers == {"host": "localhost", "content-type": "application/json"}
    assert cache.read("POST", [HOST, KIND])[1] == b""
    assert cache.read("POST", [])[1] == b""


def test_a_value_is_not_taken_for_a_name() -> None:
    head, content_length = heads().read("POST", [HOST, KIND, (b"x-about", b"content-length"), length(b"7")])
    assert content_length == b"7" and head.headers["x-about"] == "content-length"


def test_two_lengths_are_refused_also_the_second_time() -> None:
    cache = heads()
    for _ in range(2):
        head, _ = cache.read("POST", [HOST, KIND, length(b"1"), length(b"2")])
        assert head.origin_error is not None and head.origin_error.status == 400


def test_the_method_belongs_to_what_is_known() -> None:
    cache = heads()
    get, _ = cache.read("GET", [HOST, (b"accept", b"application/json")])
    post, _ = cache.read("POST", [HOST, (b"accept", b"application/json")])
    assert get.error is not None and get.error.status == 406
    assert post.error is not None and post.error.status == 415


def test_pairs_may_be_lists() -> None:
    cache = heads()
    head, content_length = cache.read("POST", [list(field) for field in (HOST, KIND, length(b"5"))])  # type: ignore[misc]
    assert content_length == b"5" and head.headers["host"] == "localhost"
    assert cache.read("POST", [HOST, KIND, length(b"5")])[0] is head


def test_the_method_is_that_of_the_body_also_where_no_name_is_repeated() -> None:
    served = ServedRevisions.create({NEWEST.id: NEWEST.revision})
    named = [(b"mcp-protocol-version", NEWEST.id.encode()), (b"mcp-method", b"tools/list")]
    head, _ = CachedRequestHeadParser(OriginPolicy.create(None, None), served).read("POST", [HOST, KIND, *named])
    params = {"_meta": {f"{META}protocolVersion": NEWEST.id}}
    assert check_stateless(head, RequestMessage(1, "tools/list", params), served) is NEWEST.revision
    refused = check_stateless(head, RequestMessage(1, "prompts/list", params), served)
    assert isinstance(refused, HTTPError) and (refused.status, refused.code) == (400, MISMATCH)


@pytest.mark.parametrize("name", [b"authorization", b"cookie", b"dpop"])
def test_nothing_of_a_secret_is_kept(name: bytes) -> None:
    cache = heads()
    for _ in range(2):
        head, _ = cache.read("POST", [HOST, KIND, (name, b"a secret")])
        assert head.headers[name.decode()] == "a secret"
        assert "a secret" not in repr(vars(cache))


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


def test_the_last_1024_heads_are_known_and_the_older_ones_are_not() -> None:
    cache = heads()
    raws = [[HOST, KIND, (b"mcp-session-id", b"%d" % number)] for number in range(3000)]
    read = [cache.read("POST", raw)[0] for raw in raws]
    last = [cache.read("POST", raw)[0] is head for raw, head in zip(raws[-1024:], read[-1024:], strict=True)]
    assert all(last)
    assert cache.read("POST", raws[-1025])[0] is not read[-1025]
