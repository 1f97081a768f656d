"""Time and memory for importing the types of one version, compared with `mcp_types` of the official SDK.

    python benchmarks/imports.py [--runs 15]

Each value comes from a fresh interpreter with compiled bytecode. Candidates alternate, so that a slow phase of the
machine affects all of them. A ratio is ours to the SDK's after subtraction of bare pydantic (`import pydantic` with
`BaseModel`), and in the columns «over a model» after subtraction of pydantic with one model, because what pydantic
loads for its first model is the same on both sides. The table is also written to benchmarks/results/imports.md.
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from measures.machine import measured
from measures.rounds import Rounds, write_results
from peers import environment
from rich.console import Console
from rich.table import Table

import mcp_generated
import mcp_runtime
from mcp_generated import REVISIONS

SDK = "mcp-types==2.3.0"
RESULTS = Path(__file__).resolve().parent / "results" / "imports.md"
PROBE = """
import time
import resource
start, cpu = time.perf_counter(), time.process_time()
{statement}
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
print(wall * 1e3, cpu * 1e3, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
BASE = "import pydantic; pydantic.BaseModel"
MODEL = f"{BASE}; pydantic.create_model('M', x=(int, 0))"


@dataclass(frozen=True)
class Candidate:
    """An import statement, and the interpreter that runs it."""

    name: str
    python: Path
    statement: str


@dataclass(frozen=True)
class Cost:
    """Medians: wall and CPU time in milliseconds, and peak resident memory in MiB."""

    wall: float
    cpu: float
    memory: float

    def over(self, base: Cost) -> Cost:
        return Cost(self.wall - base.wall, self.cpu - base.cpu, self.memory - base.memory)


def measure(candidates: list[Candidate], counted: Rounds) -> dict[str, Cost]:
    """Run the candidates in turn; round 0 does not count."""
    samples: dict[str, list[list[float]]] = {candidate.name: [] for candidate in candidates}
    for number in counted:
        for candidate in candidates:
            command = [candidate.python, "-c", PROBE.format(statement=candidate.statement)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            if number:
                samples[candidate.name].append([float(part) for part in done.stdout.split()])
    return {name: Cost(*map(statistics.median, zip(*rows, strict=True))) for name, rows in samples.items()}


def rows(candidates: list[Candidate], costs: dict[str, Cost]) -> list[list[str]]:
    table: list[list[str]] = []
    for candidate in candidates:
        cost = costs[candidate.name]
        shown = [""] * 4
        if candidate.statement not in (BASE, MODEL):
            shown = []
            for base in ("pydantic", "pydantic, a model"):
                ours, theirs = cost.over(costs[base]), costs["mcp_types"].over(costs[base])
                shown += [f"{ours.cpu / theirs.cpu:.2f}", f"{ours.memory / theirs.memory:.2f}"]
        table.append([candidate.name, f"{cost.wall:.0f}", f"{cost.cpu:.0f}", f"{cost.memory:.1f}", *shown])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--seconds", type=float, help="begin no round that would end later; one is always measured")
    options = parser.parse_args()
    sdk, ours = environment("mcp-types", SDK), Path(sys.executable)
    for folder in (Path(mcp_generated.__file__).parent, Path(mcp_runtime.__file__).parent):
        compileall.compile_dir(folder, quiet=1)  # As pip does for installed packages.
    candidates = [Candidate("pydantic", ours, BASE), Candidate("pydantic, a model", ours, MODEL)]
    for revision, module in REVISIONS.items():
        statement = f"{BASE}; import mcp_generated.{module}.types"
        candidates.append(Candidate(f"types of {revision}", ours, statement))
    for revision in list(REVISIONS)[-2:]:  # Types are loaded when they are used; mcp_types has loaded all.
        used = f"import mcp_generated.{REVISIONS[revision]}.types as t; [getattr(t, name) for name in dir(t)]"
        candidates.append(Candidate(f"all types of {revision}", ours, f"{BASE}; {used}"))
    candidates.append(Candidate("mcp_types", sdk, f"{BASE}; import mcp_types"))
    counted = Rounds(options.runs, options.seconds)
    table = rows(candidates, measure(candidates, counted))
    headers = ["import", "wall ms", "cpu ms", "MiB", "cpu", "MiB", "cpu over a model", "MiB over a model"]
    python = sys.version.split()[0]
    versions = f"Python {python}, pydantic {version('pydantic')}, {SDK}"
    caption = f"Medians of {counted.counted} runs; {versions}; ratios over pydantic\n{measured()}"
    shown = Table(*headers, caption=caption, box=None)
    for row in table:
        shown.add_row(*row)
    Console().print(shown)
    lines = [headers, ["---"] * len(headers), *table]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    write_results(RESULTS, f"# Import cost\n\n{caption}\n\n{text}\n")


if __name__ == "__main__":
    main()
