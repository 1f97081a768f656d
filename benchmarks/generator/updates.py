"""Follow the specification's repository commit by commit, as a nightly `mcp-codegen update` does, and record what came.

MCP_SPECIFICATION names the repository. The commits are the last ones of its main branch that changed schema/draft. All
are followed in one copy of schema/ and of the package, which is kept in build/updates: after each, either the package
of the draft is imported, or nothing has changed and the report names the place. A run goes on where the last one
stopped, for `--seconds` at most; `--table` prints what is recorded as Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measures.machine import measured

from mcp_codegen.paths import CHECKOUT, source_of

HOME = CHECKOUT / "build" / "updates"
PROBE = "import bindings, bindings.vdraft as d; d.Client, d.Server, d.types, bindings.App; print('imported')"


@dataclass(frozen=True)
class Followed:
    """What came of one commit: `written`, `the same` as what stood there, or `stopped` by a rule at a place."""

    commit: str
    day: str
    subject: str
    outcome: str
    place: str
    seconds: float


def git(repository: Path, *arguments: str) -> str:
    """Return the output of a git command."""
    return subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=True, text=True).stdout


def commits(repository: Path, count: int) -> list[tuple[str, str, str]]:
    """Return the last commits that changed the draft, oldest first: their ids, days and subjects."""
    listed = git(repository, "log", "--first-parent", f"-{count}", "--format=%H\t%cs\t%s", "HEAD", "--", "schema/draft")
    return [tuple(line.split("\t", 2)) for line in reversed(listed.splitlines())]  # type: ignore[misc]


def digest() -> str:
    """Return the digest of the schemas and of the package."""
    files = sorted(path for path in HOME.rglob("*") if path.is_file() and path.suffix in (".py", ".json", ".toml"))
    return sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()


def follow(repository: Path, commit: str, day: str, subject: str) -> Followed:
    """Update to one commit, and check what the command has left."""
    before, start = digest(), time.monotonic()
    places = ["--schema", str(HOME / "schema"), "--output", str(HOME / "bindings"), "--report", str(HOME / "report.md")]
    command = [sys.executable, "-m", "mcp_codegen", "update", "--from", str(repository), "--ref", commit, *places]
    done = subprocess.run(command, capture_output=True, text=True)
    seconds, report = time.monotonic() - start, (HOME / "report.md").read_text(encoding="utf-8")
    same = digest() == before
    leftovers = [path.name for path in HOME.iterdir() if path.name.startswith(".")]
    if leftovers or done.returncode not in (0, 2) or (done.returncode == 2 and not same):
        raise SystemExit(f"{commit}: left {leftovers}, exit code {done.returncode}: {done.stderr[-2000:]}")
    if done.returncode == 2:
        rows = [line.split(" | ") for line in report.splitlines() if line.startswith("| ") and line.count(" | ") == 3]
        first = next(row for row in rows if row[0] != "| kind")
        return Followed(commit, day, subject, f"stopped: {first[1]}", first[2], round(seconds, 1))
    path = os.pathsep.join([str(HOME), *(str(source_of(name).parent) for name in ("mcp_runtime", "mcp_products"))])
    if (HOME / "schema" / "draft").is_dir():
        subprocess.run([sys.executable, "-c", PROBE], env={**os.environ, "PYTHONPATH": path}, check=True)
    summary = next((line for line in report.splitlines() if " → draft: " in line), "")
    return Followed(
        commit, day, subject, "the same" if same else "written", summary.partition(": ")[2], round(seconds, 1)
    )


def table(followed: list[Followed]) -> str:
    """Return what is recorded as a Markdown page."""
    written = sum(item.outcome == "written" for item in followed)
    lines = [
        "# Updates to the states of the draft",
        "",
        f"{measured()} Python {platform.python_version()}, by `python benchmarks/generator/updates.py`.",
        "",
        f"{len(followed)} commits of the specification's main branch that changed schema/draft, followed one after "
        f"another in one tree: {written} left a package that was generated, type-checked, held a conversation and was "
        "imported. After any other the tree was what it was before, and the report named the place.",
        "",
        "| commit | day | result | changes since 2026-07-28, or the place |",
        "|---|---|---|---|",
    ]
    for item in followed:
        place = item.place or "the draft is the release, and was removed"
        lines.append(f"| {item.commit[:8]} | {item.day} | {item.outcome} | {place} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="the number of commits")
    parser.add_argument("--seconds", type=float, default=220.0, help="the time of one run")
    parser.add_argument("--table", action="store_true", help="print what is recorded, and follow nothing")
    arguments = parser.parse_args()
    record = HOME.parent / "updates.jsonl"
    if not HOME.is_dir():
        HOME.mkdir(parents=True)
        record.unlink(missing_ok=True)
        shutil.copytree(CHECKOUT / "schema", HOME / "schema")
        shutil.copytree(CHECKOUT / "generated" / "mcp_generated", HOME / "bindings")
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    followed = [Followed(**json.loads(line)) for line in lines]
    if not arguments.table:
        repository, end = Path(os.environ["MCP_SPECIFICATION"]), time.monotonic() + arguments.seconds
        present = {item.commit for item in followed}
        for row in commits(repository, arguments.count):
            if row[0] not in present and time.monotonic() < end:
                followed.append(follow(repository, *row))
                text = "".join(json.dumps(asdict(item)) + "\n" for item in followed)
                record.write_text(text, encoding="utf-8")
                print(f"{len(followed)}: {followed[-1]}", file=sys.stderr)
    print(table(followed))


if __name__ == "__main__":
    main()
