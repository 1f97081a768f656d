"""Python alone, without our code: what works under this Windows, and what does not. Runs there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

LIMIT: Final = 60.0
WORDS: Final = ["a b", 'q"uote', "ümläut", "日本", "tail\\", "", 'a\\"b', "%PATH%", "a&b"]
BREAK: Final = """
import signal, sys
signal.signal(signal.SIGBREAK, lambda *_: sys.exit(7))
print(flush=True)
sys.stdin.read()
"""


def child(source: str, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a child process of Python to its end."""
    command = [sys.executable, "-c", source, *words]
    return subprocess.run(command, **{"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": LIMIT, **options})


def loop() -> bool:
    """Return whether asyncio has the Proactor loop."""

    async def name() -> str:
        return type(asyncio.get_running_loop()).__name__

    return asyncio.run(name()) == "ProactorEventLoop"


def pipes_of_asyncio() -> bool:
    """Return whether a child's pipes go both ways in the event loop."""

    async def main() -> bytes:
        upper = "import sys; sys.stdout.write(sys.stdin.read().upper())"
        started = await asyncio.create_subprocess_exec(sys.executable, "-c", upper, stdin=-1, stdout=-1)
        return (await asyncio.wait_for(started.communicate(b"one two"), LIMIT))[0]

    return asyncio.run(main()) == b"ONE TWO"


def sockets() -> bool:
    """Return whether a server and a client of TCP talk."""

    async def main() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"one\n")
        line = await asyncio.wait_for(reader.read(), LIMIT)
        writer.close()
        server.close()
        return line

    return asyncio.run(main()) == b"ONE\n"


def threads() -> bool:
    """Return whether threads run and end."""
    numbers: list[int] = []
    running = [threading.Thread(target=numbers.append, args=(number,)) for number in range(20)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sorted(numbers) == list(range(20))


def arguments() -> bool:
    """Return whether a child of Python gets its arguments as they are."""
    return bool(json.loads(child("import json, sys; print(json.dumps(sys.argv[1:]))", *WORDS).stdout) == WORDS)


def batch_file() -> bool:
    """Return whether cmd.exe runs a batch file with a space in its name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a b.cmd")
        path.write_text("@echo [%~1] [%2]\n", encoding="utf-8")
        done = subprocess.run([str(path), "c d", "e"], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        return done.stdout.strip() == b"[c d] [e]"


def kill() -> bool:
    """Return whether a child is ended from outside."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as started:
        started.kill()
        return started.wait(LIMIT) == 1


def files_are_locked() -> bool:
    """Return whether a file that is open can be neither replaced nor removed."""
    with tempfile.TemporaryDirectory() as folder:
        new, used = Path(folder, "new"), Path(folder, "used")
        new.touch()
        with used.open("w", encoding="utf-8"):
            for change in (lambda: os.replace(new, used), used.unlink):
                with suppress(PermissionError):
                    change()
                    return False
    return True


def folders_are_locked() -> bool:
    """Return whether a folder with an open file cannot be renamed."""
    with tempfile.TemporaryDirectory() as folder:
        used = Path(folder, "used")
        used.mkdir()
        with (used / "file").open("w", encoding="utf-8"), suppress(PermissionError):
            used.rename(Path(folder, "new"))
            return False
    return True


def links() -> bool:
    """Return whether symbolic links to folders can be made and followed."""
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "link")
        with suppress(OSError):
            link.symlink_to(folder, target_is_directory=True)
            return link.is_symlink() and link.is_dir()
    return False


def access_lists() -> bool:
    """Return whether icacls tells who has access to a file."""
    with tempfile.TemporaryDirectory() as folder:
        shown = subprocess.run(["icacls", folder], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        return b":" in shown.stdout


def ctrl_break() -> bool:
    """Return whether a group of processes gets Ctrl-Break."""
    assert sys.platform == "win32"
    group = subprocess.CREATE_NEW_PROCESS_GROUP
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", BREAK], stdin=pipe, stdout=pipe, creationflags=group) as started:
        assert started.stdout is not None
        started.stdout.readline()
        try:
            started.send_signal(signal.CTRL_BREAK_EVENT)
        except OSError:
            started.kill()
            return False
        return started.wait(LIMIT) == 7


def arguments_are_read_once() -> bool:
    """Return whether a batch file passes `%*` on without looking for variables in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "show.cmd")
        path.write_text("@echo %*\n", encoding="utf-8")
        line = f'cmd.exe /d /c "{path} %%cd:~,%OS%%cd:~,%"'  # Without the part between, which is nothing: %OS%.
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        return done.stdout.strip() == b"%OS%"


CHECKS: Final[dict[str, Callable[[], bool]]] = {
    "the Proactor loop": loop,
    "pipes of a child in the event loop": pipes_of_asyncio,
    "sockets": sockets,
    "threads": threads,
    "arguments of a child": arguments,
    "batch files": batch_file,
    "a child is killed": kill,
    "an open file is locked": files_are_locked,
}
# What wine 8 cannot do, and Windows can.
MISSING_IN_WINE: Final[dict[str, Callable[[], bool]]] = {
    "a folder with an open file is locked": folders_are_locked,
    "symbolic links to folders": links,
    "access control lists by icacls": access_lists,
    "Ctrl-Break to a group without a console": ctrl_break,
    "batch files look for variables in `%*` once": arguments_are_read_once,
}

if __name__ == "__main__":
    results = {name: check() for name, check in {**CHECKS, **MISSING_IN_WINE}.items()}
    print(json.dumps(results))
    sys.exit(not all(results[name] for name in CHECKS))
