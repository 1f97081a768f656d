"""Several servers that share a store, behind nginx or HAProxy with the configurations of docs/deployment/."""

from __future__ import annotations

import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from support.project import ROOT

CONFIGURATIONS = ROOT / "docs" / "deployment"
SERVER = Path(__file__).with_name("shared_server.py")
BALANCERS = ("nginx", "haproxy")
COUNT = 4
STARTS = 60.0  # Seconds for a process to serve.
NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/mcp.conf;
}}
"""


def lasting_ports(count: int, besides: int = 0) -> list[int]:
    """Ports that the system gives to no outgoing connection while a server restarts, and those above them by as much:
    a node of a Redis Cluster has its bus there."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000 - besides, 32_000 - besides)
        with suppress(OSError), ExitStack() as taken:
            for used in {port, port + besides}:
                taken.enter_context(socket.create_server(("127.0.0.1", used)))
            ports += [port] if port not in ports else []
    return ports


class Balanced:
    """Servers of one file, and what distributes requests to them."""

    def __init__(self, file: Path, store: str, program: str, folder: Path) -> None:
        self.file = file
        self.store = store
        self.program = program
        self.folder = folder
        port, *ports = lasting_ports(COUNT + 1)
        self.port = port
        self.ports = ports
        self.servers: dict[int, subprocess.Popen[bytes]] = {}
        self.balancer: subprocess.Popen[bytes] | None = None

    @property
    def origin(self) -> str:
        """The URL of the proxy, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the servers, then the proxy, and wait until it passes requests."""
        for port in self.ports:
            self.start_server(port)
        for port in self.ports:
            wait_until_ready(f"http://127.0.0.1:{port}/readyz")
        if self.program == "nginx":
            (self.folder / "mcp.conf").write_text(self._configuration("nginx.conf"))
            main = self.folder / "nginx.conf"
            main.write_text(NGINX.format(folder=self.folder))
            command = ["nginx", "-c", str(main), "-e", str(self.folder / "error.log")]
        else:
            (self.folder / "haproxy.cfg").write_text(self._configuration("haproxy.cfg"))
            command = ["haproxy", "-db", "-q", "-f", str(self.folder / "haproxy.cfg")]
        self.balancer = subprocess.Popen(command)
        wait_until_ready(f"{self.origin}/readyz")

    def start_server(self, port: int) -> None:
        """Start a server at one of the ports."""
        self.servers[port] = subprocess.Popen([sys.executable, str(SERVER), str(self.file), self.store, str(port)])

    def restart(self, port: int) -> int:
        """End a server as a rolling restart does, and start it again; return its exit code."""
        old = self.servers[port]
        old.send_signal(signal.SIGTERM)
        code = old.wait(STARTS)
        self.start_server(port)
        wait_until_ready(f"http://127.0.0.1:{port}/readyz")
        return code

    def stop(self) -> None:
        """End all processes."""
        for process in (self.balancer, *self.servers.values()):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(STARTS)

    def _configuration(self, name: str) -> str:
        text = (CONFIGURATIONS / name).read_text()
        for number, port in enumerate(self.ports, 1):
            text, times = re.subn(rf"127\.0\.0\.1:800{number}\b", f"127.0.0.1:{port}", text)
            assert times == 1, f"{name} has no server at 127.0.0.1:800{number}"
        text, times = re.subn(r"127\.0\.0\.1:8080\b", f"127.0.0.1:{self.port}", text)
        assert times == 1, f"{name} does not listen at 127.0.0.1:8080"
        return text


def wait_until_ready(url: str) -> None:
    until = time.monotonic() + STARTS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < until, f"{url} does not answer"
            time.sleep(0.05)


def required(program: str) -> None:
    """Skip the test where a proxy is not installed."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed (apt-get install {program}{'-light' if program == 'nginx' else ''})")


@contextmanager
def balanced(file: Path, store: str, program: str, folder: Path) -> Iterator[Balanced]:
    """Servers of a file behind a proxy; the test is skipped where the proxy is not installed."""
    required(program)
    running = Balanced(file, store, program, folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()
