"""The rounds of a measurement, which end after a time, and the row of what it has measured in results.toml."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from measures.machine import measured

TABLE: Final = Path(__file__).resolve().parents[1] / "results" / "results.toml"


class Rounds:
    """Iterates over 0, for a round that does not count, and 1 to `runs`; `counted` is how many of these there were.

    With `seconds`, no round begins that would end later than that, as far as the slowest one tells; the first round
    that counts is always there.
    """

    def __init__(self, runs: int, seconds: float | None = None) -> None:
        self._runs = runs
        self._seconds = seconds
        self.counted = 0

    def __iter__(self) -> Iterator[int]:
        start, slowest = time.monotonic(), 0.0
        for number in range(self._runs + 1):
            now = time.monotonic()
            if self._seconds is not None and number > 1 and now + slowest > start + self._seconds:
                return
            yield number
            self.counted = number
            slowest = max(slowest, time.monotonic() - now)
            print(f"round {number} of {self._runs} took {time.monotonic() - now:.0f} s", file=sys.stderr)


def write_results(path: Path, text: str, measures: Sequence[str] = ()) -> None:
    """Write a file of results, and the day and the commit into its row of results.toml.

    With `measures`, the paths that it measures, a row is added if there is none.

    Without a commit that has all of the code, the row stays as it is, and a message says so.
    """
    path.write_text(text, encoding="utf-8")
    git = ["git", "-C", str(TABLE.parent)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    if not commit or f" at {commit[:12]} on " not in measured():
        print(
            f"results.toml has the row of before for {path.name}: the code has changes without a commit",
            file=sys.stderr,
        )
        return
    table = TABLE.read_text(encoding="utf-8")
    if measures and f'["{path.name}"]' not in table:
        table = with_new_row(table, path.name, measures)
    TABLE.write_text(with_row(table, path.name, commit, f"{datetime.now(UTC):%Y-%m-%d}"), encoding="utf-8")


def with_new_row(table: str, name: str, measures: Sequence[str]) -> str:
    """Return results.toml with a row for a file, in the order of names; its commit and day are not there yet."""
    paths = "".join(f'    "{path}",\n' for path in measures)
    row = f'["{name}"]\ncommit = "0"\nday = "0"\nmeasures = [\n{paths}]\n\n'
    after = next((match.start() for match in re.finditer(r'^\["(.+)"\]$', table, re.M) if match[1] > name), None)
    return f"{table.rstrip()}\n\n{row.rstrip()}\n" if after is None else table[:after] + row + table[after:]


def with_row(table: str, name: str, commit: str, day: str) -> str:
    """Return results.toml with another commit and day for a file. Raises LookupError if it has no row."""
    pattern = rf'(^\["{re.escape(name)}"\]\n)commit = "\w+"\nday = "[\d-]+"\n'
    changed, count = re.subn(pattern, rf'\g<1>commit = "{commit}"\nday = "{day}"\n', table, count=1, flags=re.M)
    if not count:
        raise LookupError(f"results.toml has no row for {name}: add one with the paths that it measures")
    return changed
