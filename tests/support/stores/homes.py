"""The stores that the tests of stores run against: in memory, in a SQLite file, and in Redis of this machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.processes import end_with_session, free_port
from support.stores.clusters import redis_cluster

from mcp_products.workers.stores.memory import InMemoryStore
from mcp_products.workers.stores.urls import open_store

CLUSTER = pytest.param("cluster", marks=pytest.mark.exhaustive)
HOMES = ("memory", "sqlite", "redis", CLUSTER)
SHARED = ("sqlite", "redis", CLUSTER)  # Those that other processes can use as well.
# Memory in the fast suite, the others in the long one: what differs between them has tests of its own.
FEW_HOMES = ("memory", *(pytest.param(home, marks=pytest.mark.long) for home in ("sqlite", "redis")), CLUSTER)
STARTS = 10.0  # Seconds for a Redis to start.


@cache
def redis_url() -> str:
    """The URL of a Redis that all tests of this process share; a test is skipped where there is none."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("there is no redis-server here (apt-get install redis-server)")
    if find_spec("redis") is None:
        pytest.skip("redis-py is not installed (pip install redis)")
    port, folder = free_port(), tempfile.mkdtemp()
    options = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": folder}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    end_with_session(process)
    until = time.monotonic() + STARTS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < until, "redis-server does not start"
            time.sleep(0.01)
    return f"redis://127.0.0.1:{port}"


@cache
def _databases() -> list[int]:
    return [0]


def place_of(home: str, folder: Path) -> Any:
    """What `store=` takes for an empty store of this home: a URL, or the store in memory itself."""
    if home == "memory":
        return InMemoryStore()
    if home == "sqlite":
        return f"sqlite:///{folder}/store.db"
    if home == "cluster":
        redis_cluster().flush()
        return redis_cluster().url
    numbers = _databases()
    numbers[0] += 1
    url = f"{redis_url()}/{numbers[0] % 16}"
    from redis import Redis

    Redis.from_url(url).flushdb()
    return url


def open_home(place: Any) -> Any:
    """One more opening of the same store, as another worker has it."""
    return place if isinstance(place, InMemoryStore) else open_store("asgi", place)
