"""Messages of each revision, converted to each other one: what the official schema of the target accepts, or a refusal
that names its rule; what is missing is in the report, and the way back leaves what both revisions know.

The long run converts more than 20,000 messages; the short one a sample of them.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from support.conversions import Messages, pair
from support.project import needs_official

from mcp_generated import REVISIONS

PAIRS = list(permutations(REVISIONS, 2))
LONG = 34  # Messages of each method: more than 1,000 for each pair.

pytestmark = needs_official


def outcomes(source: str, target: str, count: int) -> Counter[str]:
    both = pair(source, target)
    messages = Messages(both.source, seed=37)
    return Counter(
        both.check(row, other, part, value) for row, other in both.rows() for part, value in messages.of(row, count)
    )


def test_there_are_twenty_pairs() -> None:
    assert len(PAIRS) == 20


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_a_sample_becomes_valid_or_is_refused_and_no_loss_is_silent(source: str, target: str) -> None:
    met = outcomes(source, target, 2)
    assert met["whole"] > met.total() / 4, met


@pytest.mark.exhaustive
def test_of_twenty_thousand_messages_none_becomes_invalid_and_no_loss_is_silent() -> None:
    met = {both: outcomes(*both, LONG) for both in PAIRS}
    total = sum(met.values(), Counter[str]())
    print(total)
    assert total.total() >= 20_000 and min(total.values()) > 1_000, met
