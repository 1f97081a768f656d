"""The commands `run`, for which this process becomes the server, and `dev`, which starts it again when files change.

`dev` opens the MCP Inspector as well, and serves a page of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import click

from ...errors import CodegenError
from ...servers.environment import variables_of
from ...servers.probe import (
    entry_of,
    foreign_command,
    is_module,
    is_python_file,
    launch_command,
    require_python_file,
    split_server,
)
from ...testkit.processes import kill_group, start_group, terminate_group
from ..options import FILE, FOLDER, report_errors

with_env: Final = click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the server. May be repeated."
)
with_env_file: Final = click.option(
    "--env-file", "env_files", multiple=True, type=FILE, metavar="FILE", help="A file of variables, such as .env."
)
_SUFFIXES: Final = frozenset({".py", ".toml", ".env", ".yaml", ".yml"})
_IGNORED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
_MAX_FILES: Final = 20_000  # More would make a round of polling slow.

_INSPECTOR: Final = "@modelcontextprotocol/inspector"
_INTERVAL: Final = 0.5  # Seconds between two looks at the files.
_GRACE: Final = 5.0  # Seconds that a process has to end.
_PAGE: Final = "/dev"  # It is for browsers of this machine only.
_LOCAL: Final = {  # Where they find a server that listens on these addresses.
    **{"127.0.0.1": "127.0.0.1", "localhost": "localhost", "0.0.0.0": "127.0.0.1"},
    **{"::1": "[::1]", "::": "[::1]"},
}


@click.command("run", short_help="Run the server of a file or module.")
@click.argument("server", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "--module", metavar="MODULE", help="Run the server of this module instead: package.module[:name].")
@click.option("--http", is_flag=True, help="Serve over Streamable HTTP. Default: stdio.")
@click.option(
    "-t",
    "--transport",
    type=click.Choice(["stdio", "http", "streamable-http"]),
    help="The transport; http is the same as --http.",
)
@click.option("--host", help="The address to listen on, with --http. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port, with --http; 0 takes a free one. Default: 8000.")
@click.option("--path", help="The path of the endpoint, with --http. Default: /mcp.")
@with_env
@with_env_file
@report_errors
def run(
    *,
    server: str | None,
    arguments: tuple[str, ...],
    module: str | None,
    http: bool,
    transport: str | None,
    host: str | None,
    port: int | None,
    path: str | None,
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
) -> None:
    """Run the App or Server of a Python file or module: server.py, or server.py:name where it has several.

    \b
    name may be a function that returns the server. What follows -- is sys.argv of the file:
    mcp-generated run server.py --http --port 8000 -- --database notes.db
    """
    if http and transport == "stdio":
        raise CodegenError("--http and --transport stdio exclude each other; pass one of them")
    http = http or transport in ("http", "streamable-http")
    passed = [name for name, value in (("--host", host), ("--port", port), ("--path", path)) if value is not None]
    if passed and not http:
        raise CodegenError(f"{', '.join(passed)}: only for HTTP; add --http")
    target, module, arguments = chosen_server(server, module, arguments)
    where: Any = {"host": host, "path": path}
    foreign = _foreign(target) if module is None else None
    if foreign is not None and http:
        raise CodegenError(
            f"{target}: is a server of another SDK, which serves HTTP by its own settings; over stdio, run it without "
            f"--http, and mcp-generated bridge {target} --http :8000 serves it"
        )
    own = launch_command(target, module=module is not None, http=http, port=port, arguments=arguments, **where)
    command = own if foreign is None else (*foreign, *arguments)
    replace_process(command, {**os.environ, **variables_of(variables, env_files)})


def _foreign(target: str) -> tuple[str, ...] | None:
    place, name = split_server(target)
    return foreign_command(Path(place), name) if place.endswith(".py") else None


def option_words(settings: Mapping[str, object]) -> list[str]:
    """Return options as words; a value may begin with a hyphen, and a list has several."""
    words: list[str] = []
    for name, value in settings.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, tuple):
            words += [f"{option}={item}" for item in cast("tuple[object, ...]", value)]
        elif value is not None and value is not False:
            words.append(f"{option}={value}")
    return words


def chosen_server(
    server: str | None, module: str | None, arguments: tuple[str, ...]
) -> tuple[str, str | None, tuple[str, ...]]:
    """Return the server to run, the same again if it is a module, and its arguments. Raises CodegenError if there is
    no such file, or if it is a server that runs elsewhere."""
    if module is not None:
        return module, module, arguments if server is None else (server, *arguments)
    if server is None:
        raise CodegenError("no server was named; pass the Python file of a server, or -m MODULE")
    if server.startswith(("http://", "https://")) or entry_of(server) is not None:
        raise CodegenError(f"{server}: is not a server of this machine's Python; to serve it here: bridge {server}")
    if not is_python_file(server) and is_module(server):
        return server, server, arguments
    require_python_file(server)
    return server, None, arguments


def replace_process(command: tuple[str, ...], environment: dict[str, str]) -> None:
    """Replace this process by the command, so that signals and standard streams reach it directly."""
    sys.stdout.flush()
    if os.name != "nt":
        os.execve(command[0], command, environment)
    process = subprocess.Popen(command, env=environment)  # Windows would end this process at once.
    while True:
        try:
            raise SystemExit(process.wait())
        except KeyboardInterrupt:
            continue  # The server got it too, and ends.


# Changes of the files below folders, by polling: it needs no package and works on network drives.


class FileWatcher:
    """The state of the files below some folders; `changes` compares it with the state before."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._state = self._read()

    def changes(self) -> list[Path]:
        """Return the files that were written, added or removed since the last call, in order."""
        before = self._state
        self._state = self._read()
        return sorted({path for path, _ in before.items() ^ self._state.items()})

    def _read(self) -> dict[Path, tuple[int, int]]:
        state: dict[Path, tuple[int, int]] = {}
        for folder in self._folders:
            for path in _files(folder):
                try:
                    status = path.stat()
                except OSError:
                    continue  # It was removed meanwhile.
                state[path] = (status.st_mtime_ns, status.st_size)
                if len(state) >= _MAX_FILES:
                    return state
        return state


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _IGNORED and not Path(root, name, "pyvenv.cfg").is_file()
        )
        yield from (Path(root, name) for name in sorted(names) if Path(name).suffix in _SUFFIXES or name == ".env")


# The command `dev`: a server that starts again when its files change, and the MCP Inspector with it.


@click.command("dev", short_help="Run it again when files change, with the MCP Inspector.")
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

    The page /dev beside the endpoint has a form for each tool, and shows results and views.

    Sessions end with the process: a client with a session connects again. Ctrl-C ends all.
    """
    target, module, arguments = chosen_server(server, module, arguments)
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        raise CodegenError(f"{', '.join(missing)}: this folder does not exist; pass a folder to --watch")
    if module is None and _foreign(target) is not None:
        raise CodegenError(f"{target}: is a server of another SDK; dev takes one with an App or Server")
    if path in (_PAGE, f"{_PAGE}/view"):
        raise CodegenError(f"--path {path}: is that of the page of dev; pass another path")
    port = port or _free_port(host)
    where: Any = {"host": host, "port": port, "path": path, "page": host in _LOCAL}
    command = launch_command(target, module=module is not None, http=True, arguments=arguments, **where)
    env = {**os.environ, **variables_of(variables, env_files), "PYTHONUNBUFFERED": "1"}
    root = Path.cwd() if module is not None else Path(target.rpartition(":")[0] or target).parent
    watcher = FileWatcher([root if root.is_dir() else Path.cwd(), *folders])
    stopped = threading.Event()
    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), lambda number, frame: stopped.set())
    process = _start(command, env)
    if host in _LOCAL:
        _say(f"its tools, with forms and views: http://{_LOCAL[host]}:{port}{_PAGE}")
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
