"""The CPU time of `mcp-codegen --all`: with an empty cache, a changed template, and a full cache; prints a table,
and writes benchmarks/results/generator.md.

CPU time of the process and its children, because a busy machine does not change it. The smallest of `--runs` counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measures.machine import measured
from measures.rounds import TABLE, write_results

from mcp_codegen.paths import data_path

RESULTS = TABLE.with_name("generator.md")
REMARK = """An empty cache takes more than the two seconds that were the aim: datamodel-code-generator and black
take all but one of them, in one process."""


def seconds(arguments: list[str], cache: Path) -> float:
    """Return the CPU time of one run of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "MCP_CODEGEN_CACHE": str(cache)}
    subprocess.run([sys.executable, "-m", "mcp_codegen", *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def rows(folder: Path, runs: int) -> list[tuple[str, float]]:
    """Return the time of each case."""
    output, cache, overrides = folder / "bindings", folder / "cache", folder / "templates"
    overrides.mkdir(parents=True)
    write = ["--all", "--output", str(output)]
    cold = seconds(write, cache)
    check = min(seconds([*write, "--check"], cache) for _ in range(runs))
    full = min(seconds(write, cache) for _ in range(runs))
    name = "server.py.jinja2"
    text = (data_path("templates") / name).read_text(encoding="utf-8")
    changed: list[float] = []
    for number in range(runs):
        (overrides / name).write_text(f"{text}\n# {number}\n", encoding="utf-8")
        changed.append(seconds([*write, "--templates", str(overrides)], cache))
    shutil.rmtree(cache)
    return [
        ("`--all`, empty cache", cold),
        ("`--all`, one changed template", min(changed)),
        ("`--all`, nothing changed", full),
        ("`--all --check`, nothing changed", check),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        times = rows(Path(name), runs)
    table = "\n".join(["| case | seconds of CPU |", "|---|---|", *(f"| {case} | {time:.2f} |" for case, time in times)])
    caption = (
        f"CPU time of `mcp-codegen --all`, the least of {runs} runs; Python {platform.python_version()}.\n{measured()}"
    )
    print(f"{caption}\n\n{table}")
    write_results(RESULTS, f"# Times of the generator\n\n{caption}\n\n{table}\n\n{REMARK}\n")


if __name__ == "__main__":
    main()
