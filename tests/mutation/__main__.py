"""Take a sample of mutations, run the tests nearest to each, and write which were caught and which survived."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from mutation.nearest import NearestTests
from mutation.places import Mutation
from mutation.sampling import ROOT, Drawn, draw, sample, write_sample

COPIED = ("runtime", "products", "codegen", "generated", "templates", "schema", "tests", "examples", "docs")
# Regenerating hides what these compare with what is committed.
COMPARING = "not committed and not up_to_date and not reproducible and not golden"
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


def options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="nox -s mutation --", description=__doc__)
    parser.add_argument(
        "--draw", type=int, nargs=2, metavar=("SEED", "COUNT"), help="write another sample; run nothing"
    )
    parser.add_argument("--again", action="store_true", help="those that survived, instead of those without a result")
    parser.add_argument("--number", type=int, action="append", help="these of the sample, whatever their results")
    parser.add_argument("--limit", type=int, help="how many to try now")
    parser.add_argument("--tests", type=int, default=8, help="how many files of tests run for a mutation")
    parser.add_argument("--timeout", type=float, default=90, help="seconds for the tests of a mutation")
    parser.add_argument("--only", help="part of the path of a file")
    parser.add_argument("--list", action="store_true", help="show the sample, run nothing")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "mutation.jsonl", help="a line for each result")
    return parser.parse_args()


class Copy:
    """A copy of the tree, in which mutations are tried."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder = folder
        self.timeout = timeout
        self.passing: set[str] = set()
        self.failing: list[str] = []
        for name in COPIED:
            skip = shutil.ignore_patterns("node_modules", ".mypy_cache", "build")
            shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True, ignore=skip)
        for path in ROOT.iterdir():
            if path.is_file() and path.name != "py":
                shutil.copy2(path, folder / path.name)

    def pytest(self, tests: list[str]) -> tuple[int | None, str]:
        """Run tests until the first fails; return the exit code, None if the time is over, and the output."""
        paths = [str(self.folder / name) for name in ("runtime", "products", "codegen", "generated", "tests")]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        deselected = [part for test in self.failing for part in ("--deselect", test)]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-k",
            COMPARING,
            *deselected,
            *tests,
        ]
        process = subprocess.Popen(
            command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            output, _ = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return None, ""
        return process.returncode, output.decode(errors="replace")

    def try_out(self, mutation: Mutation, tests: list[str]) -> tuple[str, str]:
        """Return the verdict on a mutation, and which test failed."""
        path = self.folder / mutation.file
        source = path.read_bytes()
        while True:
            try:
                self._write(path, mutation.applied(source))
                code, output = self.pytest(tests)
            finally:
                self._write(path, source)
            if code is None:
                return self._verdict_of_hang(tests)
            if code in (0, 5):
                return "survived", ""
            failed = FAILED.search(output)
            if failed is None:
                return "caught", output.strip().splitlines()[-1][:100]
            if self._passes(failed[1]):
                return "caught", failed[1]

    def _verdict_of_hang(self, tests: list[str]) -> tuple[str, str]:
        """Return the verdict on a mutation with which the tests have not ended: without it they need half the time."""
        began = time.monotonic()
        code = self.pytest(tests)[0]
        if code is not None and time.monotonic() - began < self.timeout / 2:
            return "caught", "the tests do not end"
        return "survived", "the time was over"

    def _passes(self, test: str) -> bool:
        """Tell whether a test passes without a mutation; one that does not is left out from now on."""
        if test not in self.passing:
            if self.pytest([test])[0] == 0:
                self.passing.add(test)
            else:
                self.failing.append(test)
        return test in self.passing

    @staticmethod
    def _write(path: Path, source: bytes) -> None:
        path.write_bytes(source)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()  # Two versions of one size in one second would share it.


def selected(chosen: argparse.Namespace) -> list[tuple[Drawn, Mutation]]:
    """Return the part of the sample that the command line names, where it stands now."""
    results = chosen.output.read_text(encoding="utf-8").splitlines() if chosen.output.exists() else []
    verdicts = {row["number"]: row["verdict"] for row in map(json.loads, results)}  # The last one counts.
    drawn = [item for item in sample() if chosen.only is None or chosen.only in item.file]
    if chosen.number:
        drawn = [item for item in drawn if item.number in chosen.number]
    elif chosen.again:
        drawn = [item for item in drawn if verdicts.get(item.number) == "survived"]
    else:
        drawn = [item for item in drawn if item.number not in verdicts]
    located = [(item, item.located()) for item in drawn]
    for item, place in located:
        if place is None:
            print(f"{item.number} {item.file}: the code is gone; write its new place into sample.jsonl")
    return [(item, place) for item, place in located if place is not None][: chosen.limit]


def main() -> None:
    """Run the part of the sample that the command line names."""
    chosen = options()
    if chosen.draw:
        write_sample(draw(*chosen.draw))
        return
    mine, nearest = selected(chosen), NearestTests(ROOT)
    if chosen.list:
        for item, place in mine:
            print(f"{item.number} {place.file}:{place.line} {place.operator}: {place.before!r} → {place.after!r}")
            print("   ", *nearest.of(place, item.scope, chosen.tests))
        return
    copied = Copy(ROOT / "build" / "mutation" / f"{os.getpid()}", chosen.timeout)
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    try:
        for item, place in mine:
            begin = time.monotonic()
            verdict, test = copied.try_out(place, nearest.of(place, item.scope, chosen.tests))
            counts[verdict] += 1
            seconds = round(time.monotonic() - begin, 1)
            row = {"number": item.number, "file": item.file, "verdict": verdict, "test": test, "seconds": seconds}
            with chosen.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            before = place.before[:60]
            print(
                f"{verdict:9} {item.number} {place.file}:{place.line} {place.operator}: {before!r} {test}", flush=True
            )
    finally:
        shutil.rmtree(copied.folder)
    print(dict(counts))


if __name__ == "__main__":
    main()
