"""The scorecard of a release, in the form of the suite's own `tier-check`, from the verdicts of a run.

What the suite reads from GitHub is taken from the checkout where it stands there: labels, the version, the files of
policies. How fast issues were looked at is known to GitHub alone: those checks are "skipped".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:  # run.py is a script, and has this module and `suite` by their bare names.
    from conformance.suite import Run, Verdict

ROOT: Final = Path(__file__).resolve().parent.parent.parent
REVISIONS: Final = ("2025-11-25", "2026-07-28")  # Those with a frozen set of requirements.
LABELS: Final = (
    *("bug", "enhancement", "question"),
    *("needs confirmation", "needs repro", "ready for work", "good first issue", "help wanted"),
    *("P0", "P1", "P2", "P3"),
)
FILES: Final = (
    *("CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"),
    *("DEPENDENCY_POLICY.md", "docs/dependency-policy.md", ".github/dependabot.yml", ".github/renovate.json"),
    *("renovate.json", "ROADMAP.md", "docs/roadmap.md", "VERSIONING.md", "docs/versioning.md", "BREAKING_CHANGES.md"),
)
_LEGS: Final = {"conformance": "server", "client_conformance": "client"}


def scorecard(verdicts: Mapping[Run, Verdict], requirements: Path) -> dict[str, Any]:
    """Return the scorecard; `requirements` is the folder of the frozen sets. A required scenario that did not run has
    failed."""
    sets = {revision: _requirements(requirements, revision) for revision in REVISIONS}
    checks = {check: _conformance(leg, sets, verdicts) for check, leg in _LEGS.items()}
    checks |= {
        "labels": _labels(),
        "triage": {"status": "skipped"},
        "p0_resolution": {"status": "skipped"},
        "stable_release": _release(),
        "policy_signals": _policies(),
        "spec_tracking": {"status": "skipped"},
    }
    blockers = list(_blockers(checks))
    return {
        "repo": "mcp-codegen",
        "branch": None,
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": checks["stable_release"]["version"],
        "requirements_revisions": list(REVISIONS),
        "checks": checks,
        "implied_tier": {
            "tier": 1 if not blockers else 2 if _is_tier_2(checks) else 3,
            "tier1_blockers": blockers,
            "tier2_met": _is_tier_2(checks),
            "note": "Times of issues are known to GitHub alone, and count as blockers until they are.",
        },
    }


def _requirements(folder: Path, revision: str) -> dict[str, Any]:
    rows: dict[str, Any] = yaml.safe_load((folder / f"{revision}.yaml").read_text(encoding="utf-8"))
    return rows


def _conformance(leg: str, sets: Mapping[str, Mapping[str, Any]], verdicts: Mapping[Run, Verdict]) -> dict[str, Any]:
    scored = [_detail(leg, revision, name, verdicts) for revision, rows in sets.items() for name in rows[leg]]
    others = [
        _detail(leg, revision, row["scenario"], verdicts) | {"notScoredReason": row["reason"]}
        for revision, rows in sets.items()
        for row in rows.get("not_scored") or ()
        if row["leg"] == leg
    ]
    passed = sum(detail["passed"] for detail in scored)
    rate = passed / len(scored) if scored else 0.0
    return {
        "status": "pass" if rate == 1 else "partial" if rate >= 0.8 else "fail",
        "pass_rate": rate,
        "passed": passed,
        "failed": len(scored) - passed,
        "total": len(scored),
        "not_scored": {"total": len(others), "failed": sum(not detail["passed"] for detail in others)},
        "details": [*scored, *others],
    }


def _detail(leg: str, revision: str, name: str, verdicts: Mapping[Run, Verdict]) -> dict[str, Any]:
    found = [
        verdict for run, verdict in verdicts.items() if (run.side, run.revision, run.name) == (leg, revision, name)
    ]
    statuses = [status for verdict in found for _, status in verdict.checks]
    return {
        "scenario": name,
        "passed": bool(found) and not any(verdict.problems for verdict in found),
        "checks_passed": statuses.count("SUCCESS"),
        "checks_failed": statuses.count("FAILURE"),
        "revision": revision,
    }


def _labels() -> dict[str, Any]:
    rows = yaml.safe_load((ROOT / ".github" / "labels.yml").read_text(encoding="utf-8"))
    found = [row["name"] for row in rows]
    missing = [name for name in LABELS if name not in found]
    return {
        "status": "fail" if missing else "pass",
        "present": len(LABELS) - len(missing),
        "required": len(LABELS),
        "missing": missing,
        "found": found,
        "uses_issue_types": False,
    }


def _release() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = str(project["version"])
    is_prerelease = re.search(r"(a|b|rc|dev)\d+$", version) is not None
    is_stable = not is_prerelease and int(version.partition(".")[0]) >= 1
    status = "pass" if is_stable else "fail"
    return {"status": status, "version": version, "is_stable": is_stable, "is_prerelease": is_prerelease}


def _policies() -> dict[str, Any]:
    files = {name: (ROOT / name).is_file() for name in FILES}
    return {"status": "pass" if all(files.values()) else "partial" if any(files.values()) else "fail", "files": files}


def _blockers(checks: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    for check, name in (("conformance", "server_conformance"), ("client_conformance", "client_conformance")):
        if checks[check]["pass_rate"] < 1:
            yield name
    yield from (f"{name} (skipped)" for name in ("triage", "p0_resolution", "spec_tracking"))
    if not checks["stable_release"]["is_stable"]:
        yield "stable_release"
    if checks["labels"]["missing"]:
        yield "labels"


def _is_tier_2(checks: Mapping[str, Mapping[str, Any]]) -> bool:
    rates = (checks[check]["pass_rate"] for check in _LEGS)
    return all(rate >= 0.8 for rate in rates) and bool(checks["stable_release"]["is_stable"])
