"""The cost of responses over stdio: the same raw lines for every server, without a client library.

Requests are serialized before the clock starts, and responses are parsed after it has stopped, so that the measurement
contains almost no work of this process. The id and text of every response are checked.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

REVISION = "2025-06-18"
NEWEST = "2026-07-28"
CLIENT_INFO = {"name": "load", "version": "1"}
_PREFIX = "io.modelcontextprotocol/"
_STATELESS = {
    "_meta": {
        f"{_PREFIX}protocolVersion": NEWEST,
        f"{_PREFIX}clientInfo": CLIENT_INFO,
        f"{_PREFIX}clientCapabilities": {},
    }
}
_CHUNK = 1 << 17
_GRACE = 5.0  # Seconds for a server to end after its input is closed.

# The client has a CPU of its own. Otherwise it would be woken on that of the server, during a response, and more often
# for
# a slow server than for a fast one.
PROCESSORS = sorted(os.sched_getaffinity(0))
CLIENT_CPUS, SERVER_CPUS = PROCESSORS[:1], PROCESSORS[1:] or PROCESSORS


@dataclass(frozen=True)
class Load:
    """The numbers of calls: before the measurement, sequential, and pipelined."""

    warm_up: int
    sequential: int
    pipelined: int
    seconds: float = 120.0  # The time limit of one server.


@dataclass(frozen=True)
class Sample:
    """The values of one server. Times in ms (cold start) and in µs per call (CPU), memory in MiB."""

    cold_start: float
    sequential: float
    sequential_cpu: float
    sequential_peak: float
    pipelined: float
    pipelined_cpu: float
    pipelined_peak: float


class BrokenServerError(Exception):
    """The server ended, hung, or sent a wrong response."""


def environ() -> dict[str, str]:
    """Return the environment with bytecode files enabled: the first start compiles, the measured ones do not."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Child:
    """A server as a child process. It is killed after its time limit, which ends every read and write here too."""

    def __init__(
        self,
        command: Sequence[str | Path],
        seconds: float,
        revision: str = REVISION,
        processors: Sequence[int] = PROCESSORS,
    ) -> None:
        self._revision = revision
        # A stateless request carries the data of the handshake.
        self._meta = _STATELESS if revision == NEWEST else {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._rest = b""
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=self._errors,
            bufsize=0,
            env=environ(),
            start_new_session=True,
            preexec_fn=partial(os.sched_setaffinity, 0, processors),
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._in = self.process.stdin.fileno()
        self._out = self.process.stdout.fileno()
        self._limit = threading.Timer(seconds, self._kill)
        self._limit.daemon = True
        self._limit.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._kill()
            self.process.wait(_GRACE)
        finally:
            self._limit.cancel()
            self.process.stdout.close()
            self._errors.close()

    def _kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def write(self, data: bytes) -> None:
        """Write to standard input."""
        remaining = memoryview(data)
        with suppress(BrokenPipeError):  # The server has ended; `read` reports it.
            while remaining:
                remaining = remaining[os.write(self._in, remaining) :]

    def read(self, lines: int) -> bytes:
        """Read a number of lines. Raises BrokenServerError with the standard error of the server if it has ended."""
        parts: list[bytes] = []
        seen = 0
        while seen < lines:
            part = os.read(self._out, _CHUNK)
            if not part:
                self._errors.seek(0)
                stderr = self._errors.read().decode(errors="replace")[-2000:]
                raise BrokenServerError(f"it ended, or its time was up, after {seen} of {lines} lines\n{stderr}")
            parts.append(part)
            seen += part.count(b"\n")
        return b"".join(parts)

    def cpu(self) -> float:
        """Return the CPU seconds of all threads; Linux has a clock for each process."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self, name: str) -> float:
        """Return `VmHWM` (the peak) or `VmRSS` (the current value), in MiB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
        raise BrokenServerError(f"the kernel reports no {name}")

    # ---- messages ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Initialize the connection, in the versions with a handshake."""
        if self._meta:
            return
        params = {"protocolVersion": self._revision, "capabilities": {}, "clientInfo": CLIENT_INFO}
        self.write(_line({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
        response = json.loads(self.read(1))
        if response.get("id") != 0 or response["result"]["protocolVersion"] != self._revision:
            raise BrokenServerError(f"not the response to initialize: {response}")
        self.write(_line({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def sequential(self, first: int, count: int) -> float:
        """Make sequential calls. Return the seconds."""
        requests = [self._call(number) for number in range(first, first + count)]
        responses: list[bytes] = []
        start = time.perf_counter()
        for request in requests:
            self.write(request)
            responses.append(self.read(1))
        seconds = time.perf_counter() - start
        _check(b"".join(responses), first, count)
        return seconds

    def pipelined(self, first: int, count: int) -> float:
        """Make pipelined calls from a separate thread. Return the seconds until the last response."""
        requests = b"".join(self._call(number) for number in range(first, first + count))
        writer = threading.Thread(target=self.write, args=(requests,), daemon=True)
        start = time.perf_counter()
        writer.start()
        responses = self.read(count)
        seconds = time.perf_counter() - start
        writer.join(_GRACE)
        _check(responses, first, count)
        return seconds

    def _call(self, number: int) -> bytes:
        params = {"name": "echo", "arguments": {"text": _text(number)}, **self._meta}
        return _line({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def measure(command: Sequence[str | Path], load: Load) -> Sample:
    """Start the server, make all its calls, and end it."""
    start = time.perf_counter()
    with Child(command, load.seconds) as child:
        child.open()
        cold_start = time.perf_counter() - start
        child.sequential(1, load.warm_up)
        number, cpu = 1 + load.warm_up, child.cpu()
        sequential = child.sequential(number, load.sequential)
        number, sequential_cpu, sequential_peak = number + load.sequential, child.cpu() - cpu, child.memory("VmHWM")
        child.pipelined(number, load.warm_up)
        number, cpu = number + load.warm_up, child.cpu()
        pipelined = child.pipelined(number, load.pipelined)
        pipelined_cpu = child.cpu() - cpu
        return Sample(
            cold_start * 1e3,
            load.sequential / sequential,
            sequential_cpu / load.sequential * 1e6,
            sequential_peak,
            load.pipelined / pipelined,
            pipelined_cpu / load.pipelined * 1e6,
            child.memory("VmHWM"),
        )


def memory_over(command: Sequence[str | Path], calls: int, batch: int, seconds: float) -> list[tuple[int, float]]:
    """Return ten values of the resident memory in MiB, by number of pipelined calls."""
    figures: list[tuple[int, float]] = []
    with Child(command, seconds) as child:
        child.open()
        for first in range(0, calls, batch):
            child.pipelined(1 + first, batch)
            if (first + batch) % (calls // 10) == 0:
                figures.append((first + batch, child.memory("VmRSS")))
    return figures


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _text(number: int) -> str:
    return f"this is the text of call {number}"


def _check(responses: bytes, first: int, count: int) -> None:
    """Raise BrokenServerError unless each call has one response with its text, in any order."""
    missing = set(range(first, first + count))
    for line in responses.splitlines():
        response = json.loads(line)
        number = response.get("id")
        if number not in missing or response["result"]["content"] != [{"type": "text", "text": _text(number)}]:
            raise BrokenServerError(f"not the response to a call: {response}")
        missing.remove(number)
    if missing:
        raise BrokenServerError(f"{len(missing)} calls have no response")
