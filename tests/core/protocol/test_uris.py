"""Spellings of one URI are equal, and nothing else is (RFC 3986, section 6; RFC 3987, section 5.3)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_runtime.protocol.uris import find_uri, is_same_uri, spelled, tidy_uri, uri_key, uri_key_with_fragment

SAME = [
    ("NOTE://Host/x", "note://host/x"),
    ("note://été/x", "note://%C3%A9t%c3%a9/x"),
    ("note://h/%7euser/%61", "note://h/~user/a"),
    ("note://h/a b", "note://h/a%20b"),
    ('note://h/{x}/"', "note://h/%7Bx%7d/%22"),
    ("note://h/50%", "note://h/50%25"),
    ("note://h/a/./b/../c", "note://h/a/c"),
    ("note://h/a/%2E%2e/c", "note://h/c"),
    ("file:///../a/b/..", "file:///a/"),
    ("http://h:80/x", "http://h/x"),
    ("HTTPS://H:443", "https://h/"),
    ("https://été.example/", "https://xn--t-9fab.example/"),
    ("note://user@Host:99/x", "note://user@host:99/x"),
    ("note://h?q=%e9", "note://h/?q=%E9"),
    ("URN:isbn:%61", "urn:isbn:a"),
    ("note://h/x#part", "note://h/x"),
    ("note://h/x#p%61rt", "note://h/x#part"),
]
OTHER = [
    ("note://h/a%2Fb", "note://h/a/b"),
    ("note://h/A", "note://h/a"),
    ("note://h/x?", "note://h/x"),
    ("note://h/x?a+b", "note://h/x?a%20b"),
    ("note://h/x?a%26b", "note://h/x?a&b"),
    ("note://h/x#one", "note://h/x#two"),
    ("note://h:443/x", "note://h/x"),
    ("note:x/../y", "note:y"),
    ("note://h/x", "note://h/x/"),
    ("note:///x", "note://h/x"),
    ("note://User@h/", "note://user@h/"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_spellings_of_one_uri_are_equal(first: str, second: str) -> None:
    assert is_same_uri(first, second) and is_same_uri(second, first)
    assert uri_key(first) == uri_key(second)
    assert find_uri(first, ["note://other", second]) == second


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_other_uris_are_not(first: str, second: str) -> None:
    assert not is_same_uri(first, second)
    assert find_uri(first, [second]) is None


def test_an_equal_uri_is_found_before_another_spelling_and_that_before_one_without_a_fragment() -> None:
    uris = ["a://x/", "a://X/", "a://x/#p", "A://x/#P"]
    assert [find_uri(uri, uris) for uri in ("a://X/", "A://X/", "a://X/#p", "A://X/#P", "a://x/#q")] == [
        "a://X/", "a://x/", "a://x/#p", "A://x/#P", "a://x/"]  # fmt: skip


URIS = st.text(st.sampled_from('aZ9-/.:?#%éß {}@&;=+\\"2fF\udc80\n'), max_size=24)


@pytest.mark.long
@settings(max_examples=1500, deadline=None, derandomize=True, database=None)
@given(URIS)
def test_a_form_is_the_form_of_itself(text: str) -> None:
    for form in (spelled, uri_key, uri_key_with_fragment, tidy_uri, lambda uri: tidy_uri(uri, folds_host=True)):
        for uri in (text, f"A://{text}", f"https://H{text}", f"a:{text}"):
            assert form(form(uri)) == form(uri), (form, uri)
            assert form(uri).isascii()


@pytest.mark.long
def test_a_long_uri_takes_time_in_proportion_to_its_length() -> None:
    for part in ("/..", "/.", "%", "%41", "é", ":", "@", "#", "?", "/a"):
        for start in ("a://h/", "a://", "a:"):
            began = time.thread_time()
            uri_key(start + part * 100_000)
            assert time.thread_time() - began < 2, (start, part)
