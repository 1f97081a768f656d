"""A Redis Cluster of this machine: three primaries and a replica of each, whose nodes tests kill and whose slots they
move."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection
from contextlib import closing, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.processes import end_with_session, free_port
from support.systems import PATIENCE

NODES = 6
SILENT_MILLISECONDS = 1_000  # After which the others count a node as failed.
PATIENT_SECONDS = 30.0 * PATIENCE
SLOTS = 16_384
CLIENT_PORTS = 32_000  # The first that systems may give to clients.
BUS = 10_000  # The port on which nodes talk to each other is so much above that for clients.


class Cluster:
    """Processes of redis-server that are one cluster."""

    def __init__(self, program: str) -> None:
        """Start the nodes, and wait until they agree."""
        self._program = program
        self._folder = Path(tempfile.mkdtemp())
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        while len(self.processes) < NODES:
            self.start(_free_port(self.processes))
        self.ports = tuple(self.processes)
        self._create()
        self.wait_until_well()

    @property
    def url(self) -> str:
        """What `store=` takes."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, port: int) -> None:
        """Start a node, or start it again."""
        folder = self._folder / str(port)
        folder.mkdir(exist_ok=True)
        options = {"port": port, "bind": "127.0.0.1", "dir": folder, "save": "", "appendonly": "no"}
        options |= {"cluster-enabled": "yes", "cluster-node-timeout": SILENT_MILLISECONDS}
        options |= {"repl-diskless-sync-delay": 0, "cluster-port": port + BUS}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.processes[port] = subprocess.Popen([self._program, *words], stdout=subprocess.DEVNULL)
        end_with_session(self.processes[port])

    def run(self, port: int, *command: Any) -> Any:
        """Return the answer of a node to a command; wait until it runs."""
        import redis
        from redis.exceptions import BusyLoadingError, ConnectionError

        until = time.monotonic() + PATIENT_SECONDS
        while True:
            try:
                client: Any = redis.Redis(port=port, decode_responses=True)
                with closing(client):
                    return client.execute_command(*command)
            except (ConnectionError, BusyLoadingError):
                assert time.monotonic() < until, f"the node at {port} does not answer"
                time.sleep(0.02)

    def nodes(self, port: int) -> list[dict[str, Any]]:
        """Return what a node knows of all: their names, ports, roles and slots."""
        answer: dict[str, dict[str, Any]] = self.run(port, "CLUSTER NODES")
        return [
            {
                "name": node["node_id"],
                "port": int(address.split("@")[0].rpartition(":")[2]),
                "flags": node["flags"].split(","),
                "slots": node["slots"],
            }
            for address, node in answer.items()
        ]

    def primaries(self) -> list[int]:
        """Return the ports of the nodes that have slots, as a node that runs knows them."""
        return [
            node["port"]
            for node in self.nodes(self._running())
            if "master" in node["flags"] and "fail" not in node["flags"] and node["slots"]
        ]

    def has(self, port: int, slot: int) -> bool:
        """Return True if a node has a slot."""
        return any(_has(node, slot) for node in self.nodes(port) if node["port"] == port)

    def flush(self) -> None:
        """Delete everything."""
        for port in self.primaries():
            self.run(port, "FLUSHALL")

    def kill(self, port: int) -> None:
        """End a node without a goodbye."""
        self.processes[port].kill()
        self.processes[port].wait()

    def move(self, slot: int, to: int) -> None:
        """Move a slot with its keys to another primary, as `redis-cli --cluster reshard` does."""
        nodes = {node["port"]: node for node in self.nodes(self._running())}
        owner = next(port for port, node in nodes.items() if _has(node, slot))
        if owner == to:
            return
        self.run(to, "CLUSTER SETSLOT", slot, "IMPORTING", nodes[owner]["name"])
        self.run(owner, "CLUSTER SETSLOT", slot, "MIGRATING", nodes[to]["name"])
        while keys := self.run(owner, "CLUSTER GETKEYSINSLOT", slot, 100):
            self.run(owner, "MIGRATE", "127.0.0.1", to, "", 0, 5_000, "KEYS", *keys)
        for port in (to, owner):
            self.run(port, "CLUSTER SETSLOT", slot, "NODE", nodes[to]["name"])

    def wait_until_well(self) -> None:
        """Wait until every node knows all slots, and each primary has a replica that is in step."""
        until = time.monotonic() + PATIENT_SECONDS
        while not self._is_well():
            assert time.monotonic() < until, "the cluster is not well"
            time.sleep(0.05)

    def _is_well(self) -> bool:
        for port, process in self.processes.items():
            if process.poll() is not None:
                return False
            info = self.run(port, "CLUSTER INFO")
            if info["cluster_state"] != "ok" or int(info["cluster_known_nodes"]) != NODES:
                return False
        primaries = self.primaries()
        linked = [self.run(port, "INFO", "replication") for port in primaries]
        return len(primaries) == NODES // 2 and all(info["connected_slaves"] == 1 for info in linked)

    def _running(self) -> int:
        return next(port for port, process in self.processes.items() if process.poll() is None)

    def _create(self) -> None:
        primaries, replicas = self.ports[: NODES // 2], self.ports[NODES // 2 :]
        share = SLOTS // len(primaries)
        for number, port in enumerate(primaries):
            last = SLOTS - 1 if number == len(primaries) - 1 else (number + 1) * share - 1
            self.run(port, "CLUSTER ADDSLOTSRANGE", number * share, last)
            self.run(port, "CLUSTER SET-CONFIG-EPOCH", number + 1)
        for port in self.ports[1:]:
            self.run(port, "CLUSTER MEET", "127.0.0.1", self.ports[0])
        until = time.monotonic() + PATIENT_SECONDS
        while any(int(self.run(port, "CLUSTER INFO")["cluster_known_nodes"]) < NODES for port in self.ports):
            assert time.monotonic() < until, "the nodes do not meet"
            time.sleep(0.02)
        for primary, replica in zip(primaries, replicas, strict=True):
            self.run(replica, "CLUSTER REPLICATE", self.run(primary, "CLUSTER MYID"))


def _free_port(taken: Collection[int]) -> int:
    """Return a free port whose bus is free too, and is none of those that systems give to clients."""
    while True:
        port = free_port()
        if port + BUS >= CLIENT_PORTS or {port, port + BUS, port - BUS} & {*taken}:
            continue
        with socket.socket() as bus, suppress(OSError):
            bus.bind(("127.0.0.1", port + BUS))
            return port


def _has(node: dict[str, Any], slot: int) -> bool:
    ranges = node["slots"] if "master" in node["flags"] else ()
    return any(int(item[0]) <= slot <= int(item[-1]) for item in ranges)


@cache
def redis_cluster() -> Cluster:
    """A cluster that all tests of this process share; a test is skipped where there can be none."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("there is no redis-server here (apt-get install redis-server)")
    if find_spec("redis") is None:
        pytest.skip("redis-py is not installed (pip install redis)")
    return Cluster(program)
