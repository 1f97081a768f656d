"""Measure how many client programs of the official Python SDK run with only their import lines changed.

A program runs if it ends as it does on its own SDK, with as many lines of output, and with a server on that SDK. An
excerpt that ends there by a missing name has to end by the same name. Run it as `official_examples.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compat.programs.official_examples import (
    SDKS,
    Failure,
    Interpreter,
    Line,
    Outcome,
    folders,
    last_line,
    our_interpreter,
    peer_interpreter,
    print_table,
    serve_command,
    served_over_http,
)
from support.official.sources import clients


class End(NamedTuple):
    """How a program ended: its status, its output without addresses of objects, and its last error."""

    status: int
    output: str
    error: str


def measure_clients(line: Line) -> Iterator[Outcome]:
    """Yield the outcome of each client program."""
    original, changed = folders(line)
    servers = original / "examples" / "snippets" / "servers"
    theirs = peer_interpreter(SDKS[line])
    with tempfile.TemporaryDirectory() as folder:
        _write_uv(Path(folder), theirs, servers)
        with served_over_http("instance-http", theirs, servers / "streamable_config.py") as url:
            for program in clients(original):
                path = changed / program.path.relative_to(original)
                try:
                    reference = _end(theirs, program.path, folder, url)
                    end = _end(our_interpreter(), path, folder, url)
                except Failure as failure:
                    yield Outcome(program.name, False, None, str(failure))
                    continue
                runs = end.status == reference.status and _same_error(end.error, reference.error)
                runs = runs and len(end.output.splitlines()) == len(reference.output.splitlines())
                same = end.output == reference.output
                yield Outcome(program.name, runs, same, "" if runs and same else _difference(reference, end))


def _same_error(error: str, other: str) -> bool:
    """Return True for the same error, and if both could not connect: such a program needs a server that is not here."""
    return error == other or ("Connect" in error and "Connect" in other)


def _difference(reference: End, end: End) -> str:
    if end.error != reference.error:
        return f"{end.error or 'no error'} instead of {reference.error or 'no error'}"
    lines = zip([*end.output.splitlines(), ""], [*reference.output.splitlines(), ""], strict=False)
    return next((f"{line[:200]!r} instead of {other[:200]!r}" for line, other in lines if line != other), "")


def _write_uv(folder: Path, interpreter: Interpreter, servers: Path) -> None:
    """Write a program `uv`, which the clients start as `uv run server NAME stdio`; it serves NAME on its own SDK."""
    command = " ".join(serve_command(interpreter, "instance", servers / "$3.py"))
    (folder / "uv").write_text(f"#!/bin/sh\nunset PYTHONPATH\nexec {command}\n")
    (folder / "uv").chmod(0o755)


def _end(interpreter: Interpreter, path: Path, folder: str, url: str) -> End:
    copy = Path(folder) / f"{os.getpid()}-{path.name}"
    source = re.sub(r"http://localhost:\d+/mcp", url, path.read_text(encoding="utf-8"))
    copy.write_text(source)
    env = {**interpreter.env, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    try:
        process = subprocess.run(
            [interpreter.python, copy],
            env=env,
            cwd=path.parent,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise Failure("it did not end in time") from None
    error = last_line(process.stderr) if process.returncode else ""
    return End(process.returncode, re.sub(r"0x[0-9a-f]+", "0x", process.stdout), error)


if __name__ == "__main__":
    chosen: list[Line] = [line for line in SDKS if line in sys.argv] or list(SDKS)
    for line in chosen:
        print(f"\nclients of {line}")
        print_table(measure_clients(line))
