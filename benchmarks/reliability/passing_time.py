"""Time that passes for workers and their store at once, and stores that lose what they have.

Workers have the clock of the runtime and the timers of their event loops set forward, by a signal after which they read
from a file by how much. The times to live of the keys of Redis are shortened by as much, with its own commands; a store
in SQLite reads the clock of the runtime.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mcp_runtime.aio import clock

# As how many losses workers may notice one: the files of SQLite are deleted one after the other, and opened anew.
NOTICED = {"redis": 1, "sqlite": 3, "cluster": 1}
SIGNALLED = 0.05  # Seconds for workers to have read the file.
PASS = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, math.max(left - tonumber(ARGV[1]), 0)) end
end
"""


def ahead_of(stored: str | Path) -> Path:
    """Return the file with the seconds by which the clock of the workers is ahead."""
    return Path(f"{stored}.ahead")


def follow(stored: str) -> Callable[[], None]:
    """Let the clock of this process be set by the file: now, when the signal comes, and by the function that this
    returns: call it once more when `let_pass` can know of this process."""
    file, ahead = ahead_of(stored), [0.0]
    loop = asyncio.get_running_loop()
    real = loop.time

    def read() -> None:
        ahead[0] = float(file.read_text()) if file.exists() else 0.0

    read()
    clock.wall = lambda: time.time() + ahead[0]
    clock.monotonic = lambda: time.monotonic() + ahead[0]
    loop.time = lambda: real() + ahead[0]  # type: ignore[method-assign]
    loop.add_signal_handler(signal.SIGUSR1, read)
    return read


async def let_pass(seconds: float, stored: Path, workers: Iterable[int], redis_ports: Iterable[int]) -> None:
    """Let time pass for these workers and the store, all at once: as when the machine has slept."""
    file = ahead_of(stored)
    before = float(file.read_text()) if file.exists() else 0.0
    file.write_text(str(before + seconds))
    for pid in workers:
        os.kill(pid, signal.SIGUSR1)
    await asyncio.sleep(SIGNALLED)  # A worker whose sign of life had expired before would have seen a loss.
    for port in redis_ports:
        await _command(port, "EVAL", PASS, "0", str(int(seconds * 1000)))


def ports_of(redis_port: int | None) -> list[int]:
    """Return the port of a single Redis; none for a store in SQLite."""
    return [] if redis_port is None else [redis_port]


async def lose(redis_ports: Sequence[int], folder: Path) -> None:
    """Lose all that the store has: FLUSHALL, or without a Redis the file of SQLite is deleted."""
    for port in redis_ports:
        await _command(port, "FLUSHALL")
    if not redis_ports:
        _delete_files(folder)


def _delete_files(folder: Path) -> None:
    for path in folder.glob("store.db*"):
        path.unlink(missing_ok=True)  # A worker may delete a file of SQLite itself meanwhile.


async def _command(port: int, *words: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    parts = b"".join(b"$%d\r\n%b\r\n" % (len(word.encode()), word.encode()) for word in words)
    writer.write(b"*%d\r\n" % len(words) + parts)
    answer = await reader.readline()
    writer.close()
    if answer.startswith(b"-"):
        raise RuntimeError(answer.decode())
