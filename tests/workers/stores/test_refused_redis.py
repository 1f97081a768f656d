"""What is not a single Redis is refused at once, with its reason."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.processes import free_port

from mcp_generated import App, LocalError
from mcp_products.workers.stores.urls import open_store

redis = pytest.importorskip("redis", reason="redis-py is not installed (pip install redis)")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[int]:
    """A redis-server with options; its port."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server here (apt-get install redis-server)")
    port = free_port()
    (folder / "redis.conf").write_text("")
    command = [program, str(folder / "redis.conf"), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as probe:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(1):  # It has begun to answer, which takes it a while on a busy machine.
                        break
            except OSError:
                continue
        assert process.poll() is None, "redis-server does not start"
        yield port
    finally:
        process.terminate()
        process.wait(10)


# Without a port of its own, the bus of a cluster has the port 10,000 above that of the server, which need not exist.
CLUSTER = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--save", "")


@pytest.mark.parametrize(
    ("options", "name"),
    [(CLUSTER, 'a Redis Cluster: write "redis+cluster://'), (("--sentinel",), "a Sentinel: write the URL of a Redis")],
    ids=["cluster", "sentinel"],
)
async def test_the_url_of_what_is_no_single_redis_is_refused(
    options: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    with serving(tmp_path, *options) as port:
        store: Any = open_store("asgi", f"redis://127.0.0.1:{port}")
        commands = (store.get("a"), store.put("a", b"1", 60), store.append("s", [b"1"], 60), store.count("c", 1, 60))
        refused = await asyncio.gather(*commands, return_exceptions=True)
        assert [type(error) for error in refused] == [LocalError] * 4
        assert all(f"the store is {name}" in str(error) for error in refused)
        with pytest.raises(LocalError, match=re.escape(name)):
            await store.get("a")
        await store.close()


async def test_an_application_with_the_url_of_a_cluster_does_not_start(tmp_path: Path) -> None:
    with serving(tmp_path, *CLUSTER) as port:
        application = App("clustered").asgi(store=f"redis://127.0.0.1:{port}")
        with pytest.raises(LocalError, match="a Redis Cluster: write "):
            await application.open()
        await application.close()
