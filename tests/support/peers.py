"""Names and exact versions of other projects' packages go in, environments of their own that hold them come out.

Each is made once, under build/peers/. Where that cannot be done, the test that asks is skipped, and says why.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.file_locks import lock_file
from support.installation.environments import create_environment, install_packages
from support.project import PEER_DRIVERS, ROOT

PEERS = ROOT / "build" / "peers"
LIMIT = 300  # Seconds one installation may take.
READY = 60  # Seconds until a server has to be ready.
# Gives the running test more seconds: what it installs first, from a registry that may be slow, does not count.
limit: ContextVar[Callable[[float], object] | None] = ContextVar("limit", default=None)


def python_peer(requirement: str) -> Path:
    """The interpreter of a virtual environment that holds packages, such as `mcp==2.3.0`, separated by spaces."""

    def install(folder: Path) -> None:
        install_packages(create_environment(folder), *requirement.split())

    return installed(requirement, install) / "bin" / "python"


def node_peer(requirement: str) -> Path:
    """The folder of an npm package, such as `left-pad@1.3.0`; its own programs are in node_modules/.bin."""
    missing = [program for program in ("node", "npm") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{requirement}: not on the PATH: {', '.join(missing)}")

    def install(folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n')  # Else npm looks for one in the folders above.
        # What packages would run while they are installed is not needed, and is not run.
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", requirement]
        subprocess.run(command, cwd=folder, check=True, timeout=LIMIT, capture_output=True, text=True)

    return installed(requirement, install)


def driven(python: Path, driver: str, *arguments: str, limit: float = 60.0) -> Any:
    """What a script of tests/support/peer_drivers/ prints as JSON when the peer's interpreter runs it."""
    script = PEER_DRIVERS / driver
    done = subprocess.run([python, script, *arguments], capture_output=True, text=True, timeout=limit, env=clean())
    assert done.returncode == 0, f"{driver} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return json.loads(done.stdout)


class Started(NamedTuple):
    """A server that is running, and the line by which it said that it is ready. Whoever started it ends it."""

    process: subprocess.Popen[str]
    output: str


def started(command: list[str], env: dict[str, str], ready: str) -> Started:
    """Start a server, and wait until it says a line that has this in it."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    assert server.stdout is not None
    timer = threading.Timer(READY, server.kill)
    timer.start()
    output = ""
    for line in server.stdout:
        output += line
        if ready in line:
            timer.cancel()
            # What it says later is read and dropped, because a full pipe would stop it.
            threading.Thread(target=server.stdout.read, daemon=True).start()
            return Started(server, line)
    raise AssertionError(f"{command[0]} ended with {server.wait()}:\n{output[-4000:]}")


@contextmanager
def example_served(name: str) -> Iterator[str]:
    """An example's server over HTTP, as the URL of its host; it is ended by SIGTERM, as it ought to end."""
    script = str(ROOT / "examples" / name / "server.py")
    server = started([sys.executable, script, "http", "--port", "0"], dict(os.environ), "listening at ")
    try:
        yield server.output.split("listening at ")[1].split()[0].removesuffix("/mcp")
    finally:
        server.process.terminate()
        assert server.process.wait(READY) in (0, -signal.SIGTERM)


def clean() -> dict[str, str]:
    """The environment without what would let the peer import our packages instead of its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "COV"))}


def installed(requirement: str, install: Callable[[Path], None]) -> Path:
    """The folder of a requirement, installed if it is not yet. Skips the test where installing fails."""
    folder = PEERS / re.sub(r"[^a-zA-Z0-9.]+", "-", requirement).strip("-")
    done = folder / "installed.txt"
    start = time.monotonic()
    with locked(folder):
        if not done.exists() or done.read_text() != requirement:
            print(f"installing {requirement} into {folder.relative_to(ROOT)} …", file=sys.stderr)
            try:
                install(folder)
            except (subprocess.SubprocessError, OSError) as error:
                error_lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
                reason = f"{requirement} cannot be installed: {error_lines[-1] if error_lines else error}"
                print(reason, file=sys.stderr)
                pytest.skip(reason)
            done.write_text(requirement)
    if (put_off := limit.get()) is not None:
        put_off(time.monotonic() - start)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other test processes out while this one makes something."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        lock_file(lock.fileno())
        yield


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder of this run, the same one in all its processes."""
    folder = factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Any]) -> Any:
    """Return what `make` returns, a JSON value, which the first process that asks makes."""
    file = run_folder(factory) / f"{name}.json"
    with locked(file):
        if not file.exists():
            file.write_text(json.dumps(make()))
    return json.loads(file.read_text())
