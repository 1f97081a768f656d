"""Eight invented proposals for the next revision go through `update`, and their drafts converse with every older
revision; or the update stops with one sentence that says what to write.

The fast tests use memory and the pairs with the draft. The long ones run the command, over all transports and pairs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.matrices import long_after
from support.project import ROOT
from support.schemas.draft_files import draft_files
from support.schemas.proposals import (
    DRAFT,
    PROPOSALS,
    Schema,
    rename_method,
    rename_property,
    schemas_with,
    write_rows,
)

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError, Finding
from mcp_codegen.generate import generate
from mcp_codegen.paths import data_path
from mcp_codegen.update.trial import converse_in_pairs

NAMES = list(PROPOSALS)


def findings_of(folder: Path, schemas: SchemaCatalog) -> list[Finding]:
    """What stops a draft: in its derivation, or in a conversation in memory with each other revision."""
    try:
        files = generate(schemas, (data_path("templates"),), folder / "bindings", list(schemas.pins))
    except CodegenError as error:
        return list(error.findings)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(converse_in_pairs(schemas, folder, "bindings", True, transports=["memory"], only=DRAFT))


@pytest.mark.edges("a removed method")
@pytest.mark.long
@pytest.mark.parametrize("name", long_after(2, NAMES))
def test_a_proposal_converses_with_every_older_revision(name: str, tmp_path: Path) -> None:
    assert findings_of(tmp_path, schemas_with(tmp_path, PROPOSALS[name])) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", long_after(1, [name for name in NAMES if PROPOSALS[name].sentence]))
def test_a_proposal_without_its_row_stops_with_the_sentence_that_says_what_to_write(name: str, tmp_path: Path) -> None:
    findings = findings_of(tmp_path, schemas_with(tmp_path, PROPOSALS[name], rows=False))
    assert any(PROPOSALS[name].sentence in finding.text for finding in findings), findings
    assert all(len(finding.text) <= 500 for finding in findings)


@pytest.mark.long
def test_all_proposals_in_one_draft_converse_with_every_older_revision(tmp_path: Path) -> None:
    assert findings_of(tmp_path, schemas_with(tmp_path, *PROPOSALS.values())) == []


# ---- the command ----------------------------------------------------------------------------------------------------


def git(repository: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(repository), *identity, *arguments], check=True, capture_output=True)


class Specification:
    """A repository with a draft, the schemas that stand here, and a package made of them."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "official"
        self.root = folder / "schema"
        self.output = folder / "bindings"
        self.report = folder / "report.md"
        self.repository.mkdir()
        git(self.repository, "init", "--quiet", "--initial-branch", "main")
        shutil.copytree(ROOT / "schema", self.root)
        shutil.copytree(ROOT / "generated" / "mcp_generated", self.output)

    def update(self, *changes: Callable[[Schema], None], revision: str = DRAFT) -> Result:
        """Run the command with a draft that has these changes."""
        place = self.repository / "schema" / revision
        place.mkdir(parents=True, exist_ok=True)
        for file, text in draft_files(*changes).items():
            (place / file).write_text(text)
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "--quiet", "--allow-empty", "--message", "A commit")
        words = ["update", "--from", self.repository, "--schema", self.root, "--output", self.output]
        words += ["--report", self.report, "--no-type-check"]
        return CliRunner().invoke(main, [str(word) for word in words])

    def contents(self) -> dict[Path, bytes]:
        return {
            path: path.read_bytes()
            for folder in (self.root, self.output)
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }


USES = """
import asyncio
from bindings import App, connect, v2025_11_25, v2026_07_28, vdraft

app = App("trial")

@app.tool
def add(a: int, b: int) -> int:
    return a + b

async def main():
    assert App.__module__ == "bindings.app" and app.server.revision.id == "2026-07-28"
    for target in (app, [sys.executable, __file__, "serve"]):
        async with connect(target) as client:
            assert (await client.call_tool("add", {"a": 2, "b": 3})).structured_content == {"result": 5}
            print([tool.input_schema.required async for tool in client.iter_tools()])

import sys
if sys.argv[1:] == ["serve"]:
    app.run("stdio")
else:
    asyncio.run(main())
"""


def used(folder: Path) -> str:
    """What a program says that uses the package as README shows it."""
    (folder / "uses.py").write_text(USES)
    done = subprocess.run(
        [sys.executable, str(folder / "uses.py")],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{folder}:{ROOT / 'runtime'}", "PATH": "/usr/bin:/bin"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_update_writes_a_proposal_that_converses_or_stops_with_its_sentence_and_writes_nothing(
    name: str, tmp_path: Path
) -> None:
    proposal, specification = PROPOSALS[name], Specification(tmp_path)
    if proposal.sentence:
        before = specification.contents()
        stopped = specification.update(proposal.change)
        assert stopped.exit_code == 2 and "nothing was written" in stopped.output
        assert proposal.sentence in " ".join(stopped.output.split())
        assert "Nothing was written" in specification.report.read_text()
        assert specification.contents() == before
        write_rows(specification.root, [proposal])
    done = specification.update(proposal.change)
    assert done.exit_code == 0, done.output
    assert (specification.output / "vdraft").is_dir()
    assert used(tmp_path) == "[['a', 'b']]\n" * 2


@pytest.mark.exhaustive
def test_two_drafts_follow_each_other_and_a_release_follows_both(tmp_path: Path) -> None:
    """The first draft has all proposals; the second renames again; then the draft becomes a release."""
    specification, changes = Specification(tmp_path), [proposal.change for proposal in PROPOSALS.values()]
    write_rows(specification.root, list(PROPOSALS.values()))
    done = specification.update(*changes)
    assert done.exit_code == 0, done.output

    def again(schema: Schema) -> None:
        rename_property(schema, "CallToolResult", "structuredContent", "value")
        rename_method(schema, "resources/read", "resources/get")

    stopped = specification.update(*changes, again)
    assert stopped.exit_code == 2 and "'resources/read'" in " ".join(stopped.output.split()), stopped.output
    with (specification.root / "conversions.toml").open("a") as file:
        for place, name, use in (
            ("at", "CallToolResult.structuredContent", "value"),
            ("method", "resources/read", "resources/get"),
        ):
            file.write(f'\n[[rename]]\n{place} = "{name}"\nuse = "{use}"\nreason = "The draft says so."\n')
    done = specification.update(*changes, again)
    assert done.exit_code == 0, done.output
    assert used(tmp_path) == "[['a', 'b']]\n" * 2
    shutil.rmtree(specification.repository / "schema" / DRAFT)
    done = specification.update(*changes, again, revision="2027-01-15")
    assert done.exit_code == 0, done.output
    assert list(SchemaCatalog(specification.root).pins)[-1] == "2027-01-15"
