"""Writing is a swap: whatever ends it, a folder is the old one or the new one, whole, and nothing is left beside it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.cli.endings import settle

from mcp_codegen import output
from mcp_codegen.errors import OutputError
from mcp_codegen.output import write_folder

COUNT = 40
OLD = {f"part{number % 4}/m{number}.txt": f"old {number}" for number in range(COUNT)}
NEW = {name: text.replace("old", "new") for name, text in OLD.items()}
PROGRAM = """
import sys
from pathlib import Path
from mcp_codegen.output import write_folder
folder = Path(sys.argv[1])
files = {folder / f"part{n % 4}/m{n}.txt": f"new {n}" for n in range(40)}
print("ready", flush=True)
write_folder(folder, files)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the old files, and one file of the user."""
    target = tmp_path / "parent" / "package"
    for name, text in (OLD | {"mine.txt": "mine"}).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text)
    return target


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def new_files(folder: Path) -> dict[Path, str]:
    return {folder / name: text for name, text in NEW.items()}


def is_whole(folder: Path) -> bool:
    """Whether the folder is the old one or the new one, with nothing beside it in its parent."""
    only_one = [path.name for path in folder.parent.iterdir()] == [folder.name]
    return only_one and contents(folder) in (OLD | {"mine.txt": "mine"}, NEW | {"mine.txt": "mine"})


def test_the_new_files_and_those_of_the_user_are_there(folder: Path) -> None:
    assert len(write_folder(folder, new_files(folder))) == COUNT
    assert contents(folder) == NEW | {"mine.txt": "mine"} and is_whole(folder)
    assert write_folder(folder, new_files(folder)) == []


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no locks there")
def test_of_two_that_write_at_the_same_time_none_loses_its_files(tmp_path: Path) -> None:
    target = tmp_path / "package"
    both = {name: {target / name / f"m{number}.txt": name for number in range(COUNT)} for name in ("one", "two")}
    for _ in range(3):
        target.mkdir()
        begun = threading.Barrier(len(both))

        def write(files: dict[Path, str], begun: threading.Barrier = begun) -> list[Path]:
            begun.wait()
            return write_folder(target, files)

        with ThreadPoolExecutor(len(both)) as pool:
            written = list(pool.map(write, both.values()))
        assert [len(paths) for paths in written] == [COUNT, COUNT]
        assert len(contents(target)) == 2 * COUNT
        shutil.rmtree(target)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
@pytest.mark.parametrize("mode", [0o755, 0o1777, 0o2770], ids=oct)
def test_the_folder_around_it_keeps_its_mode(folder: Path, mode: int) -> None:
    folder.parent.chmod(mode)
    (folder / "part0").chmod(0o555)  # What is in it can only be removed when that is changed.
    for files in (new_files(folder), {folder.parent / "other" / "a.txt": "new"}):
        write_folder(next(iter(files)).parent if len(files) == 1 else folder, files)
        assert stat.S_IMODE(folder.parent.stat().st_mode) == mode
    assert sorted(path.name for path in folder.parent.iterdir()) == ["other", folder.name]


def test_a_new_folder_is_written_with_its_parents(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    write_folder(target, new_files(target))
    assert contents(target) == NEW and list((tmp_path / "a").iterdir()) == [target]


def raise_error() -> None:
    raise OSError(28, os.strerror(28))


def raise_interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", [raise_error, raise_interrupt])
@pytest.mark.parametrize("place", ["_stage", "_exchange", "_exchange_names"])
@pytest.mark.parametrize("exists", [True, False], ids=["old", "nothing"])
def test_what_is_raised_at_any_step_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, end: Callable[[], None], exists: bool
) -> None:
    target = folder if exists else folder.parent / "deep" / "other"
    monkeypatch.setattr(output, place, lambda *_: end())
    if place == "_exchange_names" and not exists:
        write_folder(target, new_files(target))  # There is nothing to exchange it with.
        assert contents(target) == NEW
        return
    with pytest.raises((OutputError, KeyboardInterrupt)) as caught:
        write_folder(target, new_files(target))
    assert is_whole(folder) and contents(folder)["part0/m0.txt"] == "old 0"
    assert caught.type is KeyboardInterrupt or "nothing was changed" in str(caught.value)


def test_without_an_exchange_in_one_step_the_old_folder_comes_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_exchange_names", lambda *_: False)
    write_folder(folder, new_files(folder))
    assert contents(folder) == NEW | {"mine.txt": "mine"} and is_whole(folder)


def run(folder: Path, number: int | None, delay: float) -> subprocess.CompletedProcess[bytes]:
    """Write in a process of its own, and end it by a signal after a while."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        if number is not None:
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
        written, errors = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, written, errors)


@pytest.mark.long
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the processes are seen in /proc")
def test_the_tests_wait_for_a_process_that_has_just_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import pathlib, sys, time; time.sleep(0.02); pathlib.Path(sys.argv[1]).touch()"
    for number in range(20):
        file = tmp_path / str(number)
        with subprocess.Popen([sys.executable, "-ISc", program, str(file)]) as process, monkeypatch.context() as patch:
            patch.setattr(os, "listdir", lambda _, own=process.pid: [str(own)])  # At once, while it has no command.
            settle(file)
            assert file.exists()


@pytest.mark.long
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the processes are seen in /proc")
@pytest.mark.edges("SIGINT", "SIGKILL")
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL", "SIGTERM"])  # By name: Windows has no SIGKILL.
def test_a_signal_at_any_moment_leaves_a_whole_folder(folder: Path, name: str) -> None:
    number = signal.Signals[name]
    moments = random.Random(number)
    for _ in range(int(os.environ.get("MCP_SIGNALS", "12"))):
        for path, text in OLD.items():
            (folder / path).write_text(text)
        run(folder, number, moments.uniform(0, 0.12))
        settle(folder)
        assert is_whole(folder), sorted(path.name for path in folder.parent.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no size of files")
def test_a_full_disk_changes_nothing(folder: Path) -> None:
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (3, resource.RLIM_INFINITY))\n"
    command = [sys.executable, "-c", limit + PROGRAM, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "OutputError" in done.stderr and "nothing was changed" in done.stderr
    assert is_whole(folder) and contents(folder)["part0/m0.txt"] == "old 0"


def test_a_read_only_folder_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder / "part1")
    with pytest.raises(OutputError, match=r"part1: cannot be written: Permission denied; nothing was changed"):
        write_folder(folder, new_files(folder))
    assert is_whole(folder) and contents(folder)["part0/m0.txt"] == "old 0"


def test_an_immutable_file_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux refuses a second name for an immutable file, with EPERM."""
    link = os.link

    def refusing(source: str | Path, copy: str | Path) -> None:
        if Path(source).name == "m7.txt":
            raise PermissionError(1, os.strerror(1), str(source))
        link(source, copy)

    monkeypatch.setattr(os, "link", refusing)
    with pytest.raises(OutputError, match=r"m7\.txt: cannot be written: Operation not permitted; nothing was changed"):
        write_folder(folder, new_files(folder))
    assert is_whole(folder) and contents(folder)["part0/m0.txt"] == "old 0"


def test_an_immutable_file_of_the_user_stays_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def refusing(source: str | Path, copy: str | Path) -> None:
        if Path(source).name == "mine.txt":
            raise PermissionError(1, os.strerror(1), str(source))
        link(source, copy)

    monkeypatch.setattr(os, "link", refusing)
    write_folder(folder, new_files(folder))
    assert contents(folder) == NEW | {"mine.txt": "mine"} and is_whole(folder)


def test_the_current_folder_keeps_its_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "part0")
    before = os.stat(".").st_ino
    write_folder(folder, new_files(folder))
    assert os.stat(folder / "part0").st_ino == before
    assert contents(folder) == NEW | {"mine.txt": "mine"} and is_whole(folder)


def test_links_stay_links(folder: Path) -> None:
    (folder / "link").symlink_to("part0")
    write_folder(folder, new_files(folder))
    assert (folder / "link").is_symlink() and (folder / "link" / "m0.txt").read_text() == "new 0"
