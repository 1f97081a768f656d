"""`mcp-codegen` as a child process, in an environment where the packages of this checkout are installed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.project import ROOT

# Hosts and clients pass few variables to a server, and this one is not among them.
INSTALLED = {
    "PYTHONPATH": os.pathsep.join(f"{ROOT}/{folder}" for folder in ("codegen", "runtime", "products", "generated"))
}
LIMIT = 60.0  # Seconds.


def command_line(*words: str | Path) -> list[str]:
    """The words of a command that runs `mcp-codegen` in another process."""
    return [sys.executable, "-m", "mcp_codegen", *map(str, words)]


def mcp_codegen(
    *words: str | Path, folder: Path | None = None, env: Mapping[str, str] | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `mcp-codegen` in a folder until it ends, with this text as its standard input."""
    environment = {**os.environ, **INSTALLED, **(env or {})}
    return subprocess.run(
        command_line(*words), cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=LIMIT
    )


@contextmanager
def listening(command: list[str], port: int, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a command that serves HTTP, from the moment that its port accepts connections; end it with SIGTERM."""
    environment = {**os.environ, **INSTALLED, **(env or {})}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for_port(port, process)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(LIMIT)
            finally:
                process.kill()


def wait_for_port(port: int, process: subprocess.Popen[str]) -> None:
    """Wait until a port accepts connections. Raises AssertionError if the process ends before."""
    deadline = time.monotonic() + LIMIT
    while True:
        assert process.poll() is None and time.monotonic() < deadline, f"nothing listens on {port}: {process.poll()}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
