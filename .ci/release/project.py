"""What a release consists of: the distributions of the checkout, their versions, and how the parts report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class RefusedError(Exception):
    """Something that a release must not have, in one line that names the remedy."""


@dataclass(frozen=True)
class Distribution:
    """One distribution: its folder, and what its pyproject.toml has."""

    folder: Path
    project: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.project["name"])

    @property
    def version(self) -> str:
        return str(self.project.get("version", ""))


@dataclass
class Release:
    """One run: its options, and what the parts leave for each other."""

    root: Path
    tag: str
    python: str
    interpreters: Sequence[str]
    notes: list[str] = field(default_factory=list[str])

    @property
    def dist(self) -> Path:
        return self.root / "dist"

    @property
    def build(self) -> Path:
        return self.root / "build" / "release"

    def note(self, text: str) -> None:
        """Add a remark to the report of this part."""
        self.notes.append(text)

    def distributions(self) -> list[Distribution]:
        """Return all distributions of the checkout, that of the root first."""
        paths = [self.root / "pyproject.toml", *sorted(self.root.glob("*/pyproject.toml"))]
        tables = [(path.parent, tomllib.loads(path.read_text(encoding="utf-8"))) for path in paths]
        return [Distribution(folder, table["project"]) for folder, table in tables if "project" in table]

    def version(self) -> str:
        """Return the version of the release: that of the root."""
        return self.distributions()[0].version

    def run(self, *command: str | Path, cwd: Path | None = None, stdin: str | None = None) -> str:
        """Return the output of a program. Raises RefusedError, with its last lines, if it fails."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd or self.root,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            last = " | ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-4:])
            raise RefusedError(f"{Path(str(command[0])).name} {' '.join(str(part) for part in command[1:4])}: {last}")
        return done.stdout

    def git(self, *arguments: str) -> str:
        return self.run("git", *arguments).strip()


@dataclass(frozen=True)
class Part:
    """One part of the checks: its name, what it checks, and the function."""

    name: str
    checks: str
    run: Callable[[Release], None]


def interpreters(names: Sequence[str]) -> dict[str, str]:
    """Return the path of each of these interpreters that this machine has; those of pyenv, too, without its choice."""
    found: dict[str, str] = {}
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in names:
        number = name.removeprefix("python")
        inside = sorted(home.glob(f"{number.removesuffix('t')}.*/bin/{name}"))
        for path in (shutil.which(name), *map(str, inside)):
            if path is not None and name not in found and _works(path):
                found[name] = path
    return found


def _works(path: str) -> bool:
    command = [path, "-c", "import ensurepip, ssl, venv"]
    return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def log(text: str) -> None:
    """Print a line to standard error, at once."""
    print(text, file=sys.stderr, flush=True)
