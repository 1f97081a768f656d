"""A git repository of official files, and an update to its commits."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from support.schemas.invented import folder, message, no_capability, record, talking
from support.schemas.typescript_text import official_files

from mcp_codegen.cli.main import main

FIRST, SECOND = "2025-01-01", "2025-06-01"
TEXT = {"type": "string"}
Schema = dict[str, Any]


@dataclass
class History:
    """A repository of official files, the schemas that stand here, and the package made of them."""

    repository: Path
    root: Path
    output: Path

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.repository), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, **revisions: dict[str, str] | None) -> str:
        """Commit these files for `draft` and for `r2025_06_01`; None removes a revision."""
        for name, files in revisions.items():
            place = self.repository / "schema" / name.removeprefix("r").replace("_", "-")
            if files is None:
                shutil.rmtree(place)
            for file, text in (files or {}).items():
                place.mkdir(parents=True, exist_ok=True)
                (place / file).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A commit")
        return self.git("rev-parse", "HEAD")

    def words(self, *arguments: str | Path, source: str | Path | None = None) -> list[str | Path]:
        """The words of a command that updates."""
        places = ["--schema", self.root, "--output", self.output, "--report", self.root.parent / "report.md"]
        return ["update", "--from", source or self.repository, *places, *arguments]

    def update(self, *arguments: str | Path, source: str | Path | None = None) -> Result:
        words = self.words("--no-type-check", *arguments, source=source)
        return CliRunner().invoke(main, [str(word) for word in words])

    def report(self) -> str:
        return (self.root.parent / "report.md").read_text()

    def contents(self) -> dict[str, bytes]:
        """Every file of the schemas and of the package, and what is beside them."""
        parent = self.root.parent
        files = {path for path in parent.rglob("*") if path.is_file() and self.repository not in path.parents}
        return {str(path.relative_to(parent)): path.read_bytes() for path in files if path.name != "report.md"}


def grown(**fields: Schema) -> Schema:
    """The skeleton with a request to search, and further fields in its params."""
    params = record({"text": TEXT, **fields}, "text")
    result = record({"found": TEXT}, "found")
    return talking(SearchRequest=message("search", params), SearchResult=result)


def places(folder: Path) -> History:
    return History(folder / "official", folder / "here" / "schema", folder / "here" / "bindings")


def prepare(place: Path) -> Path:
    """One release, imported and generated, of a repository whose draft is the same."""
    here = places(place)
    here.root.mkdir(parents=True)
    here.repository.mkdir()
    here.git("init", "--quiet", "--initial-branch", "main")
    start = official_files(grown())
    here.commit(r2025_01_01=start, draft=start)
    folder(here.root, grown(), no_capability("search"), FIRST)
    imported = ["import", "--from", str(here.repository), "--revision", FIRST, "--follows", ""]
    done = CliRunner().invoke(main, [*imported, "--schema", str(here.root), "--no-type-check"])
    assert done.exit_code == 0, done.output
    words = ["--all", "--schema", str(here.root), "--output", str(here.output)]
    assert CliRunner().invoke(main, words).exit_code == 0
    return here.repository.parent
