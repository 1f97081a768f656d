"""The contract of a server: from a command, a file (also one of another SDK), a URL, a saved list, or an entry of a
configuration file.

A child process that runs `mcp_products.tooling.introspect` queries a live server, because the generator does not import
the runtime.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path, PureWindowsPath
from typing import Any, Final

from ..errors import CodegenError, SchemaError, is_list, is_object
from ..output import read_file, without_secrets
from ..testkit.processes import joined_command, split_command
from .contract import KINDS, Contract, read_contract

# A server in a Python file or module of this machine: the command that runs it.
#
# The process that runs it imports the runtime; the generator does not.

_METHODS_TIMEOUT: Final = 60  # Seconds to import a server.
_LAUNCH: Final = (sys.executable, "-P", "-m", "mcp_products.tooling.launch")  # -P: the current folder hides no module.

_MAX_BYTES: Final = 64 << 20  # Bytes of a saved list, or of a configuration.
_BINDINGS: Final = "mcp_generated"
_EXIT_TIMEOUT: Final = 15.0  # Seconds that the child process has to end the server after the time limit.
_FORM_TIMEOUT: Final = 600.0  # Seconds that a user has to answer forms.
_MAX_LINES: Final = 200  # Lines of the standard error of a server that are shown.
_LOGIN_TIMEOUT: Final = 300.0  # Seconds that a user has to log in.

_SDKS: Final = frozenset({"mcp", "fastmcp"})
_OURS: Final = frozenset({"mcp_generated", "mcp_products", "mcp_runtime"})
_CLASSES: Final = ("FastMCP", "MCPServer")
_ABOVE: Final = 6  # Folders above a file in which its environment is looked for.
_PYTHON: Final = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
# Runs the server of a file that leaves this to a command of its SDK, such as `fastmcp run`.
_RUN: Final = """import pathlib, runpy, sys
file, name = sys.argv[1:3]
sys.argv[:] = [file]
sys.path.insert(0, str(pathlib.Path(file).resolve().parent))
values = runpy.run_path(file)
(values[name] if name else next(value for value in values.values() if type(value).__name__ in %r)).run()
"""
_RUNNERS: Final = {
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".ts": "npx tsx",
    ".go": "go run",
    ".jar": "java -jar",
}
_ADDRESS: Final = re.compile(r"(localhost|\d+(\.\d+){3}|[\w-]+(\.[\w-]+)+)(:\d+)?(/\S*)?")


def is_python_file(text: str) -> bool:
    """Return True for `server.py` and `server.py:app`, whether they exist or not. A command has more words."""
    path, _ = split_server(text)
    return path.endswith(".py") and (" " not in text or Path(path).is_file())


def split_server(text: str) -> tuple[str, str]:
    """Return the file or module, and the name of the server in it, empty if there is none."""
    place, colon, name = text.rpartition(":")
    return (place, name) if colon and len(place) > 1 and name.isidentifier() else (text, "")


def require_python_file(text: str) -> Path:
    """Return the file of `server.py` or `server.py:app`. Raises CodegenError if it does not exist."""
    path = Path(split_server(text)[0])
    if not path.is_file():
        raise CodegenError(f"{path}: this file does not exist; pass the Python file of a server, or -m MODULE")
    if path.suffix != ".py":
        raise CodegenError(f"{path}: is not a Python file (.py); a command is passed after --, a module with -m")
    return path


def launch_command(
    server: str,
    *,
    module: bool = False,
    http: bool = False,
    host: str | None = None,
    port: int | None = None,
    path: str | None = None,
    page: bool = False,
    arguments: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the command that runs this server: `file.py[:name]`, or `package.module[:name]` with `module`.

    With `page` it serves the page of `dev` as well.
    """
    options = {"--host": host, "--port": None if port is None else str(port), "--path": path}
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    flags = ["--module"] * module + ["--http"] * http + ["--page"] * page
    return (*_LAUNCH, *flags, *words, "--", server, *arguments)


def environment() -> dict[str, str]:
    """Return the environment of this process: a server that its author starts gets all of it."""
    return dict(os.environ)


@dataclass(frozen=True, slots=True)
class Access:
    """The authorization for a server over HTTP: headers, or a login in a browser. `tokens` is the file that stores
    its tokens."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    login: bool = False
    tokens: Path | None = None


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server: a command with its environment and folder, or a URL, or a file with a saved list.

    `label` is how messages name it, where the command is not what the user typed.
    """

    command: tuple[str, ...] = ()
    url: str = field(default="", repr=False)
    saved: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    access: Access = Access()
    label: str = ""

    def __str__(self) -> str:
        return without_secrets(self.label or str(self.saved or self.url or joined_command(self.command)))


def is_module(text: str) -> bool:
    """Return True for `package.module` and `package.module:name` of this Python or of this folder, unless there is a
    program of that name."""
    place, _ = split_server(text)
    if not all(part.isidentifier() for part in place.split(".")) or Path(place).exists() or shutil.which(place):
        return False
    first, *others = place.split(".")
    return PathFinder.find_spec(first, [str(Path.cwd()), *sys.path]) is not None or bool(others)


def entry_of(text: str) -> tuple[Path, str] | None:
    """Return the file and the name of `mcp.json:name`, an entry of a host's configuration; None for something else."""
    place, colon, name = text.rpartition(":")
    return (Path(place), name) if colon and name and place.endswith(".json") and "://" not in text else None


def command_of_file(text: str) -> tuple[str, ...]:
    """Return the command that runs the server of `server.py` or `server.py:name`, which may be of another SDK. Raises
    CodegenError without the file."""
    path, name = require_python_file(text), split_server(text)[1]
    return foreign_command(path, name) or launch_command(text)


def parse_target(text: str) -> ServerTarget:
    """Return the target of one word of the command line: a URL, a saved .json file, an entry of a configuration
    (`mcp.json:name`), a Python file with an App or Server (`server.py`, `server.py:app`), a module (`package.module`),
    or else a command."""
    if is_python_file(text):
        return ServerTarget(command=command_of_file(text), env=environment(), label=text)
    if (entry := entry_of(text)) is not None:
        return target_from_config(*entry)
    if is_module(text) and not text.endswith(".json"):
        return ServerTarget(command=launch_command(text, module=True), env=environment(), label=text)
    if text.startswith(("http://", "https://")):
        return ServerTarget(url=text)
    if text.endswith(".json") and Path(text).is_file():
        return ServerTarget(saved=Path(text))
    if text.endswith(".json") and " " not in text:
        raise CodegenError(f"{text}: this file does not exist; pass a saved list of tools, a URL or a command")
    try:
        command = tuple(split_command(text))
    except ValueError as error:
        raise CodegenError(f"{text!r}: is not a valid command: {error}") from error
    if len(command) == 1:
        refuse_no_command(command[0])
    if not command:
        raise CodegenError("the command is empty; pass the command that starts the server")
    return ServerTarget(command=command)


def target_from_config(config: Path, server: str) -> ServerTarget:
    """Return the target of an entry in a claude_desktop_config.json (`mcpServers`) or mcp.json (`servers`)."""
    document = _json(config)
    servers = (document.get("mcpServers") or document.get("servers")) if is_object(document) else None
    if not is_object(servers) or not is_object(servers.get(server)):
        names = ", ".join(sorted(servers)) if is_object(servers) else "none"
        raise CodegenError(f"{config}: has no server {server!r}; its servers are: {names}")
    entry = servers[server]
    url, command, arguments, env = (entry.get(key) for key in ("url", "command", "args", "env"))
    if isinstance(url, str):
        headers = entry.get("headers", {})
        if not is_object(headers) or not all(isinstance(value, str) for value in headers.values()):
            raise CodegenError(f"{config}: the headers of server {server!r} must be an object of strings")
        return ServerTarget(url=url, access=Access(headers))
    words = [command, *(arguments if is_list(arguments) else [])]
    variables = env if is_object(env) else {}
    if not all(isinstance(word, str) for word in (*words, *variables.values())):
        raise CodegenError(f"{config}: server {server!r} needs `command`, `args` and `env` of strings, or `url`")
    cwd = entry.get("cwd")
    return ServerTarget(command=tuple(words), env=variables, cwd=cwd if isinstance(cwd, str) else None)


def probe(target: ServerTarget, timeout: float = 60.0) -> Contract:
    """Return the contract of the server. Raises CodegenError if it does not answer within `timeout` seconds."""
    if target.saved is not None:
        return read_contract(_json(target.saved), str(target.saved))
    return read_contract(probe_json(target, KINDS, timeout), str(target))


def probe_json(
    target: ServerTarget,
    lists: Sequence[str],
    timeout: float,
    call: str = "",
    arguments: Mapping[str, object] | None = None,
    *,
    as_texts: bool = False,
    written: list[str] | None = None,
    forms: bool = False,
) -> object:
    """Return these lists of a live server as JSON, and the result of a call, if there is one. Raises CodegenError.

    `written` gets the last lines that the server has written to its standard error. With `forms` the user is asked at
    the terminal what forms of the server ask. With `as_texts` the arguments of the tool are texts, and become values of
    the types in its input schema.
    """
    if not target.command and not target.url:
        raise CodegenError("no server was named; pass --from, or --config and --server")
    command = [sys.executable, "-P", "-m", "mcp_products.tooling.introspect"]
    command += ["--bindings", _BINDINGS, "--timeout", str(timeout)]
    command += [word for name in lists for word in ("--list", name)]
    command += ["--call", call] if call else []
    command += ["--texts"] if as_texts else []
    command += ["--forms"] if forms else []
    command += ["--private", *(["--cwd", target.cwd] if target.cwd else [])]
    access = target.access
    command += ["--login"] if access.login else []
    command += ["--tokens", str(access.tokens)] if access.tokens is not None else []
    command += [] if target.url else ["--", *target.command]
    # Other users can read the arguments of a process, so secrets are sent through its standard input.
    private = {
        "env": dict(target.env),
        "headers": dict(access.headers),
        "url": target.url,
        "arguments": arguments or {},
    }
    secrets = json.dumps(private).encode()
    limit = timeout + _EXIT_TIMEOUT + (_LOGIN_TIMEOUT if access.login else 0) + (_FORM_TIMEOUT if forms else 0)
    stderr = None if access.login else subprocess.PIPE  # The login URL must be visible at once.
    try:
        process = subprocess.run(command, input=secrets, stdout=subprocess.PIPE, stderr=stderr, timeout=limit)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CodegenError(f"{target}: cannot be queried: {without_secrets(str(error))}") from error
    lines = process.stderr.decode(errors="replace").strip().splitlines() if process.stderr else []
    if process.returncode and stderr is None:
        lines = ["see above"]
    if written is not None:
        written += [without_secrets(line) for line in (lines[:-1] if process.returncode else lines)[-_MAX_LINES:]]
    if process.returncode:
        reason = lines[-1] if lines else str(process.returncode)
        raise CodegenError(f"{target}: cannot be queried: {without_secrets(reason)}")
    document: object = json.loads(process.stdout)
    return document


def _json(path: Path) -> object:
    try:
        return json.loads(read_file(path, _MAX_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: cannot be read as JSON: {error}") from error


def own_methods(server: Path) -> dict[str, Any]:
    """Return the methods that the app of a file has beside those of the protocol. Raises CodegenError."""
    command = [sys.executable, "-P", "-m", "mcp_products.tooling.own_methods", str(server)]
    try:
        process = subprocess.run(command, capture_output=True, timeout=_METHODS_TIMEOUT)
        described: dict[str, Any] = json.loads(process.stdout) if not process.returncode else {}
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise CodegenError(f"{server}: its methods cannot be listed: {error}") from error
    if not described:
        raise CodegenError(f"{server}: {process.stderr.decode(errors='replace').strip() or 'it has no methods'}")
    return described


# Files of servers that other SDKs run, and words that name no server: what to pass instead.


def foreign_command(path: Path, name: str) -> tuple[str, ...] | None:
    """Return the command that runs a file written for another SDK; None for one of ours, or one that does not say.

    The Python is that of the project's own environment, where it has one. `name` is that of the server in the file.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # Who loads it says what is wrong.
    roots = set(_imported(tree))
    if roots & _OURS or not roots & _SDKS:
        return None
    python = project_python(path)
    if runs_itself(tree) and not name:
        return (python, str(path))
    return (python, "-c", _RUN % (_CLASSES,), str(path), name)


def project_python(path: Path) -> str:
    """Return the Python of the environment beside a file, or in a folder above it; else the one that runs this."""
    for folder in path.resolve().parents[:_ABOVE]:
        for environment in (".venv", "venv"):
            if (python := folder.joinpath(environment, *_PYTHON)).is_file():
                return str(python)
    return sys.executable


def runs_itself(tree: ast.Module) -> bool:
    """Return True if a file runs a server when it is started: a call of `run` or `main` below a guard or at the top."""
    calls = [node for top in tree.body if not _defines(top) for node in ast.walk(top) if isinstance(node, ast.Call)]
    names = {getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls}
    return bool(names & {"run", "main", "serve", "run_async"})


def _defines(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case _:
                pass


def refuse_no_command(word: str) -> None:
    """Raise CodegenError for a word that is not a command, and that means something which is passed in another form."""
    if shutil.which(word) is not None:
        return
    if Path(word).is_dir():
        raise CodegenError(f"{word}: is a folder; pass the file of its server, or -- and the command that starts it")
    if runner := _RUNNERS.get(PureWindowsPath(word).suffix):
        raise CodegenError(f"{word}: is not run by itself; pass the program that runs it: -- {runner} {word}")
    if "://" in word:
        raise CodegenError(f"{word}: is not a URL of a server; pass one that begins with http:// or https://")
    if (match := _ADDRESS.fullmatch(word)) and (match[3] or match[4] or match[1] == "localhost"):
        scheme = "http" if match[1] == "localhost" or match[2] else "https"
        raise CodegenError(f"{word}: is not a command here; a URL has its scheme: {scheme}://{word}")
