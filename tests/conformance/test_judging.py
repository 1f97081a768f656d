"""What passes in a run of the conformance suite, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.suite import EXPECTED, Run, batches, judged, judged_together, settled

RUN = Run("server", "2025-11-25", "ping")
EMPTY: dict[str, dict[str, Any]] = {"failures": {}, "skips": {}}


def checks(*statuses: str) -> list[dict[str, Any]]:
    return [{"id": f"check-{number}", "status": status} for number, status in enumerate(statuses)]


@pytest.mark.parametrize(
    ("statuses", "code", "passes"),
    [
        (["SUCCESS", "INFO"], 0, True),
        (["SUCCESS", "FAILURE"], 1, False),
        (["SUCCESS", "WARNING"], 0, False),
        (["SUCCESS"], 1, False),
        (["SUCCESS", "SKIPPED"], 0, False),
        (["SKIPPED"], 0, False),
        (["INFO"], 0, False),
        ([], 0, False),
    ],
)
def test_a_run_passes_only_with_a_success_and_nothing_else_to_say(statuses: list[str], code: int, passes: bool) -> None:
    assert (not settled(RUN, judged(checks(*statuses), code, ""), EMPTY).problems) is passes


def test_what_may_be_skipped_is_so_only_that_often() -> None:
    expected = {**EMPTY, "skips": {"ping": {"check-0": {"most": 1, "reason": "it is written so"}}}}
    assert not settled(RUN, judged(checks("SKIPPED"), 0, ""), expected).problems
    twice = checks("SKIPPED") * 2
    assert "SKIPPED: check-0" in settled(RUN, judged(twice, 0, ""), expected).problems


def test_what_is_known_to_fail_has_to_fail() -> None:
    expected = {**EMPTY, "failures": {"server * pi*": "not yet"}}
    assert not settled(RUN, judged(checks("FAILURE"), 1, ""), expected).problems
    assert settled(RUN, judged(checks("SUCCESS"), 0, ""), expected).problems


def test_nothing_is_known_without_a_reason() -> None:
    assert all(reason for reason in EXPECTED["failures"].values())
    assert all(skip["reason"] and skip["most"] > 0 for skips in EXPECTED["skips"].values() for skip in skips.values())


def test_scenarios_of_servers_at_one_revision_share_a_process_and_all_others_have_their_own() -> None:
    other = Run("server", "2025-11-25", "tools-list")
    alone = [
        Run("server", "2025-11-25", "tasks", forced=True),
        Run("client", "2025-11-25", "ping"),
        Run("client", "2025-11-25", "x"),
    ]
    assert list(batches([RUN, alone[0], other, *alone[1:]])) == [[RUN, other], *([run] for run in alone)]


def test_an_exit_code_that_no_run_explains_is_a_fault_of_all_of_a_process() -> None:
    other = Run("server", "2025-11-25", "tools-list")
    unexplained = judged_together({RUN: checks("SUCCESS"), other: checks("SUCCESS")}, 1, "")
    assert all(verdict.problems for verdict in unexplained.values())
    explained = judged_together({RUN: checks("SUCCESS"), other: checks("FAILURE")}, 1, "")
    assert [bool(verdict.problems) for verdict in explained.values()] == [False, True]
    assert judged_together({RUN: [], other: checks("SUCCESS")}, 0, "")[RUN].problems == ("nothing succeeded",)
