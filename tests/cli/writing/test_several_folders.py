"""Several folders change in one step: whatever ends it, all are the old ones or all are the new ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_codegen import output
from mcp_codegen.errors import OutputError
from mcp_codegen.output import write_folders

NAMES = ("one", "two", "three")
# Stops before the given exchange of two folders, until it is killed.
PROGRAM = """
import sys, time
from pathlib import Path
from mcp_codegen import output
parent, number = Path(sys.argv[1]), int(sys.argv[2])
exchange, calls = output._exchange, []
def stopping(*arguments):
    if len(calls) == number:
        print("there", flush=True)
        sys.stdin.read()
    calls.append(1)
    exchange(*arguments)
output._exchange = stopping
folders = {parent / name: {parent / name / "a.txt": "new"} for name in ("one", "two", "three")}
output.write_folders(folders, [parent / "one" / "gone", parent / "two" / "gone.txt"])
print("there", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """Two folders; the third does not exist yet."""
    for name, file in (("one", "a.txt"), ("one", "gone/b.txt"), ("two", "a.txt"), ("two", "gone.txt"), ("two", "mine")):
        (tmp_path / "parent" / name / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "parent" / name / file).write_text("old")
    return tmp_path / "parent"


def contents(parent: Path) -> dict[str, str]:
    return {path.relative_to(parent).as_posix(): path.read_text() for path in parent.rglob("*") if path.is_file()}


OLD = {"one/a.txt": "old", "one/gone/b.txt": "old", "two/a.txt": "old", "two/gone.txt": "old", "two/mine": "old"}
NEW = {"one/a.txt": "new", "two/a.txt": "new", "two/mine": "old", "three/a.txt": "new"}


def write(parent: Path) -> list[Path]:
    folders = {parent / name: {parent / name / "a.txt": "new"} for name in NAMES}
    return write_folders(folders, [parent / "one" / "gone", parent / "two" / "gone.txt", parent / "one" / "absent"])


def test_what_is_new_is_there_and_what_is_removed_is_not(parent: Path) -> None:
    assert sorted(write(parent)) == sorted(parent / name / "a.txt" for name in NAMES)
    assert contents(parent) == NEW and sorted(path.name for path in parent.iterdir()) == sorted(NAMES)


def test_folders_that_only_lose_something_change_too(parent: Path) -> None:
    assert write_folders({parent / "one": {}}, [parent / "one" / "gone"]) == []
    assert not (parent / "one" / "gone").exists()


def raise_error() -> None:
    raise OSError(28, os.strerror(28))


def raise_interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", [raise_error, raise_interrupt])
@pytest.mark.parametrize("at_once", [True, False], ids=["exchanged", "renamed"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_is_raised_between_two_exchanges_takes_all_back(
    parent: Path, monkeypatch: pytest.MonkeyPatch, number: int, at_once: bool, end: Callable[[], None]
) -> None:
    exchange, calls = vars(output)["_exchange"], list[int]()

    def stopping(*arguments: Path) -> None:
        if len(calls) == number:
            end()
        calls.append(1)
        exchange(*arguments)

    monkeypatch.setattr(output, "_exchange", stopping)
    if not at_once:
        monkeypatch.setattr(output, "_exchange_names", lambda *_: False)
    with pytest.raises((OutputError, KeyboardInterrupt)):
        write(parent)
    assert contents(parent) == OLD and sorted(path.name for path in parent.iterdir()) == ["one", "two"]


@pytest.mark.skipif(sys.platform == "win32", reason="a process of Windows is not killed by a signal")
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_kill_between_two_exchanges_takes_all_back(parent: Path, number: int) -> None:
    command = [sys.executable, "-c", PROGRAM, str(parent), str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"there\n"
        process.send_signal(signal.SIGKILL)
        process.stdout.read()  # Ends once the process, and the one that removes the rest, have ended.
    while any(path.name.startswith(".") for path in parent.iterdir()):
        os.sched_yield()
    expected = NEW if number == 3 else OLD
    assert contents(parent) == expected
