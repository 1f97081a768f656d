"""Take a sample of mutations, run the tests nearest to each, and write which were caught and which survived."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from mutation.nearest import NearestTests
from mutation.places import Mutation, is_another_program, mutations

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("runtime", "codegen", "generated", "templates", "schema", "tests", "examples", "docs")
# Regenerating hides what these compare with what is committed.
COMPARING = "not committed and not up_to_date and not reproducible and not golden"
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


def options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="nox -s mutation --", description=__doc__)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--count", type=int, default=150, help="how many mutations the sample has")
    parser.add_argument("--limit", type=int, help="how many to try now, of those without a line in the output")
    parser.add_argument("--tests", type=int, default=5, help="how many files of tests run for a mutation")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for the tests of a mutation")
    parser.add_argument("--only", help="part of the path of a file")
    parser.add_argument("--list", action="store_true", help="show the sample, run nothing")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "mutation.jsonl", help="a line for each result")
    return parser.parse_args()


def sample(seed: int, count: int) -> list[Mutation]:
    """Return a sample: from all folders, the larger the more; from all operators alike; one from a line."""
    rng = random.Random(seed)
    folders: dict[str, list[Mutation]] = defaultdict(list)
    for package in ("runtime", "codegen"):
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            folders[path.parent.as_posix()] += mutations(file, path.read_bytes())
    names = sorted(name for name, places in folders.items() if places)
    draws = rng.sample(names, min(count, len(names)))
    draws += rng.choices(names, [len(folders[name]) for name in names], k=count - len(draws))
    chosen: dict[tuple[str, int], Mutation] = {}
    for name in draws:
        places = [place for place in folders[name] if (place.file, place.line) not in chosen]
        if places:
            operator = rng.choice(sorted({place.operator for place in places}))
            place = rng.choice([place for place in places if place.operator == operator])
            if is_another_program(place, (ROOT / place.file).read_bytes()):
                chosen[place.file, place.line] = place
    return list(chosen.values())


class Copy:
    """A copy of the tree, in which mutations are tried."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder, self.timeout = folder, timeout
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
        paths = [str(self.folder / name) for name in ("runtime", "codegen", "generated", "tests")]
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
            if code is None:  # None has failed in that time; a test that hangs fails only at its own deadline.
                return "survived", "the time was over"
            if code in (0, 5):
                return "survived", ""
            failed = FAILED.search(output)
            if failed is None:
                return "caught", output.strip().splitlines()[-1][:100]
            if self._passes(failed[1]):
                return "caught", failed[1]

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


def main() -> None:
    """Run the part of the sample that the command line names."""
    chosen = options()
    results = chosen.output.read_text(encoding="utf-8").splitlines() if chosen.output.exists() else []
    done = {(row["file"], row["start"], row["after"]) for row in map(json.loads, results)}
    mine = [place for place in sample(chosen.seed, chosen.count) if (place.file, place.start, place.after) not in done]
    mine = [mutation for mutation in mine if chosen.only is None or chosen.only in mutation.file][: chosen.limit]
    nearest = NearestTests(ROOT)
    if chosen.list:
        for mutation in mine:
            print(f"{mutation.file}:{mutation.line} {mutation.operator}: {mutation.before!r} → {mutation.after!r}")
            print("   ", *nearest.of(mutation.file, chosen.tests))
        return
    copied = Copy(ROOT / "build" / "mutation" / f"{os.getpid()}", chosen.timeout)
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    counts: dict[str, int] = defaultdict(int)
    try:
        for mutation in mine:
            begin = time.monotonic()
            verdict, test = copied.try_out(mutation, nearest.of(mutation.file, chosen.tests))
            counts[verdict] += 1
            row = vars(mutation) | {"verdict": verdict, "test": test, "seconds": round(time.monotonic() - begin, 1)}
            with chosen.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(
                f"{verdict:9} {mutation.file}:{mutation.line} {mutation.operator}: {mutation.before[:60]!r} {test}",
                flush=True,
            )
    finally:
        shutil.rmtree(copied.folder)
    print(dict(counts))


if __name__ == "__main__":
    main()
