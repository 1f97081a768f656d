"""How to reach a server goes in (a command, a URL, a saved list, an entry of a configuration file), its Contract comes out.

A live server is asked by a child process that runs `mcp_runtime.introspect`, because the generator imports no runtime.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..errors import CodegenError, SchemaError
from ..json_types import is_list, is_object
from .contract import KINDS, Contract, read_contract

_BINDINGS: Final = "mcp_generated"
_GRACE: Final = 15.0  # Seconds the child process gets to end its own child after its time is up.
_LOGIN: Final = 300.0  # Seconds a person gets to log in.


@dataclass(frozen=True, slots=True)
class Access:
    """How a server over HTTP lets one in: by headers, or by a login in a browser, kept in a file if one is named."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    login: bool = False
    tokens: Path | None = None


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server: a command with its environment and folder, or a URL, or a file that has what it once said."""

    command: tuple[str, ...] = ()
    url: str = ""
    saved: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    access: Access = Access()

    def __str__(self) -> str:
        return str(self.saved or self.url or shlex.join(self.command))


def named(text: str) -> ServerTarget:
    """The target that one word of the command line means: a URL, a saved .json file, or else a command."""
    if text.startswith(("http://", "https://")):
        return ServerTarget(url=text)
    if text.endswith(".json") and Path(text).is_file():
        return ServerTarget(saved=Path(text))
    if text.endswith(".json") and " " not in text:
        raise CodegenError(f"{text}: there is no such file; a saved list of tools, a URL or a command is needed")
    try:
        command = tuple(shlex.split(text))
    except ValueError as fault:
        raise CodegenError(f"{text!r}: is not a command: {fault}") from fault
    if not command:
        raise CodegenError("there is no command that starts a server")
    return ServerTarget(command=command)


def configured(config: Path, server: str) -> ServerTarget:
    """The target that an entry of a claude_desktop_config.json (`mcpServers`) or mcp.json (`servers`) means."""
    said = _json(config)
    servers = (said.get("mcpServers") or said.get("servers")) if is_object(said) else None
    if not is_object(servers) or not is_object(servers.get(server)):
        there = ", ".join(sorted(servers)) if is_object(servers) else "none"
        raise CodegenError(f"{config}: there is no server {server!r} in it; there are: {there}")
    entry = servers[server]
    url, command, arguments, env = (entry.get(key) for key in ("url", "command", "args", "env"))
    if isinstance(url, str):
        headers = entry.get("headers", {})
        if not is_object(headers) or not all(isinstance(value, str) for value in headers.values()):
            raise CodegenError(f"{config}: server {server!r} needs headers of strings")
        return ServerTarget(url=url, access=Access(headers))
    words = [command, *(arguments if is_list(arguments) else [])]
    variables = env if is_object(env) else {}
    if not all(isinstance(word, str) for word in (*words, *variables.values())):
        raise CodegenError(f"{config}: server {server!r} needs a command, args and env of strings, or a url")
    cwd = entry.get("cwd")
    return ServerTarget(command=tuple(words), env=variables, cwd=cwd if isinstance(cwd, str) else None)


def probe(target: ServerTarget, timeout: float = 60.0) -> Contract:
    """What the server offers. Raises CodegenError where it cannot be asked within so many seconds."""
    if target.saved is not None:
        return read_contract(_json(target.saved), str(target.saved))
    return read_contract(probe_json(target, KINDS, timeout), str(target))


def probe_json(
    target: ServerTarget,
    lists: Sequence[str],
    timeout: float,
    call: str = "",
    arguments: Mapping[str, object] | None = None,
) -> object:
    """These lists of a live server as JSON, and what a call gave if there is one. Raises CodegenError."""
    if not target.command and not target.url:
        raise CodegenError("there is no server to ask; say which with --from, or with --config and --server")
    words = [sys.executable, "-m", "mcp_runtime.introspect", "--bindings", _BINDINGS, "--timeout", str(timeout)]
    words += [word for name in lists for word in ("--list", name)]
    words += ["--call", call, "--arguments", json.dumps(arguments or {})] if call else []
    words += ["--private", *(["--cwd", target.cwd] if target.cwd else [])]
    access = target.access
    words += ["--login"] if access.login else []
    words += ["--tokens", str(access.tokens)] if access.tokens is not None else []
    words += ["--url", target.url] if target.url else ["--", *target.command]
    # Others can read the arguments of a process; what is nobody's business goes by its standard input.
    private = json.dumps({"env": dict(target.env), "headers": dict(access.headers)}).encode()
    limit = timeout + _GRACE + (_LOGIN if access.login else 0)
    heard = None if access.login else subprocess.PIPE  # Who logs in is told at once where.
    try:
        done = subprocess.run(words, input=private, stdout=subprocess.PIPE, stderr=heard, timeout=limit)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise CodegenError(f"{target}: cannot be asked: {fault}") from fault
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() if done.stderr else ["see above"]
        raise CodegenError(f"{target}: cannot be asked: {lines[-1] if lines else done.returncode}")
    said: object = json.loads(done.stdout)
    return said


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise SchemaError(f"{path}: cannot be read as JSON: {fault}") from fault
