"""What `mcp-generated migrate` does to fifteen servers that others wrote: their own tests, lists and calls.

    python benchmarks/migrations/measure.py [--work DIR] [--to compat] [--to app] [--only NAME] [--again] [--jobs 4]

For each server of servers.toml: its source from the package index, an environment with its SDK, its own tests, and a
conversation with it; then a copy that is migrated with `--write` and nothing by hand, an environment without the SDK,
the same tests and the same conversation. Each place in the list of tools and in three answers that differs is counted
as marked or unmarked: the rows `told` of servers.toml say which mark tells of it, and the report must have that mark.
What is in DIR already is kept, also results; `--again` migrates and tests anew. The table is written to
benchmarks/results/migrations.md if all servers were measured. It takes an hour, or less with `--jobs`: tests that need
a network wait for it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from mcp_runtime.protocol.models import is_list, is_object

FOLDER: Final = Path(__file__).resolve().parent
ROOT: Final = FOLDER.parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "migrations.md"
UV: Final = str(Path(sys.prefix, "bin", "uv"))
BACKENDS: Final = (
    "hatchling setuptools wheel poetry-core uv_build flit_core pdm-backend setuptools-scm hatch-vcs"
    " uv-dynamic-versioning poetry-dynamic-versioning"
).split()
TEST_PACKAGES: Final = (
    "pytest pytest-asyncio pytest-mock pytest-cov pytest-xdist pytest-rerunfailures pytest-timeout freezegun docker"
).split()
OURS: Final = "mcp mcp-types fastmcp fastmcp-slim pydantic pydantic-core typing-extensions typing-inspection starlette"
LEFT_OUT: Final = frozenset(OURS.split()) | {"uvicorn", "anyio"}  # Not those versions that the SDK had chosen.
LIMIT: Final = 60.0
HEADS: Final = "server, SDK, passed before, of these after, marks, tools, marked differences, unmarked".split(", ")


@dataclass(frozen=True)
class Server:
    """One server of servers.toml, and its folders below the folder of work."""

    row: Mapping[str, Any]
    work: Path

    @property
    def name(self) -> str:
        """The name and version, as files of the package index have it."""
        return re.sub(r"[-.]+(?=.*==)", "_", str(self.row["package"])).replace("==", "-")

    @property
    def source(self) -> Path:
        """The source as its author released it."""
        return self.work / "src" / self.name

    def copy(self, goal: str) -> Path:
        """Return the source after its migration."""
        return self.work / "after" / goal / self.name

    def python(self, kind: str) -> Path:
        """Return the program of the environment `before` or `after`."""
        return self.work / "env" / f"{self.name}-{kind}" / "bin" / "python"

    def result(self, kind: str, suffix: str) -> Path:
        """Return the file of a result: of `before`, `compat` or `app`."""
        return self.work / "results" / f"{self.name}-{kind}.{suffix}"


def run(*words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, check: bool = True) -> str:
    """Run a program and return its output. Raises SystemExit with the end of its errors if it fails."""
    environment = None if env is None else {**os.environ, **env}
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


# ---- sources and environments ----------------------------------------------------------------------------------------


def fetch(servers: Sequence[Server], work: Path) -> None:
    """Download and unpack the sources that are not there."""
    missing = [server for server in servers if not server.source.is_dir()]
    if not missing:
        return
    python = work / "fetching" / "bin" / "python"
    if not python.exists():
        run(UV, "venv", "-q", "--seed", work / "fetching")
        run(UV, "pip", "install", "-q", "--python", python, "pip", *BACKENDS)
    for server in missing:
        folder = work / "sdist"
        options = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-q", "-d", folder)
        run(python, "-m", "pip", "download", *options, server.row["package"])
        with tarfile.open(folder / f"{server.name}.tar.gz") as archive:
            archive.extractall(server.source.parent, filter="data")


def environments(server: Server) -> None:
    """Make the environment with the SDK, and the one with this checkout and the same other packages."""
    before, after = server.python("before"), server.python("after")
    if not before.exists():
        run(UV, "venv", "-q", "--seed", before.parent.parent)
        own = ["-e", server.source, *TEST_PACKAGES, *server.row.get("before", ())]
        run(UV, "pip", "install", "-q", "--python", before, *own)
    if not after.exists():
        run(UV, "venv", "-q", "--seed", after.parent.parent)
        frozen = run(UV, "pip", "freeze", "--python", before, "--exclude-editable").splitlines()
        kept = [line for line in frozen if line.partition("==")[0].lower() not in LEFT_OUT and " @ " not in line]
        run(UV, "pip", "install", "-q", "--python", after, "--no-deps", *kept)
        run(
            UV, "pip", "install", "-q", "--python", after, "-e", f"{ROOT}[app,cli,compat,http]", "-e", ROOT / "products"
        )
        run(UV, "pip", "install", "-q", "--python", after, "--no-deps", "-e", server.source)


def migrate(server: Server, goal: str) -> None:
    """Migrate a fresh copy of the source, and keep the report."""
    copy = server.copy(goal)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(server.source, copy)
    command = (sys.executable, "-m", "mcp_codegen", "migrate", copy, "--write", "--force", "--json", "--to", goal)
    server.result(goal, "report.json").write_text(run(*command), encoding="utf-8")


# ---- tests and conversations -----------------------------------------------------------------------------------------


def variables(server: Server, kind: str, folder: Path) -> dict[str, str]:
    """Return the environment of a process of a server."""
    programs = server.python("before" if kind == "before" else "after").parent
    paths = os.pathsep.join(map(str, (folder / "src", folder)))
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": paths}


def test(server: Server, kind: str) -> None:
    """Run the server's own tests, and keep their results."""
    folder = server.source if kind == "before" else server.copy(kind)
    tests = server.row.get("tests", "tests" if (folder / "tests").is_dir() else ".")
    if not tests:
        return
    python = server.python("before" if kind == "before" else "after")
    options = "-q --continue-on-collection-errors -p no:cacheprovider --maxfail=10000".split()
    options += ["--timeout", str(server.row.get("limit_of_app", 60) if kind == "app" else 60)]
    results = server.result(kind, "xml")
    command = (python, "-m", "pytest", *options, f"--junitxml={results}", tests)
    output = run(*command, cwd=folder, env=variables(server, kind, folder), check=False)
    server.result(kind, "txt").write_text(output, encoding="utf-8")


def converse(server: Server, kind: str, environment: Mapping[str, str]) -> None:
    """Start the server, and keep its list of tools and what it answers to three calls."""
    folder = server.source if kind == "before" else server.copy(kind)
    empty = server.work / "empty" / f"{server.name}-{kind}"
    shutil.rmtree(empty, ignore_errors=True)
    empty.mkdir(parents=True)
    lines: list[dict[str, Any]] = [{"id": 2, "method": "tools/list", "params": {}}]
    for number, (tool, arguments) in enumerate(server.row["calls"]):
        parameters = {"name": tool, "arguments": json.loads(arguments)}
        lines.append({"id": 3 + number, "method": "tools/call", "params": parameters})
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "measure", "version": "1"}}
    python = server.python("before" if kind == "before" else "after")
    process = subprocess.Popen(
        [python, *server.row["run"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=server.result(kind, "stderr").open("w"),
        text=True,
        cwd=empty,
        env={**os.environ, **environment, **variables(server, kind, folder)},
    )
    answers: dict[str, Any] = {}
    with ThreadPoolExecutor() as reader:
        try:
            answers["initialize"] = ask(process, reader, {"id": 1, "method": "initialize", "params": hello})
            send(process, {"method": "notifications/initialized"})
            for line in lines:
                answers[f"{line['method']} {line['id']}"] = answer = ask(process, reader, line)
                if line["method"] == "tools/list":
                    answer["tools"] += further_pages(process, reader, answer)
        except (OSError, TimeoutError, EOFError) as error:
            answers["ended"] = type(error).__name__
        finally:
            process.kill()
    process.wait()
    server.result(kind, "answers.json").write_text(json.dumps(answers, indent=1), encoding="utf-8")


def further_pages(
    process: subprocess.Popen[str], reader: ThreadPoolExecutor, page: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the tools of the pages after the first one."""
    tools: list[dict[str, Any]] = []
    while page.get("nextCursor"):
        request = {"id": 100 + len(tools), "method": "tools/list", "params": {"cursor": page["nextCursor"]}}
        page = ask(process, reader, request)
        tools += page["tools"]
    return tools


def send(process: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
    """Write one message."""
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def ask(process: subprocess.Popen[str], reader: ThreadPoolExecutor, message: Mapping[str, Any]) -> Any:
    """Send a request and return its result or error. Raises TimeoutError, and EOFError if the process has ended."""
    assert process.stdout is not None
    send(process, message)
    while True:
        line = reader.submit(process.stdout.readline).result(LIMIT)
        if not line:
            raise EOFError
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if answer.get("id") == message["id"] and "method" not in answer:
            return answer.get("result", answer.get("error"))


# ---- comparison ------------------------------------------------------------------------------------------------------


def passed(path: Path) -> set[str]:
    """Return the tests that passed."""
    if not path.is_file():
        return set()
    bad = {"failure", "error", "skipped", "rerun"}
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        is_bad = not bad.isdisjoint(child.tag for child in case)
        found[is_bad].add(f"{case.get('classname')}::{case.get('name')}")
    return found[False] - found[True]


def same_meaning(value: Any) -> Any:
    """Return a value without what means the same as its absence: `additionalProperties: true`, `isError: false`."""
    absent = (("additionalProperties", True), ("isError", False))
    if is_object(value):
        return {key: same_meaning(item) for key, item in value.items() if (key, item) not in absent}
    return [same_meaning(item) for item in value] if is_list(value) else value


@dataclass(frozen=True)
class Difference:
    """A place that a client sees otherwise, such as `tools/add/inputSchema/title`, and what is there afterwards."""

    where: str
    after: Any


def flat(where: str, before: Any, after: Any) -> Iterator[Difference]:
    """Yield the innermost places in which two values differ."""
    if before == after:
        return
    if is_object(before) and is_object(after):
        for key in sorted(before.keys() | after.keys()):
            yield from flat(f"{where}/{key}", before.get(key), after.get(key))
    elif is_list(before) and is_list(after) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from flat(f"{where}/{index}", old, new)
    else:
        yield Difference(where, after)


def is_error(answer: Any) -> bool:
    """Return True for an error of the protocol, and for the result of a call that has failed."""
    return not is_object(answer) or "content" not in answer or bool(answer.get("isError"))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return what a client sees otherwise in the list of tools, and in the answers to calls."""
    if "tools/list 2" not in after:
        return [Difference("start", after.get("ended"))]
    old, new = ({tool["name"]: tool for tool in kind["tools/list 2"]["tools"]} for kind in (before, after))
    found = list(flat("tools", same_meaning(old), same_meaning(new)))
    for number, name in enumerate([name for name in before if name.startswith("tools/call")], 1):
        answers = same_meaning(before[name]), same_meaning(after.get(name))
        failed = is_error(answers[0]), is_error(answers[1])
        kind = {(True, True): "other error", (False, True): "refused", (True, False): "accepted"}.get(failed)
        if kind is None:
            found += flat(f"call {number}", *answers)
        elif answers[0] != answers[1]:
            found.append(Difference(f"call {number}/{kind}", answers[1]))
    return found


def is_told(difference: Difference, marks: Sequence[str], told: Sequence[Mapping[str, str]]) -> bool:
    """Return True if the report of the migration has a mark that tells of a difference, by the rows of servers.toml."""
    return any(
        fnmatchcase(difference.where, row["where"])
        and re.search(row.get("after", ""), json.dumps(difference.after)) is not None
        and any(row["mark"] in mark for mark in marks)
        for row in told
    )


def row_of(server: Server, goal: str, told: Sequence[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """Return the row of a server, and what it has lost: tests, and differences without a mark."""
    old = passed(server.result("before", "xml"))
    lost = sorted(old - passed(server.result(goal, "xml")))
    report = json.loads(server.result(goal, "report.json").read_text(encoding="utf-8"))
    marks = [mark["reason"] for file in report["files"] for mark in file["marks"]]
    before, after = (
        json.loads(server.result(kind, "answers.json").read_text(encoding="utf-8")) for kind in ("before", goal)
    )
    package = str(server.row["package"]).replace("==", " ")
    tests = [str(len(old)), str(len(old) - len(lost))] if old else ["none", ""]
    cells = [package, server.row["sdk"], *tests, str(report["counts"]["marks"])]
    if "tools/list 2" not in before:
        return [*cells, "does not start here", "", ""], [f"test {name}" for name in lost]
    found = differences(before, after)
    unmarked = [item for item in found if not is_told(item, marks, told)]
    tools = str(len(before["tools/list 2"]["tools"])) if "tools/list 2" in after else "does not start"
    names = [f"test {name}" for name in lost] + [f"unmarked {item.where}" for item in unmarked]
    return [*cells, tools, str(len(found) - len(unmarked)), str(len(unmarked))], names


def measure(server: Server, goals: Sequence[str], environment: Mapping[str, str], again: bool) -> None:
    """Measure what is missing of a server."""
    environments(server)
    for kind in ("before", *goals):
        renewed = again and kind != "before"
        if kind != "before" and (renewed or not server.copy(kind).is_dir()):
            migrate(server, kind)
            renewed = True
        if renewed or not server.result(kind, "answers.json").is_file():
            converse(server, kind, environment)
        if renewed or not server.result(kind, "txt").is_file():
            test(server, kind)


def main() -> None:
    """Measure, print each row, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "migrations")
    parser.add_argument("--to", action="append", choices=["compat", "app"], dest="goals")
    parser.add_argument("--only", action="append", default=[], help="servers whose name has this text")
    parser.add_argument("--jobs", type=int, default=1, help="how many servers are measured at once")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    table = tomllib.loads((FOLDER / "servers.toml").read_text(encoding="utf-8"))
    work, goals = options.work.resolve(), options.goals or ["compat", "app"]
    for folder in ("src", "sdist", "env", "results"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    every = [Server(row, work) for row in table["server"]]
    servers = [server for server in every if not options.only or any(text in server.name for text in options.only)]
    fetch(servers, work)
    rows: dict[str, list[list[str]]] = {goal: [] for goal in goals}
    with ThreadPoolExecutor(options.jobs) as pool:
        measured = [pool.submit(measure, server, goals, table["environment"], options.again) for server in servers]
        for server, done in zip(servers, measured, strict=True):
            done.result()
            for goal in goals:
                row, lost = row_of(server, goal, table["told"])
                rows[goal].append(row)
                print(goal, *row, *(f"\n    lost: {name}" for name in lost), sep="  ", flush=True)
    if len(servers) == len(every) and len(goals) > 1:
        RESULTS.write_text(written(rows), encoding="utf-8")


def total(table: Sequence[Sequence[str]], column: int) -> int:
    """Return the sum of a column."""
    return sum(int(row[column] or 0) for row in table)


def written(rows: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """Return the page of results."""
    parts = [
        "# Fifteen servers, migrated\n\n"
        f"Measured on {date.today().isoformat()} with `python benchmarks/migrations/measure.py`, without a network."
        " Nothing was changed by hand.\n"
    ]
    for goal, table in rows.items():
        tested = [row for row in table if row[2] != "none"]
        whole = sum(row[2] == row[3] for row in tested)
        parts.append(
            f"\n## --to {goal}\n\nEvery test that passed before passes in {whole} of {len(tested)} servers."
            f" Differences that a client sees: {total(table, -2)} with a mark, {total(table, -1)} without.\n\n"
        )
        parts += [f"| {' | '.join(row)} |\n" for row in (HEADS, ["---"] * len(HEADS), *table)]
    return "".join(parts)


if __name__ == "__main__":
    main()
