"""Two regions on two addresses of this machine, behind a proxy with a file of docs/deployment/."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from support.stores.balancers import CONFIGURATIONS, NGINX, STARTS, lasting_ports, required, wait_until_ready

SERVER = Path(__file__).with_name("region_server.py")
FILES = {"haproxy": "regions.cfg", "nginx": "regions.conf"}
ADDRESSES = {"europe": "127.0.0.1:8001", "america": "127.0.0.2:8002"}
KEY = "5a" * 32


class Regions:
    """A server with a store of its own for each region, and a proxy that sends each session to its region."""

    def __init__(self, program: str, folder: Path, keys: dict[str, str]) -> None:
        self.program = program
        self.folder = folder
        self.keys = keys
        port, peers, *ports = lasting_ports(len(ADDRESSES) + 2)
        self.port = port
        self.peers = peers
        self.ports = dict(zip(ADDRESSES, ports, strict=True))
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.proxy: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The endpoint of all regions."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        """Start the regions, then the proxy."""
        for name, address in ADDRESSES.items():
            host = address.partition(":")[0]
            store = f"sqlite:///{self.folder}/{name}.db"
            command = [sys.executable, str(SERVER), name, host, str(self.ports[name]), store, self.keys[name]]
            self.servers[name] = subprocess.Popen(command)
        for name, address in ADDRESSES.items():
            wait_until_ready(f"http://{address.partition(':')[0]}:{self.ports[name]}/readyz")
        file = self.folder / FILES[self.program]
        file.write_text(self._configuration())
        command = ["haproxy", "-db", "-q", "-L", "proxy1", "-f", str(file)]
        if self.program == "nginx":
            main = self.folder / "nginx.conf"
            main.write_text(NGINX.format(folder=self.folder).replace("mcp.conf", file.name))
            command = ["nginx", "-c", str(main), "-e", str(self.folder / "error.log")]
        self.proxy = subprocess.Popen(command)
        wait_until_ready(f"http://127.0.0.1:{self.port}/readyz")

    def kill(self, name: str) -> None:
        """Let a region go, without a word."""
        self.servers[name].send_signal(signal.SIGKILL)
        self.servers[name].wait(STARTS)

    def stop(self) -> None:
        """End all processes."""
        for process in (self.proxy, *self.servers.values()):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(STARTS)

    def _configuration(self) -> str:
        text = (CONFIGURATIONS / FILES[self.program]).read_text()
        for name, address in ADDRESSES.items():
            host = address.partition(":")[0]
            text, times = re.subn(rf"{re.escape(address)}\b", f"{host}:{self.ports[name]}", text)
            assert times >= 1, f"{FILES[self.program]} has no region at {address}"
        for port, own in ((8080, self.port), (8090, self.peers)):
            text = re.sub(rf"127\.0\.0\.1:{port}\b", f"127.0.0.1:{own}", text)
        return text


@contextmanager
def regions(program: str, folder: Path, *, shared_keys: bool = True) -> Generator[Regions]:
    """Start two regions behind a proxy; the test is skipped where the proxy is not installed."""
    required(program)
    keys = {"europe": KEY, "america": KEY if shared_keys else "a5" * 32}
    folder.chmod(0o777)  # The workers of a proxy run as another user.
    running = Regions(program, folder, keys)
    try:
        running.start()
        yield running
    finally:
        running.stop()
