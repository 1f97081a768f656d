"""The output is the same for every hash seed, locale, time zone and number of processors, with and without a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import ROOT

from mcp_codegen.cache import VARIABLE

REVISIONS = ("2024-11-05", "2025-03-26")
PROGRAM = (
    "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from mcp_codegen.__main__ import main; main()"
)
PLACES: list[tuple[dict[str, str], list[str]]] = [
    ({"PYTHONHASHSEED": "1", "LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Asia/Kathmandu"}, ["-m", "mcp_codegen"]),
    (
        {"PYTHONHASHSEED": "2", "LC_ALL": "tr_TR.UTF-8", "PYTHONOPTIMIZE": "1"},
        ["-c", PROGRAM] if sys.platform == "linux" else ["-m", "mcp_codegen"],
    ),
]


def run(place: tuple[dict[str, str], list[str]], cache: Path, *arguments: str | Path) -> str:
    """Run `mcp-codegen` for the revisions, and return what it prints."""
    environment, command = place
    words = [word for name in REVISIONS for word in ("--revision", name)]
    done = subprocess.run(
        [sys.executable, *command, *words, *map(str, arguments)],
        env={**os.environ, VARIABLE: str(cache), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.exhaustive
def test_the_output_depends_on_nothing_but_the_input(tmp_path: Path) -> None:
    outputs: list[dict[str, bytes]] = []
    for number, place in enumerate(PLACES):
        folder, cache = tmp_path / str(number) / "bindings", tmp_path / f"cache {number}"
        assert "written to" in run(place, cache, "--output", folder)
        outputs.append(tree(folder))
        other = PLACES[1 - number]  # With a full cache.
        assert "all up to date" in run(other, cache, "--output", folder, "--check")
        stored = sorted(path.name for path in cache.rglob("*"))
        shutil.rmtree(cache / "output")  # The parts are stored on their own, under the same names.
        assert "all up to date" in run(
            ({**place[0], "PYTHONHASHSEED": "3"}, place[1]), cache, "--output", folder, "--check"
        )
        assert sorted(path.name for path in cache.rglob("*")) == stored
    assert outputs[0] == outputs[1]
    for module in ("v2024_11_05", "v2025_03_26"):
        committed = tree(ROOT / "generated" / "mcp_generated" / module)
        assert len(committed) > 5
        assert {name: outputs[0][f"{module}/{name}"] for name in committed} == committed
