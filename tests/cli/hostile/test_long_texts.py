"""Texts of servers may be long: what hides secrets in them takes time in proportion to their length."""

from __future__ import annotations

import time

import pytest

from mcp_codegen.output import has_secrets, without_secrets

PIECES = {"a word": "x", "schemes": "a://", "users": "a://b", "colons": "://", "queries": "a://b?"}


def cpu_seconds(text: str) -> float:
    start = time.process_time()
    without_secrets(text)
    has_secrets(text)
    return time.process_time() - start


@pytest.mark.parametrize("kind", PIECES)
def test_the_time_is_in_proportion_to_the_length(kind: str) -> None:
    texts = [PIECES[kind] * (length // len(PIECES[kind])) for length in (20_000, 200_000)]
    short, long = (min(cpu_seconds(text) for _ in range(3)) for text in texts)
    assert long < 40 * max(short, 0.001)  # Ten times the length; with its square it would be a hundred times.


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://u:p@a.example/x?key=1#y failed", "GET https://a.example/x failed"),
        ("1http://u@a.example", "1http://a.example"),
        ("a.example/redirect=https://b.example?token=1", "a.example/redirect=https://b.example"),
        ("http://a.example/http://u:p@b.example?x=1", "http://a.example/http://b.example"),
        ("http://a.example?to=http://b.example?token=1 'rest?'", "http://a.example 'rest?'"),
        ("who? me@b.example", "who? me@b.example"),
    ],
)
def test_what_may_be_secret_is_left_out(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
