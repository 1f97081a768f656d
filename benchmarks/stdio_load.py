"""A server's command goes in, what its answers cost comes out: the same raw lines for every server, no client library.

Requests are made before the clock starts and answers are read after it has stopped, so that next to nothing of what
is measured is this process's own work. Every answer's id and text are checked.
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
WHO = {"name": "load", "version": "1"}
_OWN = "io.modelcontextprotocol/"
_STATELESS = {"_meta": {f"{_OWN}protocolVersion": NEWEST, f"{_OWN}clientInfo": WHO, f"{_OWN}clientCapabilities": {}}}
_CHUNK = 1 << 17
_GRACE = 5.0  # Seconds a server gets to end once its input is closed.

# What asks has a processor of its own. Else it is woken on that of the server, in the middle of an answer, and this the
# more often the slower the server is: one that answers faster than it is asked never has to wake anybody.
PROCESSORS = sorted(os.sched_getaffinity(0))
ASKING, ANSWERING = PROCESSORS[:1], PROCESSORS[1:] or PROCESSORS


@dataclass(frozen=True)
class Load:
    """How many calls are made: before anything is measured, one after the other, and without waiting."""

    warm_up: int
    sequential: int
    pipelined: int
    seconds: float = 120.0  # What one server's life may last in all.


@dataclass(frozen=True)
class Sample:
    """One server's life. Times in ms (cold start) and µs (of the processor, each call), memory in MiB."""

    cold_start: float
    sequential: float
    sequential_cpu: float
    sequential_peak: float
    pipelined: float
    pipelined_cpu: float
    pipelined_peak: float


class BrokenServer(Exception):
    """It ended, hung, or answered something else than what was asked."""


def environ() -> dict[str, str]:
    """This process's environment, with bytecode written: a first start compiles, and those that count do not."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Child:
    """A server as a child process. It is killed when its time is up, which ends every read and write here as well."""

    def __init__(
        self,
        command: Sequence[str | Path],
        seconds: float,
        revision: str = REVISION,
        processors: Sequence[int] = PROCESSORS,
    ) -> None:
        self._revision = revision
        # Without a handshake, each request says what the handshake would have.
        self._meta = _STATELESS if revision == NEWEST else {}
        self._errors = tempfile.TemporaryFile()
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
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
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
        left = memoryview(data)
        with suppress(BrokenPipeError):  # It has ended; whoever reads tells how.
            while left:
                left = left[os.write(self._in, left) :]

    def read(self, lines: int) -> bytes:
        """As much as holds so many lines. Raises BrokenServer at the end, with what was said on standard error."""
        parts: list[bytes] = []
        seen = 0
        while seen < lines:
            part = os.read(self._out, _CHUNK)
            if not part:
                self._errors.seek(0)
                said = self._errors.read().decode(errors="replace")[-2000:]
                raise BrokenServer(f"it ended, or its time was up, after {seen} of {lines} lines\n{said}")
            parts.append(part)
            seen += part.count(b"\n")
        return b"".join(parts)

    def cpu(self) -> float:
        """Seconds of processor time so far, of all its threads; Linux has a clock for each process."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self, name: str) -> float:
        """`VmHWM` (the peak) or `VmRSS` (now), in MiB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
        raise BrokenServer(f"the kernel tells no {name}")

    # ---- what is said to it -----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Shake hands, in the revisions where one does."""
        if self._meta:
            return
        params = {"protocolVersion": self._revision, "capabilities": {}, "clientInfo": WHO}
        self.write(_line({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
        answer = json.loads(self.read(1))
        if answer.get("id") != 0 or answer["result"]["protocolVersion"] != self._revision:
            raise BrokenServer(f"not the answer to the handshake: {answer}")
        self.write(_line({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def sequential(self, first: int, count: int) -> float:
        """Make calls, each after the answer to the one before; the seconds that took."""
        requests = [self._call(number) for number in range(first, first + count)]
        answers: list[bytes] = []
        start = time.perf_counter()
        for request in requests:
            self.write(request)
            answers.append(self.read(1))
        seconds = time.perf_counter() - start
        _check(b"".join(answers), first, count)
        return seconds

    def pipelined(self, first: int, count: int) -> float:
        """Make calls without waiting, from a thread of their own; the seconds until the last answer was there."""
        requests = b"".join(self._call(number) for number in range(first, first + count))
        writer = threading.Thread(target=self.write, args=(requests,), daemon=True)
        start = time.perf_counter()
        writer.start()
        answers = self.read(count)
        seconds = time.perf_counter() - start
        writer.join(_GRACE)
        _check(answers, first, count)
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
    """Resident memory in MiB after so many calls, which are pipelined in batches; ten figures in all."""
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


def _check(answers: bytes, first: int, count: int) -> None:
    """Raise BrokenServer unless each call was answered once, with its own text; the order is the server's own."""
    due = set(range(first, first + count))
    for line in answers.splitlines():
        answer = json.loads(line)
        number = answer.get("id")
        if number not in due or answer["result"]["content"] != [{"type": "text", "text": _text(number)}]:
            raise BrokenServer(f"not an answer to what was asked: {answer}")
        due.remove(number)
    if due:
        raise BrokenServer(f"{len(due)} calls were not answered")
