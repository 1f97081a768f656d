"""Bytes go in and out of a server process without any client in between."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

SERVER = [sys.executable, str(Path(__file__).parent / "server.py")]
PATIENCE = 20.0
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


class RawServer:
    """A server process; what it says is read line by line, with a deadline for each."""

    def __init__(self, *, stderr: int = subprocess.PIPE) -> None:
        self.process = subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        self._read = b""

    def __enter__(self) -> RawServer:
        self.say({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO})
        assert self.answer()["result"]["protocolVersion"] == "2025-06-18"
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
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
        params = {"name": tool, "arguments": arguments}
        self.say({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})

    def answer(self, patience: float = PATIENCE) -> Any:
        """The next message of the server."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + patience
        while b"\n" not in self._read:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the server says nothing"
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            assert data, "the server has ended"
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends_within(self, seconds: float) -> int:
        """The exit code. Raises where the process lives longer."""
        return self.process.wait(seconds)

    @property
    def peak_memory(self) -> int:
        """In bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
