"""The times of `mcp-codegen --all`: with an empty cache, a changed template, and a full cache; and those of its stages;
prints tables, and writes benchmarks/results/generator.md.

CPU time of the process and its children, because a busy machine does not change it much, and the elapsed time, which it
does. The smallest of `--runs` counts. `--stages` prints the stages of one generation in one process as JSON; with
another checkout on PYTHONPATH, those of its generator.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measures.machine import measured
from measures.rounds import TABLE, write_results

from mcp_codegen.paths import data_path

RESULTS = TABLE.with_name("generator.md")
REMARK = """The aim is three seconds of CPU for an empty cache, and half a second for `--check`."""
# The functions of the stages: module, class or none, and name. What a checkout does not have is left out.
STAGES = {
    "reading of the schemas": [("mcp_codegen.catalog", "SchemaCatalog", "derive")],
    "datamodel-code-generator": [("datamodel_code_generator", "", "generate")],
    "templates": [("jinja2", "Template", "render")],
    "check of the types": [("mcp_codegen.render.package", "", "verify_types_module")],
    "imports and layout": [("mcp_codegen.render.source", "", "_formatted")],
}
Seconds = tuple[float, float]


def seconds(arguments: list[str], cache: Path) -> Seconds:
    """Return the CPU time and the elapsed time of one run of the command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "MCP_CODEGEN_CACHE": str(cache)}
    subprocess.run([sys.executable, "-m", "mcp_codegen", *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used, time.monotonic() - start


def least(times: list[Seconds]) -> Seconds:
    """Return the smallest CPU time and the smallest elapsed time."""
    return min(used for used, _ in times), min(elapsed for _, elapsed in times)


def rows(folder: Path, runs: int) -> list[tuple[str, Seconds]]:
    """Return the times of each case."""
    output, cache, overrides = folder / "bindings", folder / "cache", folder / "templates"
    overrides.mkdir(parents=True)
    write = ["--all", "--output", str(output)]
    cold: list[Seconds] = []
    for _ in range(runs):
        shutil.rmtree(cache, ignore_errors=True)
        cold.append(seconds(write, cache))
    check = least([seconds([*write, "--check"], cache) for _ in range(runs)])
    full = least([seconds(write, cache) for _ in range(runs)])
    name = "server.py.jinja2"
    text = (data_path("templates") / name).read_text(encoding="utf-8")
    changed: list[Seconds] = []
    for number in range(runs):
        (overrides / name).write_text(f"{text}\n# {number}\n", encoding="utf-8")
        changed.append(seconds([*write, "--templates", str(overrides)], cache))
    shutil.rmtree(cache)
    return [
        ("`--all`, empty cache", least(cold)),
        ("`--all`, one changed template", least(changed)),
        ("`--all`, nothing changed", full),
        ("`--all --check`, nothing changed", check),
    ]


def used_here() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


class Stages:
    """Measures the CPU time of functions, each without that of the others inside it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._open: list[float] = []

    def measure(self, stage: str, owner: Any, name: str) -> None:
        """Measure the calls of a function. What datamodel-code-generator calls belongs to it."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def measured_function(*arguments: Any, **keywords: Any) -> Any:
            if self._open and stage == "templates" and self._in_tool:
                return function(*arguments, **keywords)
            self._in_tool = stage == "datamodel-code-generator"
            start = used_here()
            self._open.append(0.0)
            try:
                return function(*arguments, **keywords)
            finally:
                used = used_here() - start
                self.seconds[stage] += used - self._open.pop()
                self._in_tool = False
                if self._open:
                    self._open[-1] += used

        setattr(owner, name, measured_function)

    _in_tool = False


def stages() -> dict[str, float]:
    """Return the CPU time of the stages of a generation without a cache, in this process."""
    os.environ["MCP_CODEGEN_CACHE"] = "off"
    began = used_here()
    from mcp_codegen.catalog import SchemaCatalog
    from mcp_codegen.generate import generate

    counted = Stages()
    for stage, functions in STAGES.items():
        for module_name, class_name, name in functions:
            try:
                module: Any = importlib.import_module(module_name)
            except ModuleNotFoundError:
                continue
            owner = getattr(module, class_name) if class_name else module
            if hasattr(owner, name):
                counted.measure(stage, owner, name)
    schemas = SchemaCatalog(data_path("schema"))
    loaded = used_here()
    generate(schemas, (data_path("templates"),), Path(tempfile.gettempdir()) / "stages", list(schemas.pins))
    whole = used_here() - loaded
    rest = whole - sum(counted.seconds.values())
    return {"start": loaded - began, **{stage: counted.seconds[stage] for stage in STAGES}, "the rest": rest}


def stages_of(paths: str | None) -> dict[str, float]:
    """Return the stages of the generator on these paths, from a process of its own."""
    environment = {**os.environ, "PYTHONPATH": paths} if paths else dict(os.environ)
    command = [sys.executable, __file__, "--stages"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    values: dict[str, float] = json.loads(done.stdout)
    return values


def least_stages(paths: str | None, runs: int) -> dict[str, float]:
    """Return the smallest time of each stage, and their sum."""
    measured_runs = [stages_of(paths) for _ in range(runs)]
    values = {stage: min(values[stage] for values in measured_runs) for stage in measured_runs[0]}
    return {**values, "sum": sum(values.values())}


def stage_table(before: str | None, runs: int) -> str:
    """Return the table of the stages, with those of an older checkout if its path is named."""
    now = least_stages(None, runs)
    old = {}
    if before is not None:
        old = least_stages(
            os.pathsep.join(f"{before}/{folder}" for folder in ("runtime", "products", "codegen", "generated")), runs
        )
    heads = ["stage", *(["before"] if old else []), "now"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for stage, value in now.items():
        cells = [stage, *([f"{old[stage]:.2f}"] if old else []), f"{value:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stages", action="store_true", help="print the stages of this generator as JSON")
    parser.add_argument("--before", help="an older checkout, whose stages are compared")
    options = parser.parse_args()
    if options.stages:
        print(json.dumps(stages()))
        return
    with tempfile.TemporaryDirectory() as name:
        times = rows(Path(name), options.runs)
    lines = [f"| {case} | {used:.2f} | {elapsed:.2f} |" for case, (used, elapsed) in times]
    table = "\n".join(["| case | seconds of CPU | seconds |", "|---|---|---|", *lines])
    caption = (
        f"Times of `mcp-codegen --all`, the least of {options.runs} runs; Python {platform.python_version()}.\n"
        f"{measured()}"
    )
    parts = [caption, table, REMARK, "Seconds of CPU of the stages of an empty cache, in one process:"]
    text = "\n\n".join([*parts, stage_table(options.before, options.runs)])
    print(text)
    write_results(RESULTS, f"# Times of the generator\n\n{text}\n")


if __name__ == "__main__":
    main()
