"""Time that passes for a store, and stores that lose what they had.

A store in memory or in SQLite reads the clock of the runtime. The keys of a Redis expire by its own clock, which no
test moves: when time passes, a script shortens the time to live of each key by as much, in the real Redis, and deletes
the keys whose time is over. So the commands, the scripts and the deletions are those of Redis; only who counts the
seconds is not. The time in the numbers of its streams is the real one.
"""

from __future__ import annotations

import asyncio
import copy
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from support.clock import MovableClock, settle
from support.stores.clusters import redis_cluster

from mcp_products.workers.stores.memory import InMemoryStore

STEP = 5.0  # Seconds that pass at once while workers go on: less than those after which one counts as ended.
PASS = """
local passed, gone = tonumber(ARGV[1]), 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then gone = gone + redis.call('PEXPIRE', key, math.max(left - passed, 0)) end
end
return gone
"""
TABLES = ("records", "counters", "streams", "entries", "messages", "sqlite_sequence")
MEMORY = ("_records", "_counters", "_streams")


class Passing:
    """A store whose time passes with a clock, and that can lose all that it has, or what it had last."""

    def __init__(self, place: Any, clock: MovableClock) -> None:
        self.place = place
        self.clock = clock
        self._kept: Any = None
        self.losses = 0
        self.part = slice(None)  # The primaries of a cluster that lose what they have.
        self._opened: list[Any] = []

    def sleep(self, seconds: float) -> None:
        """Let time pass in which nothing runs: neither workers nor store nor clients."""
        self.clock.forward(seconds)
        if self._is_redis:
            for client in self._clients():
                client.eval(PASS, 0, int(seconds * 1000))

    async def quiet(self, seconds: float) -> None:
        """Let time pass in which clients do nothing, while workers go on."""
        while seconds > 0:
            self.sleep(min(STEP, seconds))
            seconds -= STEP
            await self.turns()

    async def turns(self) -> None:
        """Let workers do what is due."""
        await settle()
        if isinstance(self.place, InMemoryStore):
            return
        for _ in range(6):  # What is looked for every 20 ms is seen.
            if self._is_redis:
                for client in self._clients():
                    client.ping()  # It has answered what workers sent before, however busy the machine is.
            await asyncio.sleep(0.005)

    def lose(self) -> None:
        """Lose everything, as after FLUSHALL, or a start without what was there before."""
        self._replace(None)

    def keep(self) -> None:
        """Remember what there is, as a snapshot or a replica does."""
        if isinstance(self.place, InMemoryStore):
            self._kept = {name: copy.deepcopy(getattr(self.place, name)) for name in MEMORY}
        elif self._is_redis:
            self._kept = {
                client: [(key, client.pttl(key), client.dump(key)) for key in client.scan_iter()]
                for client in self._clients()
            }
        else:
            with closing(self._file()) as file:
                self._kept = {name: file.execute(f"SELECT * FROM {name}").fetchall() for name in TABLES}

    def go_back(self) -> None:
        """Have again what there was at `keep`, and nothing since."""
        self._replace(self._kept)

    def _replace(self, kept: Any) -> None:
        self.losses += 1
        if isinstance(self.place, InMemoryStore):
            for name in MEMORY:
                setattr(self.place, name, copy.deepcopy((kept or {}).get(name, {})))
        elif self._is_redis:
            for client in self._clients()[self.part]:
                client.flushdb()
                for key, left, value in (kept or {}).get(client, ()):
                    client.restore(key, max(left, 0), value)
        elif kept is None:
            for path in self._path.parent.glob(f"{self._path.name}*"):
                path.unlink()
        else:
            changes = self._path.with_name(f"{self._path.name}-changes")
            with closing(self._file()) as file:
                file.execute("BEGIN IMMEDIATE")
                counts = memoryview(bytearray(changes.read_bytes())).cast("Q")
                changes_now = b"".join(((count | 1) + 2).to_bytes(8, sys.byteorder) for count in counts)
                with changes.open("r+b") as opened:
                    opened.write(changes_now)
                for name in TABLES:
                    file.execute(f"DELETE FROM {name}")
                    for row in kept[name]:
                        file.execute(f"INSERT INTO {name} VALUES ({','.join('?' * len(row))})", row)
                file.execute("COMMIT")

    @property
    def _is_redis(self) -> bool:
        return str(self.place).startswith("redis")

    def _clients(self) -> list[Any]:
        """Return a client of the Redis, or of each primary of the cluster."""
        import redis

        client_class: Any = redis.Redis
        if not self._opened:
            is_cluster = "+cluster" in self.place
            urls = [f"redis://127.0.0.1:{port}" for port in redis_cluster().primaries()] if is_cluster else [self.place]
            self._opened = [client_class.from_url(url) for url in urls]
        return self._opened

    def _file(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None, timeout=10)

    @property
    def _path(self) -> Path:
        return Path(str(self.place).removeprefix("sqlite:///"))
