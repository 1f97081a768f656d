"""How many of the tests of `mcp` and FastMCP pass with the packages of products/names in their place.

    python benchmarks/official_suites/measure.py [--suite NAME] [--only FILE] [--source DIR] [--again] [--jobs 2]

For each suite of suites.toml: the tests of its source distribution, or of a checkout in DIR; an environment with the
original, and one with the same other packages and the wheel of products/names. Each file of tests runs in a process of
its own in both. What passes with the original is measured once and kept under build/, until `--again`. private_names.py
says which tests use a private name. `--only` runs the files whose path has this text, and prints what does not pass.
benchmarks/results/official_suites.md is written from the last full run of each suite, once each has one; with
`--write`, nothing is run before.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent
ROOT: Final = FOLDER.parent.parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from measures.machine import measured  # noqa: E402
from measures.rounds import write_results  # noqa: E402
from private_names import Suite  # noqa: E402

TABLE: Final = tomllib.loads((FOLDER / "suites.toml").read_text(encoding="utf-8"))
SUITES: Final = [name for name, row in TABLE.items() if isinstance(row, dict)]
WORK: Final = ROOT / "build" / "official_suites"
RESULTS: Final = ROOT / "benchmarks" / "results" / "official_suites.md"
UV: Final = str(Path(sys.prefix, "bin", "uv"))
LIMIT_OF_A_TEST: Final = 30
LIMIT_OF_A_FILE: Final = 180.0
KINDS: Final = 20  # Rows of a table of what does not pass.
OPTIONS: Final = (
    "-q -p no:cacheprovider -p recorder -o addopts= -o pythonpath= -o log_cli=false --inline-snapshot=disable"
    f" --timeout {LIMIT_OF_A_TEST} -c pyproject.toml"
    " -W ignore::pytest.PytestAssertRewriteWarning"  # Those are about imports before pytest's.
    " --tb=native"  # The others read the source, where Python 3.11 may end with a SystemError after a deep recursion.
).split()


@dataclass(frozen=True)
class Official:
    """One suite of suites.toml, and its folders below the folder of work."""

    name: str
    row: Mapping[str, Any]

    @property
    def release(self) -> str:
        """The name and version, as files have it."""
        return str(self.row["release"]).replace("==", "-")

    @property
    def source(self) -> Path:
        """The folder above the tests."""
        return WORK / "src" / self.release

    def python(self, kind: str) -> Path:
        """Return the program of the environment `original` or `ours`."""
        return WORK / "env" / f"{self.release}-{kind}" / "bin" / "python"

    def record(self, kind: str) -> Path:
        """Return the file with what became of each test."""
        return WORK / "results" / f"{self.release}-{kind}.json"

    def files(self, only: str) -> list[Path]:
        """Return the files of tests whose path has a text, by their place below the source."""
        found: list[Path] = []
        for folder in self.row["folders"]:
            path = self.source / folder
            found += [path] if path.is_file() else sorted(path.rglob("test_*.py"))
        return [path.relative_to(self.source) for path in found if only in str(path.relative_to(self.source))]


def run(*words: object) -> str:
    """Run a program and return its output. Raises SystemExit with the end of its errors if it fails."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


# ---- sources and environments ----------------------------------------------------------------------------------------


def prepare(suite: Official, checkout: Path | None) -> None:
    """Get the tests of a suite, and make its environments."""
    if not suite.source.is_dir():
        if checkout is not None:
            shutil.copytree(checkout, suite.source)
        else:
            _download(suite)
        for file, texts in suite.row.get("removed", {}).items():
            lines = (suite.source / file).read_text(encoding="utf-8").splitlines()
            kept = [_passed_over(line) if line.strip().startswith(tuple(texts)) else line for line in lines]
            (suite.source / file).write_text("\n".join(kept) + "\n", encoding="utf-8")
    _environments(suite)


def _passed_over(line: str) -> str:
    return line[: len(line) - len(line.lstrip())] + "pass"


def _download(suite: Official) -> None:
    """Download and unpack a source distribution."""
    python = WORK / "fetching" / "bin" / "python"
    if not python.exists():
        run(UV, "venv", "-q", "--seed", python.parent.parent)
        run(UV, "pip", "install", "-q", "--python", python, "pip", *TABLE["backends"].split())
    options = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-q", "-d", WORK / "sdist")
    run(python, "-m", "pip", "download", *options, suite.row["release"])
    with tarfile.open(WORK / "sdist" / f"{suite.release}.tar.gz") as archive:
        archive.extractall(suite.source.parent, filter="data")


def _environments(suite: Official) -> None:
    """Make the environment of the original, and the one of ours with the same other packages and the wheel of now."""
    row, original, ours = suite.row, suite.python("original"), suite.python("ours")
    if not original.exists():
        run(UV, "venv", "-q", "--seed", original.parent.parent)
        others = f"{TABLE['tools']} {row.get('requires', '')}".split()
        own = row["release"].replace("==", f"[{row['extras']}]==")
        run(UV, "pip", "install", "-q", "--python", original, own, *others)
    if not ours.exists():
        run(UV, "venv", "-q", "--seed", ours.parent.parent)
        without = TABLE["without"].split()
        frozen = [line for line in run(UV, "pip", "freeze", "--python", original).splitlines() if " @ " not in line]
        others = [line for line in frozen if line.partition("==")[0].lower() not in without]
        run(UV, "pip", "install", "-q", "--python", ours, "--no-deps", *others)
        checkout = ("-e", f"{ROOT}[app,auth,compat,http]", "-e", ROOT / "products")
        run(UV, "pip", "install", "-q", "--python", ours, *checkout)
    wheel = ROOT / "products" / "names" / row["form"]
    run(UV, "pip", "install", "-q", "--python", ours, "--no-deps", "--reinstall-package", "mcp", wheel)


# ---- runs ------------------------------------------------------------------------------------------------------------

Outcomes = dict[str, tuple[str, str]]  # By test: "passed", "failed", …, and the first line of the error.


def outcomes(suite: Official, kind: str, files: Sequence[Path], jobs: int) -> Outcomes:
    """Run files of tests, each in a process of its own, and return what becomes of each test."""
    start, found, runners = time.monotonic(), Outcomes(), [_runner(suite, kind) for _ in range(jobs)]
    free = list(runners)

    def outcomes_of(file: Path) -> Outcomes:
        runner = free.pop()
        try:
            return _outcomes_of(runner, file)
        finally:
            free.append(runner)

    with ThreadPoolExecutor(jobs) as pool:
        for number, of_file in enumerate(pool.map(outcomes_of, files), 1):
            found |= of_file
            if number % 20 == 0 or number == len(files):
                seconds = time.monotonic() - start
                print(f"{suite.name}, {kind}: {number} of {len(files)} files, {seconds:.0f} s", file=sys.stderr)
    for runner in runners:
        runner.communicate()
    return found


def _runner(suite: Official, kind: str) -> subprocess.Popen[str]:
    """Start a process that runs files of tests."""
    python = suite.python(kind)
    own = {"PYTHONPATH": str(FOLDER), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    words = (FOLDER / "forking.py", LIMIT_OF_A_FILE, *suite.row["imports"].split(), "--", *OPTIONS)
    return subprocess.Popen(
        [str(python), *map(str, words)],
        cwd=suite.source,
        env=os.environ | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _outcomes_of(runner: subprocess.Popen[str], file: Path) -> Outcomes:
    assert runner.stdin is not None and runner.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        record, output = Path(folder, "record"), Path(folder, "output")
        record.touch()
        runner.stdin.write(f"{file} {record} {output}\n")
        runner.stdin.flush()
        code = int(runner.stdout.readline())
        if code not in (-signal.SIGKILL, 0, 1, 2, 5):  # Not an end that pytest has for tests.
            end = output.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
            print(f"{file} ended with {code}", *end, sep="\n", file=sys.stderr)
        return _read(record.read_text(encoding="utf-8").splitlines())


def _read(lines: Iterable[str]) -> Outcomes:
    found = Outcomes()
    for line in lines:
        test, outcome, error = json.loads(line)
        if found.get(test, ("passed", ""))[0] == "passed":
            found[test] = (outcome, error)
    return found


# ---- what is counted -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Count:
    """The tests of a suite that pass with the original, and what becomes of them with ours."""

    suite: str
    measured: str
    all: Outcomes
    public: Outcomes

    def row(self) -> list[str]:
        """Return the cells of the suite."""
        all_passed, passed = (_passed(tests) for tests in (self.all, self.public))
        numbers = (len(self.all), all_passed, len(self.public), passed)
        return [self.suite, *(f"{number:,}" for number in numbers), f"{100 * passed / max(1, len(self.public)):.1f}"]


def _passed(tests: Outcomes) -> int:
    return sum(outcome == "passed" for outcome, _ in tests.values())


def count(suite: Official, original: Mapping[str, Any], ours: Mapping[str, Any]) -> Count:
    """Compare two records."""
    search = Suite(suite.source, frozenset(suite.row["packages"]))
    tests, uses = ours["tests"], dict[str, bool]()
    everything, public = Outcomes(), Outcomes()
    for test, (outcome, _) in original["tests"].items():
        function = test.partition("[")[0]
        if outcome == "passed":
            end = tests.get(test) or tests.get(test.partition("::")[0])
            everything[test] = tuple(end or ("not run", "not run: the file ended before, or at its limit"))
            if function not in uses:
                uses[function] = search.uses_private_names(function)
            if not uses[function]:
                public[test] = everything[test]
    return Count(suite.name, ours["measured"], everything, public)


def kind(outcome: str, error: str) -> str:
    """Return the kind of a failure: the name that is missing, or the error without its values."""
    if match := re.search(r"(?:cannot import name '(\w+)'|No module named '([\w.]+)')", error):
        return f"no {match[1] or match[2]}"
    if match := re.search(r"NotImplementedError: ([\w.]+)", error):
        return f"no {match[1].rpartition('.')[2]}"
    if error.startswith(("assert ", "AssertionError")):
        return "an assertion"
    short = re.sub(r"0x[0-9a-f]+|\d+|\"[^\"]*\"", "…", error)[:100]
    return short.replace("|", "\\|") or outcome


def kinds(tests: Outcomes) -> Iterator[tuple[str, int]]:
    """Yield the kinds of what does not pass, the largest first, and how many are of others."""
    counts = Counter(kind(*end) for end in tests.values() if end[0] != "passed")
    largest = counts.most_common(KINDS)
    yield from largest
    if rest := counts.total() - sum(number for _, number in largest):
        yield f"{len(counts) - len(largest)} other kinds", rest


def files(tests: Outcomes) -> Iterator[list[str]]:
    """Yield the files in which most tests do not pass: how many tests count there, and how many do not pass."""
    every = Counter(test.partition("::")[0] for test in tests)
    failing = Counter(test.partition("::")[0] for test, end in tests.items() if end[0] != "passed")
    for file, number in failing.most_common(KINDS):
        yield [file, f"{every[file]:,}", f"{number:,}"]


HEADS: Final = ("suite", "pass with the original", "of these with ours", "without a private name", "with ours", "%")
ABOUT: Final = """\
# The official suites

Measured by `python benchmarks/official_suites/measure.py`, on Python 3.11: the tests that pass with the original, and
those of them that use no private name, neither themselves nor by a helper, by the rule of private_names.py beside it.
Below each suite is what does not pass of those without a private name.
"""


def text(counts: Sequence[Count]) -> str:
    """Return the page of results."""
    lines = [ABOUT, *_table(HEADS, map(Count.row, counts))]
    for counted in counts:
        lines += [f"\n## {counted.suite}\n", f"{counted.measured}\n"]
        lines += _table(["kind", "tests"], ([what, f"{number:,}"] for what, number in kinds(counted.public)))
        lines += ["", *_table(["file", "tests", "do not pass"], files(counted.public))]
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


# ---- the command -----------------------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    """Return the arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES, help="one suite; may be given again")
    parser.add_argument("--only", default="", help="the files whose path has this text; nothing is kept")
    parser.add_argument("--source", type=Path, help="a checkout with the tests, for one suite")
    parser.add_argument("--again", action="store_true", help="measure the original again")
    parser.add_argument("--write", action="store_true", help="write the page from the records, and run nothing")
    parser.add_argument("--jobs", type=int, default=2, help="files of tests at once")
    return parser.parse_args()


def read(suite: Official, which: str) -> dict[str, Any]:
    """Return the record of the last run of a suite."""
    record: dict[str, Any] = json.loads(suite.record(which).read_text(encoding="utf-8"))
    return record


def ran(suite: Official, which: str, only: str, jobs: int) -> dict[str, Any]:
    """Run a suite, or some of its files, and return the record; that of all is kept."""
    record = {"measured": measured(), "tests": outcomes(suite, which, suite.files(only), jobs)}
    if not only:
        suite.record(which).parent.mkdir(parents=True, exist_ok=True)
        suite.record(which).write_text(json.dumps(record, indent=1), encoding="utf-8")
    return record


def measure(suite: Official, options: argparse.Namespace) -> None:
    """Run a suite, and print what was counted."""
    if options.again or not suite.record("original").exists():
        original = ran(suite, "original", options.only, options.jobs)
    else:
        original = read(suite, "original")
        tests = original["tests"].items()
        original["tests"] = {test: end for test, end in tests if options.only in test.partition("::")[0]}
    counted = count(suite, original, ran(suite, "ours", options.only, options.jobs))
    print(*counted.row(), sep=" | ")
    for test, (outcome, error) in counted.public.items():
        if options.only and outcome != "passed":
            print(f"{test}: {error}")


def main() -> None:
    """Measure, and write what was counted of all suites."""
    options = arguments()
    for name in () if options.write else options.suite or SUITES:
        suite = Official(name, TABLE[name])
        prepare(suite, options.source)
        measure(suite, options)
    suites = [Official(name, TABLE[name]) for name in SUITES]
    if not options.only and all(suite.record("ours").exists() for suite in suites):
        counts = [count(suite, read(suite, "original"), read(suite, "ours")) for suite in suites]
        write_results(RESULTS, text(counts), ["products/mcp_products/compat", "products/names"])


if __name__ == "__main__":
    main()
