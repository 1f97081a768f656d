"""The processes of kills.py and tasks_kills.py: a Redis that is restarted, and a server whose workers are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
STARTS = 30.0  # Seconds for a process to start.
OLD_ENOUGH = 0.3  # Seconds after which a worker that has begun to serve has requests.


def mark_of(stored: str | Path, pid: int) -> Path:
    """Return the file that a worker makes when it begins to serve; `stored` is the file of what the server notes."""
    return Path(f"{stored}.{pid}")


class RedisServer:
    """A redis-server with an append-only file."""

    def __init__(self, folder: Path) -> None:
        """Choose a free port; `start` starts the server."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the server, and wait until it listens."""
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "yes", "dir": self._folder}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self._process = await asyncio.create_subprocess_exec("redis-server", *words, stdout=subprocess.DEVNULL)
        until = time.monotonic() + STARTS
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                return writer.close()
            except OSError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.01)

    async def restart(self, number: signal.Signals) -> None:
        """End the server with a signal, and start it again."""
        await self.stop(number)
        await self.start()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the server."""
        if self._process is not None:
            self._process.send_signal(number)
            await self._process.wait()


class LoadServer:
    """The processes of a server, by default those of load_server.py."""

    def __init__(self, store: str, workers: int, stored: Path, program: str = "load_server.py") -> None:
        """Remember the store, the number of workers and the file of what they note; `start` starts the workers."""
        self.store = store
        self.workers = workers
        self.stored = stored
        self._program = program
        self.url = ""
        self._began: dict[int, float] = {}  # When a worker was first seen to serve.
        self._killed: set[int] = set()

    async def start(self) -> None:
        """Start the server, and wait until it serves."""
        command = [sys.executable, str(HERE / self._program), self.store, str(self.workers)]
        self._log = Path(os.environ.get("KILLS_LOG", os.devnull))
        self._log.write_bytes(b"")
        self.stored.touch()
        environment = {**os.environ, "STORED": str(self.stored)}
        self._process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE, env=environment)
        assert self._process.stderr is not None
        async with asyncio.timeout(STARTS):
            while not self.url:
                line = (await self._process.stderr.readline()).decode()
                if not line:
                    raise RuntimeError("the server does not start")
                self.url = line.removeprefix("listening at ").strip() if line.startswith("listening") else ""
        self._reading = asyncio.create_task(self._read_log())

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        while part := await self._process.stderr.read(1 << 16):
            with self._log.open("ab") as log:
                log.write(part)

    def pids(self) -> list[int]:
        """Return the processes of the workers."""
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(word) for word in path.read_text(encoding="utf-8").split()]

    def marked(self) -> list[int]:
        """Return the processes of the workers that have begun to serve."""
        return [pid for pid in self.pids() if mark_of(self.stored, pid).exists()]

    def serving(self) -> list[int]:
        """Return the processes of the workers that serve for certain."""
        now = time.monotonic()
        for pid in self.pids():
            if pid not in self._began and mark_of(self.stored, pid).exists():
                self._began[pid] = now
        alive = {*self.pids()} - self._killed
        return sorted(pid for pid in alive if now - self._began.get(pid, now) > OLD_ENOUGH)

    async def several_serving(self) -> list[int]:
        """Return the processes that serve, as soon as there are several."""
        while len(pids := self.serving()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return pids

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a worker a signal that ends it."""
        self._killed.add(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    async def stop(self) -> None:
        """End the server."""
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()
        await self._reading
