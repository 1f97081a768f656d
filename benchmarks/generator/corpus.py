"""Import each state that schema/draft had in the specification's repository, and record what came of it.

MCP_SPECIFICATION names the repository, with its branches and pull requests (refs/pull/*). Each run continues the file
of verdicts (build/corpus.jsonl), for `--seconds` at most; `--table` prints the summary of the file as Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from mcp_codegen.catalog import Candidate, SchemaCatalog
from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.importer import import_revision
from mcp_codegen.paths import data_path
from mcp_codegen.reports.clarity import clarity_report
from mcp_codegen.update.trial import try_revision

VERDICTS = Path("build/corpus.jsonl")
FILES = ("schema.ts", "schema.json")
ID = "corpus"
MAX_TEXT = 500  # Characters of a traceback.


@dataclass(frozen=True)
class State:
    """Two files of one commit, by the names of their blobs."""

    commit: str
    typescript: str
    json: str


@dataclass(frozen=True)
class Verdict:
    """What came of one state: `talks`, `stops` by a rule, `fails` in the trial, or a `traceback`.

    `normalized` is the digest of the normalized schema, by which equal states have one verdict.
    """

    commit: str
    typescript: str
    json: str
    verdict: str
    rule: str = ""
    at: str = ""
    text: str = ""
    findings: int = 0
    normalized: str = ""


def git(repository: Path, *arguments: str, lines: str = "") -> bytes:
    """Return the output of a git command."""
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, input=lines.encode(), capture_output=True, check=True).stdout


def states(repository: Path) -> list[State]:
    """Return the distinct states of schema/draft in all branches and pull requests, oldest first."""
    touched = git(repository, "log", "--all", "--reverse", "--format=%H", "--", "schema/draft").decode().split()
    heads = git(repository, "for-each-ref", "--format=%(objectname)").decode().split()
    commits = list(dict.fromkeys([*touched, *heads]))
    queries = "".join(f"{commit}:schema/draft/{name}\n" for commit in commits for name in FILES)
    answers = git(repository, "cat-file", "--batch-check", lines=queries).decode().splitlines()
    distinct: dict[tuple[str, str], State] = {}
    for number, commit in enumerate(commits):
        typescript, schema = answers[2 * number : 2 * number + 2]
        if not typescript.endswith("missing") and not schema.endswith("missing"):
            blobs = typescript.split()[0], schema.split()[0]
            distinct.setdefault(blobs, State(commit, *blobs))
    return list(distinct.values())


def verdict_of(repository: Path, state: State, tried: dict[str, Verdict]) -> Verdict:
    """Import one state, and try its bindings unless an equal one was tried."""
    verdict = Verdict(state.commit, state.typescript, state.json, "talks")
    with tempfile.TemporaryDirectory() as name:
        for file, blob in zip(FILES, (state.typescript, state.json), strict=True):
            (Path(name) / file).write_bytes(git(repository, "cat-file", "blob", blob))
        try:
            root = data_path("schema")
            newest = next(reversed(SchemaCatalog(root).pins))
            result = import_revision(Path(name), ID, newest, state.commit)
            normalized = sha256(result.schema.encode()).hexdigest()
            if normalized in tried:
                same = tried[normalized]
                return replace(same, commit=state.commit, typescript=state.typescript, json=state.json)
            verdict = replace(verdict, normalized=normalized)
            catalog = SchemaCatalog(root, Candidate(result.pins, result.schema))
            findings, kind = clarity_report(catalog, ID).findings, "stops"
            if not findings:
                findings, kind = try_revision(catalog, ID, type_check=False), "fails"
        except CodegenError as error:
            findings, kind = error.findings, "stops"
        except Exception:
            lines = traceback.format_exc().strip().splitlines()
            return replace(verdict, verdict="traceback", text=" | ".join(lines[-3:])[:MAX_TEXT])
    if not findings:
        return verdict
    first = findings[0]
    return replace(verdict, verdict=kind, rule=first.rule, at=first.at, text=first.text[:2000], findings=len(findings))


def recorded(path: Path) -> Iterator[Verdict]:
    """Yield the verdicts of a file."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield Verdict(**json.loads(line))


def summary(verdicts: list[Verdict]) -> str:
    """Return the numbers of the verdicts as a Markdown table."""
    counts = Counter((verdict.verdict, verdict.rule) for verdict in verdicts)
    different = {
        key: len({v.normalized or v.typescript for v in verdicts if (v.verdict, v.rule) == key}) for key in counts
    }
    lines = ["| verdict | rule | states | different schemas |", "|---|---|---|---|"]
    for (kind, rule), count in sorted(counts.items(), key=lambda item: (item[0][0] != "talks", -item[1])):
        lines.append(f"| {kind} | {rule or '–'} | {count} | {different[kind, rule]} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=280.0, help="the time of one run")
    parser.add_argument("--verdicts", type=Path, default=VERDICTS, help="the file of verdicts")
    parser.add_argument("--again", default="", help="repeat the states with this verdict, such as fails")
    parser.add_argument("--table", action="store_true", help="print the summary and import nothing")
    arguments = parser.parse_args()
    verdicts = [verdict for verdict in recorded(arguments.verdicts) if verdict.verdict != arguments.again]
    if not arguments.table:
        repository = Path(os.environ["MCP_SPECIFICATION"])
        present = {(verdict.typescript, verdict.json) for verdict in verdicts}
        tried = {verdict.normalized: verdict for verdict in verdicts if verdict.normalized}
        end = time.monotonic() + arguments.seconds
        remaining = [state for state in states(repository) if (state.typescript, state.json) not in present]
        arguments.verdicts.parent.mkdir(parents=True, exist_ok=True)
        while remaining and time.monotonic() < end:
            verdict = verdict_of(repository, remaining.pop(0), tried)
            verdicts.append(verdict)
            tried |= {verdict.normalized: verdict} if verdict.normalized else {}
            lines = [json.dumps(asdict(item)) + "\n" for item in verdicts]
            arguments.verdicts.write_text("".join(lines), encoding="utf-8")
        print(f"{len(verdicts)} states, {len(remaining)} remaining\n")
    print(summary(verdicts))


if __name__ == "__main__":
    main()
