"""The command `dev`: a server that starts again when its files change, and the MCP Inspector with it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from ...errors import CodegenError
from ...servers.hosts.env_files import variables_of
from ...servers.local import launch_command
from ...testkit.processes import kill_group, start_group, terminate_group
from ..options import FOLDER, report_errors
from .file_watcher import FileWatcher
from .run import chosen_server, with_env, with_env_file

_INSPECTOR: Final = "@modelcontextprotocol/inspector"
_INTERVAL: Final = 0.5  # Seconds between two looks at the files.
_GRACE: Final = 5.0  # Seconds that a process has to end.


@click.command("dev", short_help="Run a server that starts again when files change.")
@click.argument("server", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "--module", metavar="MODULE", help="Run the server of this module instead: package.module[:name].")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free port.")
@click.option("--path", default="/mcp", show_default=True, help="The path of the endpoint.")
@click.option("--watch", "folders", multiple=True, type=FOLDER, metavar="DIR", help="Watch this folder as well.")
@click.option("--inspector/--no-inspector", default=True, help="Start the MCP Inspector with it. Default: yes.")
@with_env
@with_env_file
@report_errors
def develop(
    *,
    server: str | None,
    arguments: tuple[str, ...],
    module: str | None,
    host: str,
    port: int,
    path: str,
    folders: tuple[Path, ...],
    inspector: bool,
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
) -> None:
    """Serve a Python file over HTTP, start it again when a file of its folder changes, and open the MCP Inspector.

    Sessions end with the process: a client with a session connects again. Ctrl-C ends all.
    """
    target, arguments = chosen_server(server, module, arguments)
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        raise CodegenError(f"{', '.join(missing)}: this folder does not exist; pass a folder to --watch")
    port = port or _free_port(host)
    command = launch_command(
        target, module=module is not None, http=True, host=host, port=port, path=path, arguments=arguments
    )
    env = {**os.environ, **variables_of(variables, env_files), "PYTHONUNBUFFERED": "1"}
    root = Path.cwd() if module is not None else Path(target.rpartition(":")[0] or target).parent
    watcher = FileWatcher([root if root.is_dir() else Path.cwd(), *folders])
    stopped = threading.Event()
    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), lambda number, frame: stopped.set())
    process = _start(command, env)
    inspector_process = _start_inspector(f"http://{host}:{port}{path}", env) if inspector else None
    try:
        _supervise(command, env, process, watcher, stopped)
    finally:
        if inspector_process is not None:
            _end(inspector_process)


def _supervise(
    command: tuple[str, ...],
    env: Mapping[str, str],
    process: subprocess.Popen[bytes],
    watcher: FileWatcher,
    stopped: threading.Event,
) -> None:
    """Start the command again at each change, until the event is set."""
    reported = False
    try:
        while not stopped.wait(_INTERVAL):
            changes = watcher.changes()
            if changes:
                more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
                _say(f"{changes[0].name}{more} changed: the server starts again")
                _end(process)
                process, reported = _start(command, env), False
            elif process.poll() is not None and not reported:
                _say(f"the server ended with exit code {process.returncode}; it starts again when a file changes")
                reported = True
    finally:
        _end(process)


def _start(command: tuple[str, ...], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return start_group(command, stdin=subprocess.DEVNULL, env=env)


def _start_inspector(url: str, env: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    """Start the MCP Inspector with npx, and say so if there is none."""
    npx = shutil.which("npx")
    if npx is None:
        _say("the MCP Inspector was not started: npx (Node.js) is not on the PATH")
        return None
    _say(f"the MCP Inspector starts for {url}; --no-inspector does without it")
    return _start((npx, "-y", _INSPECTOR, "--transport", "http", "--server-url", url), env)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    if process.poll() is not None:
        return
    terminate_group(process)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.wait()


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _say(text: str) -> None:
    click.secho(f"dev: {text}", fg="cyan", err=True)
    sys.stderr.flush()
