"""The output is the same for every hash seed, locale, time zone and number of processors, with and without a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.project import ROOT

from mcp_codegen import generate
from mcp_codegen.cache import VARIABLE
from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.helper_process import HelperProcess
from mcp_codegen.paths import data_path

REVISIONS = ("2024-11-05", "2025-03-26")
PROGRAM = (
    "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from mcp_codegen.entry import main; main()"
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


@pytest.mark.long
def test_the_output_depends_on_nothing_but_the_input(tmp_path: Path) -> None:
    outputs: list[dict[str, bytes]] = []
    for number, place in enumerate(PLACES):
        folder, cache = tmp_path / str(number) / "bindings", tmp_path / f"cache {number}"
        assert "written to" in run(place, cache, "--output", folder)
        outputs.append(tree(folder))
        for other in PLACES:  # With a full cache.
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


@pytest.mark.parametrize("command", ["raise SystemExit(3)", "import sys; sys.stdin.read(); sys.exit('no')"])
def test_a_second_process_that_fails_has_no_answer(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = HelperProcess("a", {"revisions": ["a" * 1_000_000]})
    monkeypatch.setattr(helper, "_command", [sys.executable, "-c", command])
    with helper:
        assert helper.answer() is None


def test_a_second_process_that_cannot_start_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = HelperProcess("a", {})
    monkeypatch.setattr(helper, "_command", ["/nonexistent/python"])
    with helper:
        assert helper.answer() is None


def test_without_an_answer_everything_is_rendered_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []

    def texts_of(_: Any, __: Any, output: Path, revisions: list[str], progress: Any) -> dict[Path, str]:
        rendered.extend(revisions)
        return {output / revision / "one.py": "x=1\n" for revision in revisions}

    monkeypatch.setattr(generate, "_texts_of", texts_of)
    monkeypatch.setattr(generate, "processors", lambda: 2)
    monkeypatch.setattr(HelperProcess, "answer", lambda _: None)
    schemas, done = SchemaCatalog(data_path("schema")), list[str]()
    files = generate.generate(schemas, (data_path("templates"),), tmp_path, REVISIONS, done.append, parallel=True)
    assert rendered == [REVISIONS[1], REVISIONS[0]] and done == [REVISIONS[0]]
    assert all(files[tmp_path / revision / "one.py"] == "x = 1\n" for revision in REVISIONS)
    assert list(files) == sorted(files)


def test_an_error_while_a_second_process_works_ends_it() -> None:
    with pytest.raises(KeyError), HelperProcess("mcp_codegen.generate", {}) as helper:
        process = helper._process
        raise KeyError
    assert process is not None and process.poll() is not None
