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

from mcp_codegen.cache import VARIABLE
from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.generate import generate
from mcp_codegen.helper_process import HelperProcess
from mcp_codegen.paths import data_path
from mcp_codegen.render import declarations

REVISIONS = ("2024-11-05", "2025-03-26")
PROGRAM = (
    "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from mcp_codegen.__main__ import main; main()"
)
# A second process that ends after a number of answers.
WRITER = """
import itertools, sys
from mcp_codegen.helper_process import answer_parent
from mcp_codegen.render.written_modules import WORK
number = itertools.count()
def ending(work):
    return lambda task: sys.exit(1) if next(number) >= {} else work(task)
answer_parent({{kind: ending(work) for kind, work in WORK.items()}})
"""
PRINTING = """
import sys
from mcp_codegen.helper_process import answer_parent
answer_parent({"same": str, "words": lambda task: sys.argv})
"""
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


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has no declarations yet, neither in its memory nor in its cache."""
    monkeypatch.setattr(declarations, "_texts", {})
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))


@pytest.mark.long
@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("answers", [0, 1, 100], ids=["fails", "ends after one", "answers"])
def test_what_a_second_process_does_not_write_is_written_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    written: list[str] = []
    write = declarations._written

    def counted(task: dict[str, Any]) -> str:
        written.append(task["revision"])
        return write(task)

    monkeypatch.setattr(declarations, "_written", counted)
    schemas, done = SchemaCatalog(data_path("schema")), list[str]()
    with HelperProcess("-c", WRITER.format(answers)) as helper:
        files = generate(schemas, (data_path("templates"),), tmp_path, REVISIONS, done.append, helper=helper)
    assert written == list(REVISIONS)[answers:] and done == list(REVISIONS)
    assert list(files) == sorted(files)
    for name in ("v2024_11_05", "v2025_03_26"):
        folder = ROOT / "generated" / "mcp_generated" / name
        assert {path: text for path, text in files.items() if path.is_relative_to(tmp_path / name)} == {
            tmp_path / name / path.relative_to(folder): path.read_text(encoding="utf-8")
            for path in folder.rglob("*.py")
        }


@pytest.mark.parametrize(
    "program", ["raise SystemExit(3)", "import sys; sys.stdin.readline(); sys.exit('no')", "print('1', end='')"]
)
def test_a_second_process_that_fails_has_no_answer(program: str) -> None:
    with HelperProcess("-c", program) as helper:
        helper.send("format", ["a" * 1_000_000])
        assert [helper.answer(), helper.answer()] == [None, None]


def test_a_second_process_that_cannot_start_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with HelperProcess("-c", "") as helper:
        helper.start()
        helper.send("format", ["a"])
        assert helper.answer() is None


def test_without_tasks_no_second_process_is_started() -> None:
    with HelperProcess("-c", PRINTING) as helper:
        helper.send("format", [])
        assert helper.answer() is None


def test_a_second_process_answers_tasks_of_several_kinds_that_are_larger_than_a_pipe() -> None:
    """Both processes write more than a pipe holds before either reads."""
    texts = [letter * 300_000 for letter in "abc"]
    with HelperProcess("-c", PRINTING) as helper:
        helper.start("argument")
        helper.send("same", texts)
        helper.send("words", [{}])
        assert [helper.answer() for _ in texts] == texts
        assert helper.answer() == ["-c", "argument"]


@pytest.mark.parametrize("tasks", [[], [{}], [{"a": "a" * 1_000_000}]], ids=["none", "one", "a long one"])
def test_an_error_while_a_second_process_works_ends_it(
    tasks: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    original = subprocess.Popen

    def start(*arguments: Any, **keywords: Any) -> Any:
        started.append(original(*arguments, **keywords))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyError), HelperProcess("-c", "import time; time.sleep(60)") as helper:
        helper.start()
        helper.send("format", tasks)
        raise KeyError
    assert [process.returncode is not None for process in started] == [True]
