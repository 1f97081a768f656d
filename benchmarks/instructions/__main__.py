"""Count the instructions of a call over stdio, here and in an earlier checkout: other programs do not change them.

    python benchmarks/instructions --before DIR [--revision ID …] [--low 200 --high 900]

DIR is a checkout with a virtual environment in .venv. All calls of a run are written at once, and the server ends when
all of them have their responses: what a call costs is the difference of two runs, divided by that of their calls. It
needs valgrind, and half a minute for each run. Both runs of a checkout run at the same time. On Linux the pipes have
room for all messages, so that what a read brings does not depend on when this program runs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REVISIONS = ("2025-06-18", "2026-07-28")
PIPE = 2**20  # Bytes, which is the most that Linux gives every user.
META = "io.modelcontextprotocol/"
COUNTED = re.compile(rb"Collected : (\d+)")


def messages(revision: str, calls: int) -> Iterator[bytes]:
    """Yield the messages of a client that makes so many calls."""
    client = {"name": "load", "version": "1"}
    meta: dict[str, object] = {}
    if revision == REVISIONS[-1]:
        fields = {"protocolVersion": revision, "clientInfo": client, "clientCapabilities": {}}
        meta = {"_meta": {META + name: value for name, value in fields.items()}}
    else:
        opening = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
        yield json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}).encode()
        yield json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    for id in range(1, calls + 1):
        params = {"name": "echo", "arguments": {"text": f"this is the text of call {id}"}, **meta}
        yield json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()


def instructions(python: Path, server: Path, paths: str, revision: str, calls: int) -> int:
    """Return how many instructions a server needs from its start to its end, for so many calls at once."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(python), str(server)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload]
    if sys.platform == "linux":
        for pipe in (child.stdin, child.stdout):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)
    error_output: list[bytes] = []
    reading = threading.Thread(target=lambda: error_output.append(child.stderr.read()))
    sending = threading.Thread(target=lambda: child.stdin.write(b"\n".join(messages(revision, calls)) + b"\n"))
    reading.start()
    sending.start()
    remaining = calls + (revision != REVISIONS[-1])
    while remaining:
        line = child.stdout.readline()
        if not line or b'"error"' in line:
            raise SystemExit(f"{server}: {line!r} with {remaining} calls remaining")
        remaining -= 1
    sending.join()
    child.stdin.close()
    child.wait()
    reading.join()
    counted = COUNTED.search(error_output[0])
    if counted is None:
        raise SystemExit(f"{server}: {error_output[0][-500:]!r}")
    return int(counted[1])


def of_a_call(checkout: Path, revision: str, low: int, high: int) -> float:
    """Return how many instructions a call needs."""
    python = checkout / ".venv" / "bin" / "python"
    is_own = checkout == ROOT
    paths = os.pathsep.join(str(checkout / name) for name in ("runtime", "generated"))
    places = [checkout / "benchmarks" / name for name in ("servers/stdio_ours_server.py", "stdio_ours_server.py")]
    server = next(path for path in places if path.exists())
    with ThreadPoolExecutor(2) as pool:
        interpreter = Path(sys.executable) if is_own else python
        runs = [pool.submit(instructions, interpreter, server, paths, revision, calls) for calls in (low, high)]
        first, second = (run.result() for run in runs)
    return (second - first) / (high - low)


def main() -> None:
    """Count, and print a row for each version."""
    parser = argparse.ArgumentParser(prog="python benchmarks/instructions", description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the earlier checkout")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="these versions")
    parser.add_argument("--low", type=int, default=200, help="calls of the first run")
    parser.add_argument("--high", type=int, default=900, help="calls of the second run")
    options = parser.parse_args()
    for revision in options.revision or REVISIONS:
        before = of_a_call(options.before.resolve(), revision, options.low, options.high)
        now = of_a_call(ROOT, revision, options.low, options.high)
        print(f"| stdio, {revision}, {options.low} to {options.high} calls at once ", end="")
        print(f"| {before:,.0f} | {now:,.0f} | {now / before:.3f} |", flush=True)


if __name__ == "__main__":
    main()
