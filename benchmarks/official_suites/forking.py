"""Run files of tests, each in a process of its own that begins with the imports that all of them need.

    python forking.py LIMIT MODULE... -- OPTION...

Each line of standard input is a file of tests, the file for its record and that for its output. A line with the exit
code answers it; a file that takes more than LIMIT seconds is ended, with all that it has started.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Final

import pytest

SECONDS_BETWEEN_LOOKS: Final = 0.02


def run(options: list[str], file: str, record: str, output: str) -> None:
    """Run a file of tests, and end the process."""
    os.setsid()
    os.environ["OFFICIAL_SUITES_RECORD"] = record
    written = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    sys.argv = ["pytest", *options, file]
    code = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        code = int(pytest.main(sys.argv[1:]))
        sys.stdout.flush()
    finally:
        os._exit(code)


def ended(process: int, limit: float) -> int:
    """Wait for a process, end it at its limit, and return its exit code."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            _end_group(process)
            return os.waitstatus_to_exitcode(status)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    _end_group(process)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _end_group(process: int) -> None:
    with suppress(ProcessLookupError):  # It may have no children.
        os.killpg(process, signal.SIGKILL)


def main() -> None:
    """Import the modules, and run the files."""
    limit, *words = sys.argv[1:]
    modules, options = words[: words.index("--")], words[words.index("--") + 1 :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules:
            import_module(module)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            run(options, *line.split())
        print(ended(process, float(limit)), flush=True)


if __name__ == "__main__":
    main()
