"""What a migration did: changes by kind, marks with their place and their reason, and the files that it reads and
writes."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from ..errors import CodegenError, OutputError
from ..output import refuse_links, staged_file
from ..testkit.processes import split_command

DOCUMENTATION: Final = "https://mcp-codegen.example/docs/migrate.html"
MARK: Final = "# mcp-generated: "
_LEFT_OUT: Final = frozenset(
    ".git .hg .venv venv env .tox .nox .eggs .mypy_cache .ruff_cache .pytest_cache __pycache__ build dist node_modules"
    " site-packages".split()
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place that a person decides: its line in the file as it was, the reason, and a heading of docs/migrate.md."""

    line: int
    reason: str
    link: str = "by-hand"

    @property
    def comment(self) -> str:
        """The comment before the line."""
        return f"{MARK}{self.reason} {DOCUMENTATION}#{self.link}"


@dataclass(slots=True)
class Edited:
    """One file: its bytes before and after, how often each kind of change was made, and its marks.

    `is_commented` is False for a file that cannot have comments, such as JSON and lock files.
    """

    path: Path
    before: bytes
    after: bytes
    changes: Counter[str] = field(default_factory=Counter[str])
    marks: list[Mark] = field(default_factory=list[Mark])
    error: str = ""
    is_commented: bool = True

    @property
    def is_changed(self) -> bool:
        """True if there is something to write."""
        return self.after != self.before


def summary(files: Sequence[Edited], root: Path) -> dict[str, Any]:
    """Return the report as JSON."""
    changes: Counter[str] = Counter()
    for file in files:
        changes.update(file.changes)
    return {
        "files": [
            {
                "path": relative(file.path, root),
                "changed": file.is_changed,
                "changes": dict(sorted(file.changes.items())),
                "marks": [{"line": mark.line, "reason": mark.reason, "link": _link(mark)} for mark in file.marks],
                **({"error": file.error} if file.error else {}),
            }
            for file in files
            if file.is_changed or file.marks or file.error
        ],
        "counts": {
            "files": len(files),
            "changed": sum(file.is_changed for file in files),
            "marks": sum(len(file.marks) for file in files),
            "errors": sum(bool(file.error) for file in files),
            "changes": dict(sorted(changes.items())),
        },
    }


def lines_of(files: Sequence[Edited], root: Path) -> list[str]:
    """Return the report as text: marks and files that were not read first, counts last."""
    lines: list[str] = []
    for file in files:
        name = relative(file.path, root)
        if file.error:
            lines.append(f"{name}: not changed: {file.error}")
        lines += [f"{name}:{mark.line}: {mark.reason}" for mark in file.marks]
    counts = summary(files, root)["counts"]
    changed, marks = counts["changed"], counts["marks"]
    kinds = ", ".join(f"{kind} {number}" for kind, number in counts["changes"].items())
    lines.append(
        f"{_count(len(files), 'file')} read, {changed} to change"
        + (f" ({kinds})" if kinds else "")
        + f"; {_count(marks, 'mark')} to decide by hand"
    )
    if any(file.marks for file in files):
        lines.append(f"{DOCUMENTATION}#by-hand says what each mark asks for")
    return lines


def relative(path: Path, root: Path) -> str:
    """Return a path below a root, with slashes."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _link(mark: Mark) -> str:
    return f"{DOCUMENTATION}#{mark.link}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# The files of a project, without its environments, its builds and what links lead to.


def python_files(folder: Path) -> list[Path]:
    """Return the Python sources below a folder."""
    return sorted(path for path in files_below(folder) if path.suffix == ".py")


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [
            name for name in folders if name not in _LEFT_OUT and not Path(parent, name, "pyvenv.cfg").exists()
        ]
        for path in (Path(parent, name) for name in names):
            if path.is_file() and not path.is_symlink():
                yield path


# Write the files of a migration, and run the tests of the project before and after.


def refuse_changed(files: Sequence[Edited], root: Path) -> None:
    """Raise CodegenError if git has changes of these files that are not committed: they could not be told apart."""
    paths = [str(file.path.resolve()) for file in files if file.is_changed]
    if not paths:
        return
    words = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no", "--", *paths]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return  # Without git, nothing says that a file was changed.
    if done.returncode == 0 and (changed := [line[3:] for line in done.stdout.splitlines()]):
        raise CodegenError(
            f"{', '.join(changed[:5])}{' and others' if len(changed) > 5 else ''}: has changes that are not committed;"
            " commit them first, or pass --force"
        )


def write(files: Sequence[Edited]) -> None:
    """Write every changed file in one step each. Raises OutputError, which says how many were written before."""
    changed = [file for file in files if file.is_changed]
    for file in changed:
        refuse_links(file.path)
    for number, file in enumerate(changed):
        try:
            mode = stat.S_IMODE(file.path.stat().st_mode)
            if file.path.read_bytes() != file.before:
                raise OutputError(f"{file.path}: was changed in the meantime; run the migration again")
            temporary = staged_file(file.path, file.after)
            os.chmod(temporary, mode)  # A program stays one that can be run.
            temporary.replace(file.path)
        except OSError as error:
            raise OutputError(
                f"{file.path}: cannot be written: {error.strerror}; {number} of {len(changed)} files were written, and"
                " a second run goes on"
            ) from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of the tests of a project: its exit code, its last line, and the tests that passed if pytest ran them."""

    code: int
    last: str
    passed: frozenset[str]

    @property
    def text(self) -> str:
        """What a person reads of it."""
        return self.last or f"exit code {self.code}"


def run_tests(command: str, root: Path) -> Outcome:
    """Run the tests of a project in its folder. Raises CodegenError for a command that cannot be started."""
    words = split_command(command)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.xml")
        if any(Path(word).stem in ("pytest", "py.test") for word in words):
            words.append(f"--junitxml={results}")
        try:
            done = subprocess.run(words, cwd=root, capture_output=True, text=True, errors="replace", check=False)
        except (OSError, IndexError) as error:
            raise CodegenError(f"{command}: cannot be started: {error}; pass the command that runs the tests") from None
        lines = [line.strip() for line in (done.stdout or done.stderr).splitlines() if line.strip()]
        return Outcome(done.returncode, lines[-1] if lines else "", _passed(results))


def compared(before: Outcome, after: Outcome) -> tuple[bool, list[str]]:
    """Return whether what passed before passes after, and the lines that say so."""
    lines = [f"tests before: {before.text}", f"tests after: {after.text}"]
    lost = sorted(before.passed - after.passed)
    lines += [f"passed before, not after: {name}" for name in lost]
    return not lost and (after.code == 0 or bool(before.passed) or before.code != 0), lines


def _passed(results: Path) -> frozenset[str]:
    if not results.is_file():
        return frozenset()
    cases = ElementTree.parse(results).getroot().iter("testcase")  # Written by pytest on this machine.
    return frozenset(
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if not any(child.tag in ("failure", "error", "skipped") for child in case)
    )
