"""A refusal has at most 500 characters; of a longer one, the beginning and the end remain."""

from __future__ import annotations

import pytest

from mcp_codegen.errors import clipped


@pytest.mark.parametrize("length", [0, 1, 499, 500])
def test_a_short_text_is_whole(length: int) -> None:
    assert clipped("x" * length) == "x" * length


@pytest.mark.parametrize("length", [501, 502, 10_000])
def test_the_middle_of_a_long_text_is_left_out(length: int) -> None:
    text = f"schema.ts:1: {'x' * (length - 33)}; write it once more."
    assert len(text) >= 501
    shown = clipped(text)
    assert len(shown) == 500 and shown.count(" … ") == 1
    assert shown.startswith("schema.ts:1: x") and shown.endswith("x; write it once more.")
