"""Bytes go in and out of a server process without any client in between."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from support.endpoints import Rev, hello
from support.processes import exit_code_within
from support.project import SERVERS

SERVER = [sys.executable, str(SERVERS / "misbehaving_handlers.py")]
TIMEOUT = 20.0


class RawServer:
    """A server process of a revision; what it says is read line by line, with a deadline for each. It may be said to
    a `reader`, a process that passes it on. `command` is another server than that of misbehaving handlers."""

    def __init__(
        self,
        *,
        rev: Rev = Rev("2025-06-18"),  # noqa: B008
        stderr: int = subprocess.PIPE,
        reader: subprocess.Popen[bytes] | None = None,
        command: list[str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.rev = rev
        stdout = subprocess.PIPE if reader is None else reader.stdin
        self.process = subprocess.Popen(
            command or [*SERVER, rev.id],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **(environment or {})},
        )
        if reader is not None and reader.stdin is not None:
            reader.stdin.close()  # It is the server's alone.
        self.output = self.process.stdout if reader is None else reader.stdout
        self._read = b""
        self._parts: queue.Queue[bytes] = queue.Queue()
        if sys.platform == "win32":  # It cannot wait for a pipe.
            threading.Thread(target=self._read_parts, daemon=True).start()

    def _read_parts(self) -> None:
        """Read all that the server says."""
        assert self.output is not None
        with suppress(OSError, ValueError):  # Until it is closed.
            while data := os.read(self.output.fileno(), 1 << 20):
                self._parts.put(data)
        self._parts.put(b"")

    def _next_part(self, seconds: float) -> bytes:
        """Return what the server says next, and nothing at its end."""
        if sys.platform == "win32":
            return self._parts.get(timeout=seconds)
        assert self.output is not None
        ready, _, _ = select.select([self.output], [], [], seconds)
        assert ready, "the server says nothing"
        return os.read(self.output.fileno(), 1 << 20)

    def __enter__(self) -> RawServer:
        if not self.rev.stateless:
            self.say(hello(self.rev.id))
            assert self.answer()["result"]["protocolVersion"] == self.rev.id
            self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.output, self.process.stderr):
            if stream is not None:
                stream.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), data) if len(data) < 4096 else self._write_all(data)

    def _write_all(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def say(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def call(self, id: int | str, tool: str, **arguments: Any) -> None:
        self.say(self.rev.request(id, "tools/call", {"name": tool, "arguments": arguments}))

    def probe(self, id: int | str) -> None:
        """Ask what is answered at once."""
        self.say(self.rev.request(id, "server/discover" if self.rev.stateless else "ping"))

    def answer(self, timeout: float = TIMEOUT) -> Any:
        """The next message of the server."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._read:
            data = self._next_part(max(0.0, deadline - time.monotonic()))
            assert data, "the server has ended"
            self._read += data
        line, _, rest = self._read.partition(b"\n")
        self._read = rest
        return json.loads(line)

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends_within(self, seconds: float) -> int:
        """Return the exit code. Raises TimeoutExpired if the process lives longer, on a machine that lets it run."""
        return exit_code_within(self.process, seconds)

    @property
    def cpu_seconds(self) -> float:
        fields = self._stat
        return (int(fields[11]) + int(fields[12])) / 100

    @property
    def is_asleep(self) -> bool:
        return self._stat[0] == "S"

    @property
    def _stat(self) -> list[str]:
        return Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()

    @property
    def peak_memory(self) -> int:
        """In bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
