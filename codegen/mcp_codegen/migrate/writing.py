"""Write the files of a migration, and run the tests of the project before and after."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from ..errors import CodegenError, OutputError
from ..output import refuse_links, staged_file
from ..testkit.processes import split_command
from .report import Edited


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
