"""The servers in the configurations of the hosts on this machine, and what keeps a host from starting them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath, PureWindowsPath
from typing import Final, NamedTuple

from ...errors import CodegenError, JsonObject, is_list, is_object
from .catalog import HOSTS, Scope
from .files import SCRIPTS, HostFile, duplicate_names, is_path, servers_of

_PLACEHOLDER: Final = re.compile(
    r"(?:^|[/\\=])(?:absolute[/\\])?path[/\\]to(?:[/\\]|$)|[/\\](?:users|home)[/\\](?:username|user|yourname|you)[/\\]"
    r"|^<[^<>]+>$|\byour[-_ ][a-z]|^x{3,}$",
    re.I,
)
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}|%[A-Za-z_][A-Za-z0-9_]*%")
# Files of hosts that replace `${NAME}` by an environment variable. Claude Desktop does not.
_EXPANDING: Final = frozenset({"mcp.json", ".mcp.json", "settings.json", ".claude.json"})
_ENDPOINT_OPTIONS: Final = frozenset({"--path", "--endpoint", "--prefix", "--route", "--mount"})


def problems(config: JsonObject, text: str = "", file_name: str = "") -> Iterator[str]:
    """Yield one line for each problem that keeps a host from starting the servers.

    `text` is the text of the file, in which a name may be there twice, and `file_name` tells the host.
    """
    if not is_object(config.get("mcpServers", config.get("servers"))):
        yield "'mcpServers' is missing or not an object"
    for name in duplicate_names(text) if text else ():
        yield f"the name {name!r} is there twice in one object; a host reads only the last"
    for name, entry in servers_of(config).items():
        if not is_object(entry):
            yield f"{name}: is not an object"
            continue
        yield from (f"{name}: {problem}" for problem in _problems_of(entry, file_name in _EXPANDING))


def _problems_of(entry: JsonObject, expands: bool) -> Iterator[str]:
    words = [problem for place, word in _texts(entry) if (problem := _problem_of_text(place, word, expands))]
    yield from words
    if "url" in entry or "httpUrl" in entry:
        return
    skipped = {word for _, word in _texts(entry) if _is_unfinished(word)}
    command, arguments, env, cwd = (entry.get(key) for key in ("command", "args", "env", "cwd"))
    if not isinstance(command, str) or not command:
        yield "'command' must be a string" if "command" in entry else "'command' is missing"
    elif command not in skipped:
        yield from _problems_of_command(command)
    if arguments is not None and (not is_list(arguments) or not all(isinstance(word, str) for word in arguments)):
        yield "'args' must be a list of strings"
    elif is_list(arguments):
        yield from _problems_of_arguments([str(word) for word in arguments], skipped)
    if env is not None and (not is_object(env) or not all(isinstance(value, str) for value in env.values())):
        yield "'env' must be an object of strings; numbers need quotes"
    if isinstance(cwd, str) and cwd not in skipped and not Path(cwd).is_dir():
        yield f"'cwd' is the folder {cwd!r}, which does not exist"


def _texts(entry: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the texts of an entry with their places."""
    for key, value in entry.items():
        values = value.items() if is_object(value) else enumerate(value) if is_list(value) else [(None, value)]
        for name, text in values:
            if isinstance(text, str):
                yield f"{key}.{name}" if isinstance(name, str) else key, text


def _is_unfinished(word: str) -> bool:
    return _PLACEHOLDER.search(word) is not None or _VARIABLE.search(word) is not None


def _problem_of_text(place: str, word: str, expands: bool) -> str:
    if _PLACEHOLDER.search(word):
        hidden = place.startswith(("env.", "headers."))
        return f"{place!r} has a placeholder{'' if hidden else f', {word!r}'}; write the real value"
    variable = _VARIABLE.search(word)
    if variable is not None and not expands:
        return f"{place!r} has the variable {variable[0]}, which the host does not expand; write its value"
    return ""


def _problems_of_command(command: str) -> Iterator[str]:
    if not is_path(command):
        missing = shutil.which(command) is None
        yield f"'command' {command!r} is {'not found' if missing else 'not an absolute path; a host may not find it'}"
    elif not PurePath(command).is_absolute():
        yield f"'command' {command!r} is a relative path"
    elif shutil.which(command) is None:
        yield f"'command' {command!r} does not exist or is not executable"


def _problems_of_arguments(words: list[str], skipped: set[str]) -> Iterator[str]:
    for before, word in zip(["", *words], words, strict=False):
        if word not in skipped and before not in _ENDPOINT_OPTIONS and (problem := _problem_of_argument(word)):
            yield problem


def _problem_of_argument(word: str) -> str:
    option, sign, value = word.partition("=")
    if sign and option.startswith("-") and option not in _ENDPOINT_OPTIONS:
        word = value
    path = PurePath(word)
    looks_like_path = word.startswith(("./", "../", "~")) or path.suffix in SCRIPTS
    if "://" in word or word.startswith("-"):
        return ""
    if looks_like_path and not path.is_absolute() and not PureWindowsPath(word).is_absolute():
        return f"'args' has the relative path {word!r}"
    if path.is_absolute() and not Path(word).exists():
        if path.suffix in SCRIPTS:
            return f"'args' has the path {word!r}, which does not exist"
        if not path.suffix and len(path.parts) > 2:
            return f"'args' has the folder {word!r}, which does not exist"
    return ""


def hidden(entry: Mapping[str, object]) -> JsonObject:
    """Return an entry without the values of its variables and headers, which are often secrets."""
    secret = ("env", "envs", "headers")
    masked = {key: dict.fromkeys(values, "…") for key in secret if is_object(values := entry.get(key))}
    return {**entry, **masked}


# The servers in the configurations of the hosts on this machine.


class InstalledServer(NamedTuple):
    """A server of a host: its name, the words of its command or its URL, and the file that it is in.

    `problem` is set instead if the file cannot be read.
    """

    host: str
    path: Path
    name: str = ""
    words: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    problem: str = ""


def installed_servers(folder: Path, hosts: tuple[str, ...] = ()) -> Iterator[InstalledServer]:
    """Yield the servers of these hosts, all by default, for the user and for the project in a folder."""
    scopes: tuple[Scope, ...] = ("user", "project")
    for host in HOSTS.values():
        if hosts and host.name not in hosts:
            continue
        for scope in scopes:
            if scope == "project" and not host.project_file:
                continue
            path = host.path(scope, folder)
            if not path.is_file():
                continue
            try:
                servers = HostFile(host, path).servers
            except CodegenError as error:
                yield InstalledServer(host.name, path, problem=str(error))
                continue
            for name, entry in servers.items():
                yield _server(host.name, path, name, entry if is_object(entry) else {})


def _server(host: str, path: Path, name: str, entry: JsonObject) -> InstalledServer:
    url = next((entry[key] for key in ("url", "httpUrl", "uri", "serverUrl") if isinstance(entry.get(key), str)), None)
    arguments = entry.get("args")
    command = [entry.get("command", entry.get("cmd", "")), *(arguments if is_list(arguments) else [])]
    words = [url] if url is not None else command
    variables = entry.get("env", entry.get("envs"))
    names = tuple(variables) if is_object(variables) else ()
    return InstalledServer(host, path, name, tuple(str(word) for word in words if word), names)
