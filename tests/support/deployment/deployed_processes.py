"""The programs that the files of examples/deployment/ name, started with their commands on free ports."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.deployment.deployment_files import COMPOSE, FOLDER, NGINX, SERVERS, image_command
from support.stores.balancers import lasting_ports, required, wait_until_ready

ENDS = 30.0  # Seconds for a process to end.


class Deployed:
    """Processes by the names that they have in a file, on ports of this machine instead of theirs."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        self.ports = dict(zip(names, lasting_ports(len(names)), strict=True))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start_redis(self, name: str, words: list[str]) -> None:
        """Start the Redis of a command, with its data in the folder."""
        if shutil.which(words[0]) is None:
            pytest.skip("there is no redis-server here (apt-get install redis-server)")
        more = ["--port", str(self.ports[name]), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        self.processes[name] = subprocess.Popen([*words, *more], stdout=subprocess.DEVNULL)

    def start_server(self, name: str, environment: dict[str, str], words: list[str], redis: str) -> None:
        """Start a server with the environment of a file; the name of its Redis is an address of this machine."""
        own = {"MCP_HOST": "127.0.0.1", "MCP_PORT": str(self.ports[name])}
        if redis in self.ports:
            own["MCP_STORE"] = environment["MCP_STORE"].replace(f"{redis}:6379", f"127.0.0.1:{self.ports[redis]}")
            assert own["MCP_STORE"] != environment["MCP_STORE"]
        command = [sys.executable, *words[1:]]
        self.processes[name] = subprocess.Popen(command, cwd=FOLDER, env={**os.environ, **environment, **own})

    def start_nginx(self) -> None:
        """Start nginx with the file, in which only addresses and the places of its files are others."""
        required("nginx")
        text = NGINX
        for name in SERVERS:
            text, times = re.subn(rf"\b{name}:8000\b", f"127.0.0.1:{self.ports[name]}", text)
            assert times == 1, f"nginx.conf has no server {name}"
        text, times = re.subn(r"listen 80;", f"listen 127.0.0.1:{self.ports['nginx']};", text)
        assert times == 1
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = "".join(f"{kind}_temp_path {self.folder}/{kind};\n" for kind in kinds)
        self.folder.chmod(0o777)  # Its workers run as another user.
        (self.folder / "nginx.conf").write_text(text.replace("http {\n", f"http {{\n{places}", 1))
        main = f"daemon off; pid {self.folder}/nginx.pid;"
        log = str(self.folder / "error.log")
        command = ["nginx", "-c", str(self.folder / "nginx.conf"), "-e", log, "-g", main]
        tried = subprocess.run([*command, "-t"], capture_output=True, text=True)
        assert tried.returncode == 0 and "[warn]" not in tried.stderr, tried.stderr
        self.processes["nginx"] = subprocess.Popen(command)

    def url(self, name: str, path: str) -> str:
        """The URL of a path of a process."""
        return f"http://127.0.0.1:{self.ports[name]}{path}"

    def end(self, name: str, number: int = signal.SIGTERM) -> int:
        """Send a process a signal, and return its exit code."""
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(ENDS)

    def stop(self) -> None:
        """End all processes, servers before their Redis."""
        for name in reversed(list(self.processes)):
            self.end(name)


def compose_up(folder: Path, environment: dict[str, str]) -> Deployed:
    """Start what compose.yaml starts: Redis, three servers and nginx."""
    required("nginx")
    deployed = Deployed(folder, ["redis", *SERVERS, "nginx"])
    try:
        deployed.start_redis("redis", COMPOSE["services"]["redis"]["command"])
        for name in SERVERS:
            deployed.start_server(name, environment, image_command(), "redis")
        for name in SERVERS:
            wait_until_ready(deployed.url(name, "/readyz"))
        deployed.start_nginx()
        wait_until_ready(deployed.url("nginx", "/healthz"))
    except BaseException:
        deployed.stop()
        raise
    return deployed
