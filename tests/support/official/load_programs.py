"""Load programs, a process of its own for each of them: with FastMCP or the official SDK, and with ours.

Arguments: the modules that most programs use, with commas between them, which are imported once, and a file with the
paths, one a line. For each path a line of JSON is printed: the path, and the last line of its traceback; that is empty
if it was loaded.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path

SECONDS = 60


def load(path: str) -> str:
    """Import a file in a folder of its own; return its error."""
    sys.path.append(str(Path(__file__).parents[1] / "peer_drivers"))
    from official_examples_serve import load as load_file

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            load_file(Path(path))
        except BaseException as error:
            return traceback.format_exception_only(error)[-1].strip() or repr(error)
        finally:
            os.chdir("/")
    return ""


def run(path: str) -> str:
    """Load a program in a child process; return its error."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as result:
        child = os.fork()
        if not child:
            quiet = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(quiet, number)
            signal.alarm(SECONDS)
            result.write(load(path))
            result.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        result.seek(0)
        return f"it ended with status {status}" if status else result.read()


def main(modules: str, file: str) -> None:
    """Load the programs that a file lists."""
    for name in modules.split(","):
        importlib.import_module(name)
    for path in Path(file).read_text(encoding="utf-8").splitlines():
        print(json.dumps([path, run(path)]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
