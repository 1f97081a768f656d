"""Schemas from the future: changed revisions and open proposals go the whole way, or stop with a report that is right.

MCP_MUTATIONS=all takes every change the whole way (minutes), not only a sample. MCP_PROPOSALS names a folder with
a folder for each proposal, in which its schema.ts and schema.json stand.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.checkers import mypy
from support.project import ROOT, TESTS
from support.schemas.mutations import KINDS, Verdict, mutate
from support.schemas.samples import sample

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.model.ir import Ref, Revision
from mcp_codegen.paths import data_path
from mcp_codegen.render.package import RevisionPackage

SEEDS = range(3)
WHOLE = os.environ.get("MCP_MUTATIONS") == "all"
PROPOSALS = Path(os.environ.get("MCP_PROPOSALS", "absent"))
SPECIFICATION = Path(os.environ.get("MCP_SPECIFICATION", "absent"))

# The proposals, by the number of their pull request, with what their schemas leave unclear: nothing, for those that go.
_NO_PLACE = [
    ("contradictory", "message", request)
    for request in ("GetTaskRequest", "GetTaskPayloadRequest", "CancelTaskRequest")
]
STOPS: dict[str, list[tuple[str, str, str]]] = {
    "3000": [("missing", "capability", "notifications/tool/progress")],
    "2778": [],
    "2631": [
        ("missing", "direction", "AuthorizeUploadRequest"),
        ("missing", "direction", "AuthorizeDownloadRequest"),
    ],
    "2356": _NO_PLACE,
    "2145": _NO_PLACE,
    "2678": [],
    "2200": [],
}


@dataclass(frozen=True)
class Mutant:
    """One changed revision: its id, the bindings that follow or what the generator reported, and what had to follow."""

    id: str
    verdict: Verdict
    revision: Revision | None
    findings: tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> list[Mutant]:
    root = tmp_path_factory.mktemp("mutants") / "schema"
    root.mkdir()
    for name in ("overlay.toml", "docs.toml"):
        (root / name).write_bytes((ROOT / "schema" / name).read_bytes())
    overlay = tomllib.loads((root / "overlay.toml").read_text())
    verdicts: dict[str, Verdict] = {}
    for base in SchemaCatalog(ROOT / "schema").pins:
        edition, _ = SchemaCatalog(ROOT / "schema").normalized(base)
        for kind in KINDS:
            for seed in SEEDS:
                id = f"{kind}.{base}.{seed}"
                changed, verdicts[id] = mutate(edition, kind, seed, overlay)
                folder = root / id
                folder.mkdir()
                (folder / "schema.json").write_text(json.dumps(changed))
                pins = f'revision = "{id}"\nfollows = ""\nsource = "test"\ncommit = "0"\nlike = "{base}"\n[sha256]\n'
                (folder / "pins.toml").write_text(pins)
    schemas = SchemaCatalog(root)
    return [_read(schemas, id, verdict) for id, verdict in verdicts.items()]


def _read(schemas: SchemaCatalog, id: str, verdict: Verdict) -> Mutant:
    try:
        return Mutant(id, verdict, schemas.revision(id), ())
    except CodegenError as error:
        return Mutant(
            id,
            verdict,
            None,
            tuple((finding.rule, f"{finding.at} {finding.text} {finding.tried}") for finding in error.findings),
        )


@pytest.mark.long
def test_each_of_more_than_200_changes_goes_or_is_reported_for_what_it_is(mutants: list[Mutant]) -> None:
    assert len(mutants) >= 200
    wrong: list[str] = []
    for mutant in mutants:
        right = [rule for rule, text in mutant.findings if rule == mutant.verdict.rule and mutant.verdict.at in text]
        if (mutant.revision is not None) != mutant.verdict.goes or (not mutant.verdict.goes and not right):
            wrong.append(f"{mutant.id}: {mutant.verdict} but {mutant.findings or 'it goes'}")
    assert wrong == []


@pytest.mark.exhaustive
def test_what_goes_passes_mypy_and_holds_a_conversation(mutants: list[Mutant], tmp_path: Path) -> None:
    going = [mutant.revision for mutant in mutants if mutant.revision is not None]
    chosen = going if WHOLE else going[:: len(going) // 8]
    assert _answering_packages(chosen, tmp_path) == len(chosen)


def _answering_packages(revisions: list[Revision], folder: Path) -> int:
    """Write the packages, check them with mypy, and have each talk; how many did."""
    samples: dict[str, Any] = {}
    for revision in revisions:
        name = revision.module.replace(".", "_")
        (folder / name).mkdir()
        package = RevisionPackage(revision, (data_path("templates"),))
        for file, text in (package.modules() | {"types.py": package.types()}).items():
            (folder / name / file).write_text(text)
        samples[name] = _samples(revision)
    (folder / "samples.json").write_text(json.dumps(samples))
    assert mypy(folder, *samples) == []
    path = os.pathsep.join([str(folder), str(ROOT / "runtime"), str(ROOT / "products")])
    command = [sys.executable, str(TESTS / "support" / "schemas" / "call_everything.py"), "samples.json"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    answered = dict(line.split() for line in done.stdout.splitlines())
    assert all(int(answered[name]) == len(samples[name]) > 0 for name in samples), done.stdout
    return len(answered)


def _samples(revision: Revision) -> dict[str, list[Any]]:
    """Params and result for each request of a client that the runtime does not answer itself."""
    reserved = set(revision.lifecycle.roles.values())
    rows = [row for row in revision.methods if row.kind == "request" and row.direction == "client_to_server"]
    return {
        row.method: [sample(Ref(row.params), revision) if row.params else {}, sample(Ref(row.result or ""), revision)]
        for row in rows
        if row.method not in reserved
    }


@pytest.fixture
def proposals(tmp_path: Path) -> dict[str, Path]:
    """The folder with the schema of each proposal, at the head of its pull request."""
    if PROPOSALS.is_dir():
        return {number: next((PROPOSALS / number).rglob("schema.ts")).parent for number in STOPS}
    folders: dict[str, Path] = {}
    for number in STOPS:
        folders[number] = tmp_path / "proposals" / number
        folders[number].mkdir(parents=True)
        for file in ("schema.ts", "schema.json"):
            command = ["git", "-C", str(SPECIFICATION), "show", f"refs/pull/{number}/head:schema/draft/{file}"]
            done = subprocess.run(command, capture_output=True, timeout=60)
            if done.returncode:
                pytest.skip(
                    "MCP_PROPOSALS names no folder with the schemas of open proposals, "
                    "and MCP_SPECIFICATION no repository that has fetched refs/pull/*/head"
                )
            (folders[number] / file).write_bytes(done.stdout)
    return folders


@pytest.mark.long
def test_open_proposals_go_or_are_reported(proposals: dict[str, Path], tmp_path: Path) -> None:
    going: list[Revision] = []
    for number, source in proposals.items():
        root = tmp_path / number / "schema"
        shutil.copytree(ROOT / "schema", root)
        id, report = f"proposal-{number}", tmp_path / f"{number}.json"
        options = ["--from", source, "--revision", id, "--commit", "0", "--schema", root, "--report", report]
        result = CliRunner().invoke(main, ["import", *map(str, options)])
        findings = json.loads(report.read_text())[0]["findings"]
        assert [(finding["kind"], finding["rule"], finding["at"]) for finding in findings] == STOPS[number], number
        assert result.exit_code == (2 if findings else 0), result.output
        if not findings:
            generation = ["--all", "--schema", str(root), "--output", str(tmp_path / number / "bindings")]
            generated = CliRunner().invoke(main, generation)
            assert generated.exit_code == 0, generated.output
            going.append(SchemaCatalog(root).revision(id))
    whole = tmp_path / "whole"
    whole.mkdir()
    assert _answering_packages(going, whole) == len(going) == 3
