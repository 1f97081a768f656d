"""The scorecard of a release: required scenarios count, others are listed, and what did not run has failed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from conformance.scorecard import LABELS, REVISIONS, scorecard
from conformance.suite import Run, Verdict

PASSED = Verdict((("a", "SUCCESS"), ("b", "INFO")))
FAILED = Verdict((("a", "FAILURE"),), ("FAILURE: a: wrong",))


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """One required scenario a side, and one that is not scored."""
    rows = {
        "server": ["tools-list"],
        "client": ["initialize"],
        "not_scored": [{"scenario": "tasks", "leg": "server", "reason": "extension"}],
    }
    for revision in REVISIONS:
        (tmp_path / f"{revision}.yaml").write_text(yaml.safe_dump(rows), encoding="utf-8")
    return tmp_path


def _all_passed() -> dict[Run, Verdict]:
    names = {"server": "tools-list", "client": "initialize"}
    return {Run(side, revision, name): PASSED for revision in REVISIONS for side, name in names.items()}


def test_what_is_required_counts_and_what_is_not_scored_is_listed_beside_it(requirements: Path) -> None:
    verdicts = _all_passed() | {Run("server", REVISIONS[0], "tasks", forced=True): FAILED}
    server = scorecard(verdicts, requirements)["checks"]["conformance"]
    assert (server["status"], server["passed"], server["total"]) == ("pass", 2, 2)
    assert server["not_scored"] == {"total": 2, "failed": 2}
    assert {detail.get("notScoredReason") for detail in server["details"]} == {None, "extension"}


@pytest.mark.parametrize("verdict", [FAILED, None])
def test_a_required_scenario_that_fails_or_did_not_run_blocks_the_first_tier(
    requirements: Path, verdict: Verdict | None
) -> None:
    verdicts = _all_passed()
    del verdicts[Run("client", REVISIONS[1], "initialize")]
    if verdict is not None:
        verdicts[Run("client", REVISIONS[1], "initialize")] = verdict
    card = scorecard(verdicts, requirements)
    assert card["checks"]["client_conformance"]["pass_rate"] == 0.5
    assert "client_conformance" in card["implied_tier"]["tier1_blockers"]
    assert "server_conformance" not in card["implied_tier"]["tier1_blockers"]


def test_the_checkout_has_the_labels_and_a_file_of_each_policy(requirements: Path) -> None:
    checks = scorecard(_all_passed(), requirements)["checks"]
    assert checks["labels"]["missing"] == [] and checks["labels"]["required"] == len(LABELS) == 12
    there = {name for name, is_there in checks["policy_signals"]["files"].items() if is_there}
    assert {"DEPENDENCY_POLICY.md", ".github/dependabot.yml", "ROADMAP.md", "VERSIONING.md"} <= there
