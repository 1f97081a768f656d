"""A PostgreSQL server of its own, at a free port, in a temporary folder, run by a user without privileges."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.peers import python_peer
from support.processes import free_port

_DRIVER = "asyncpg==0.31.0"
_LIMIT = 60.0  # Seconds for each program of PostgreSQL.
_UNPRIVILEGED = ("postgres", "nobody")  # PostgreSQL refuses to run as root.


class Postgres:
    """A running server, whose only database is `shop`."""

    def __init__(self, programs: Path, port: int) -> None:
        self._programs = programs
        self.port = port

    def url(self, role: str) -> str:
        return f"postgresql://{role}:{role}@127.0.0.1:{self.port}/shop"

    def run(self, sql: str, database: str = "shop") -> str:
        """Run statements as the superuser, and return what they select, without headings."""
        words = [
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "admin",
            "-d",
            database,
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        command = [str(self._programs / "psql"), *words, "-c", sql]
        env = {**os.environ, "PGPASSWORD": "admin"}
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=_LIMIT).stdout


def environment_with_driver() -> dict[str, str]:
    """The environment of a program that has our packages, and the driver of a virtual environment."""
    [packages] = (python_peer(_DRIVER).parents[1] / "lib").glob("python3*/site-packages")
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(packages)]).strip(os.pathsep)
    return {**os.environ, "PYTHONPATH": path}


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Start a server, and end it. Skips the test where PostgreSQL is not installed."""
    programs = _programs()
    user = next(name for name in _UNPRIVILEGED if _exists(name)) if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        (folder / "password").write_text("admin")
        if user is not None:
            for path in (folder, folder / "password"):
                shutil.chown(path, user)
        create = [
            "--username=admin",
            f"--pwfile={folder}/password",
            "--auth=scram-sha-256",
            "--no-sync",
            "--encoding=UTF8",
        ]
        _run(user, programs / "initdb", f"--pgdata={folder}/data", *create, "--locale=C")
        server = Postgres(programs, free_port())
        options = f"-p {server.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        control = (programs / "pg_ctl", f"--pgdata={folder}/data", "--wait")
        _run(user, *control, f"--log={folder}/log", f"--options={options}", "start")
        try:
            server.run("CREATE DATABASE shop", "postgres")
            yield server
        finally:
            _run(user, *control, "--mode=immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """Return the folder of the newest version; Debian has them in no folder of PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    initdb = str(versions[-1]) if versions else shutil.which("initdb")
    if initdb is None:
        pytest.skip("there is no PostgreSQL here (apt-get install postgresql)")
    return Path(initdb).parent


def _exists(name: str) -> bool:
    import pwd  # Of POSIX: tests that need no server import this module on each system.

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _run(user: str | None, *command: str | Path) -> None:
    # Not the output of pg_ctl, which its server inherits: it would never end.
    done = subprocess.run(
        [str(word) for word in command],
        user=user,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_LIMIT,
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"
