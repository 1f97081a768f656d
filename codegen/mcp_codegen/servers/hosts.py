"""The hosts that start servers: the table of them, their configuration files, and what is wrong in one."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Final, Literal, NamedTuple

from ..errors import CodegenError, JsonObject, SchemaError, is_list, is_object
from ..output import back_up, folders_between, read_file, refuse_links, replace_user_file
from ..paths import read_toml

Scope = Literal["user", "project"]

_SERVERS: Final = "mcpServers"
_VSCODE_SERVERS: Final = "servers"
MAX_BYTES: Final = 16 * 1024 * 1024  # Hosts keep the history of conversations in such a file.
_REPLACED: Final = frozenset({"command", "args", "env", "cwd", "type", "url", "headers"})
SCRIPTS: Final = frozenset({".py", ".js", ".mjs", ".ts", ".jar", ".sh", ".rb"})

_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|(//[^\n]*|/\*.*?\*/)', re.S)
# What an entry says of the server itself; all else, such as `disabled`, is the user's and remains.
_REPLACED_ENTRY: Final = frozenset(
    {"command", "args", "cwd", "type", "url", "httpUrl", "headers", "cmd", "uri", "name"}
)
_VARIABLES: Final = ("env", "envs")

_PLACEHOLDER: Final = re.compile(
    r"(?:^|[/\\=])(?:absolute[/\\])?path[/\\]to(?:[/\\]|$)|[/\\](?:users|home)[/\\](?:username|user|yourname|you)[/\\]"
    r"|^<[^<>]+>$|\byour[-_ ][a-z]|^x{3,}$",
    re.I,
)
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}|%[A-Za-z_][A-Za-z0-9_]*%")
# Files of hosts that replace `${NAME}` by an environment variable. Claude Desktop does not.
_EXPANDING: Final = frozenset({"mcp.json", ".mcp.json", "settings.json", ".claude.json"})
_ENDPOINT_OPTIONS: Final = frozenset({"--path", "--endpoint", "--prefix", "--route", "--mount"})


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A server for a host to start by its command, or to connect to by its URL."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def _places(platform: str, environment: Mapping[str, str]) -> dict[str, Path]:
    """Return the folders in which programs of a platform store their configuration, by the names of hosts.toml."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    roaming = Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
    applications = {"darwin": home / "Library" / "Application Support", "win32": roaming}.get(platform, config)
    claude = Path(environment.get("CLAUDE_CONFIG_DIR") or home)
    return {"home": home, "config": config, "roaming": roaming, "applications": applications, "claude": claude}


@dataclass(frozen=True, slots=True)
class Host:
    """A program that starts servers: a row of hosts.toml."""

    name: str
    title: str
    user_file: str
    windows: str = ""
    servers_key: str = "mcpServers"
    project_file: str = ""
    stdio_type: str = ""
    remote_key: str = "url"
    remote_type: str = ""
    next_step: str = "restart it to see the server"

    def path_of_user(self, platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> Path:
        """Return the path of the configuration of a user on a platform."""
        written = self.windows if self.windows and platform == "win32" else self.user_file
        return Path(written.format(**_places(platform, environment)))

    def path(self, scope: Scope, folder: Path) -> Path:
        """Return the path of the configuration. Raises CodegenError if the host has none for a project."""
        if scope == "user":
            return self.path_of_user()
        if not self.project_file:
            raise CodegenError(f"{self.title} has no configuration for one project; use --scope user")
        return folder / self.project_file

    def entry(self, name: str, server: HostEntry) -> JsonObject:
        """Return the entry of a server. Raises CodegenError if the host's configuration cannot have a URL."""
        if server.url and not self.remote_key:
            raise CodegenError(
                f"{self.title} takes no URL in its configuration; add the server in its settings, under Connectors"
            )
        if self.name == "goose":
            return _goose_entry(name, server)
        if server.url:
            entry: JsonObject = {"type": self.remote_type} if self.remote_type else {}
            entry[self.remote_key] = server.url
            return {**entry, "headers": dict(server.headers)} if server.headers else entry
        entry = {"type": self.stdio_type} if self.stdio_type else {}
        entry |= {"command": server.command[0], "args": list(server.command[1:])}
        return {**entry, "env": dict(server.env)} if server.env else entry


def _goose_entry(name: str, server: HostEntry) -> JsonObject:
    common: JsonObject = {"name": name, "description": "", "enabled": True, "timeout": 300}
    variables: JsonObject = {"envs": dict(server.env), "env_keys": []}
    if server.url:
        remote: JsonObject = {"type": "streamable_http", "uri": server.url, "headers": dict(server.headers)}
        return {**common, **remote, **variables}
    return {**common, "type": "stdio", "cmd": server.command[0], "args": list(server.command[1:]), **variables}


HOSTS: Final = {name: Host(name, **row) for name, row in read_toml(Path(__file__).with_suffix(".toml")).items()}


# The configuration file of a host (`claude_desktop_config.json`): read, checked, and changed by an entry, as JSON or
# YAML.


def default_config_path(platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the desktop app's configuration on this platform."""
    return HOSTS["claude-desktop"].path_of_user(platform, environment)


def read_config(path: Path) -> JsonObject:
    """Return the configuration at a path. Raises SchemaError if it is missing, not JSON, or not an object."""
    try:
        config: object = json.loads(read_file(path, MAX_BYTES).decode("utf-8-sig"))
    except FileNotFoundError:
        raise SchemaError(
            f"{path}: this configuration does not exist; pass another --file or add a server first"
        ) from None
    except json.JSONDecodeError as error:
        raise SchemaError(f"{path}: is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: cannot be read: {error}") from None
    if not is_object(config):
        raise SchemaError(f"{path}: must be a JSON object")
    return config


def duplicate_names(text: str) -> Iterator[str]:
    """Yield the names that an object of a JSON text has twice: a host reads only the last of them."""
    duplicates: list[str] = []

    def object_of(items: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in items]
        duplicates.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(items)

    json.loads(text, object_pairs_hook=object_of)
    yield from duplicates


def with_server(
    config: JsonObject, name: str, command: Sequence[str], env: Mapping[str, str], folder: Path
) -> JsonObject:
    """Return the configuration with this server added or replaced, and everything else unchanged. Paths in `command`
    become absolute, because hosts start servers in a folder of their own. Raises SchemaError for a command that
    does not exist."""
    servers = config.get(_SERVERS, {})
    if not is_object(servers):
        raise SchemaError(f"{_SERVERS!r} must be an object; nothing was changed, correct the file first")
    entry: JsonObject = {
        "command": _program(command[0], folder),
        "args": [_absolute(word, folder) for word in command[1:]],
    }
    if env:
        entry["env"] = dict(env)
    old = servers.get(name)
    other_keys = {key: value for key, value in old.items() if key not in _REPLACED} if is_object(old) else {}
    return config | {_SERVERS: servers | {name: entry | other_keys}}


def write_config(path: Path, config: JsonObject) -> None:
    """Replace the file in one step. A new file is readable by its owner only.

    Raises OutputError, and has changed nothing, if it is a link or cannot be written.
    """
    replace_user_file(path, json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def servers_of(config: JsonObject) -> JsonObject:
    """Return the servers of a configuration by name."""
    servers = config.get(_SERVERS, config.get(_VSCODE_SERVERS))
    return servers if is_object(servers) else {}


def _program(word: str, folder: Path) -> str:
    path = shutil.which(folder / word if is_path(word) else word)
    if path is None:
        raise SchemaError(f"the command {word!r} does not exist or is not executable; nothing was changed")
    return os.path.abspath(path)  # Symbolic links stay: an interpreter finds its environment by the path of its link.


def _absolute(word: str, folder: Path) -> str:
    """Return an existing path as an absolute one; any other word is unchanged."""
    looks_like_path = word.startswith(".") or is_path(word) or PurePath(word).suffix in SCRIPTS
    return (
        os.path.abspath(folder / word)
        if looks_like_path and not word.startswith("-") and (folder / word).exists()
        else word
    )


def is_path(word: str) -> bool:
    """Return True for a word with a separator of folders; other commands are looked up on the PATH."""
    return "/" in word or os.sep in word


# Add and remove an entry of a YAML file, with its comments and its layout.


def yaml_text(text: str, place: str) -> JsonObject:
    """Return the mapping of a YAML text. Raises SchemaError with the line if it is broken."""
    yaml = _yaml()
    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise SchemaError(f"{place}: is not YAML: {line}{getattr(error, 'problem', None) or error}") from None
    if document is not None and not is_object(document):
        raise SchemaError(f"{place}: must be a YAML mapping")
    return document or {}


def yaml_with_entry(text: str, section: str, name: str, entry: JsonObject, place: str) -> str:
    """Return the text with an entry added to a section, or replaced in it. Raises SchemaError."""
    config = yaml_text(text, place)
    entries: JsonObject = config.get(section) or {}
    expected: JsonObject = config | {section: entries | {name: entry}}
    lines = _without(_lines(text), text, section, name)

    def add(lines: list[str]) -> list[str]:
        value = _value_of("\n".join(lines), section)
        if value is None:
            return [*lines, f"{section}:", *_entry_lines(name, entry, "  ")]
        key, node = value
        children: list[tuple[Any, Any]] = node.value if node.id == "mapping" else []
        at = key.start_mark.line
        if not children:
            return [*lines[:at], f"{section}:", *_entry_lines(name, entry, "  "), *lines[at + 1 :]]
        first = children[0][0].start_mark
        return [*lines[: first.line], *_entry_lines(name, entry, " " * first.column), *lines[first.line :]]

    return _proved(add, lines, expected, place)


def yaml_without_entry(text: str, section: str, name: str, place: str) -> str:
    """Return the text without an entry of a section. Raises SchemaError."""
    config = yaml_text(text, place)
    rest = {key: value for key, value in config[section].items() if key != name}
    lines = _without(_lines(text), text, section, name)
    return _proved(lambda lines: lines, lines, config | {section: rest or None}, place)


def _proved(edit: Callable[[list[str]], list[str]], lines: list[str], expected: JsonObject, place: str) -> str:
    """Return the edited text if it has exactly the value that is expected. Raises SchemaError otherwise."""
    message = f"{place}: has a layout that cannot be edited safely; add the entry by hand (--dry-run prints it)"
    try:
        result = "\n".join(edit(lines)) + "\n"
        if yaml_text(result, place) == expected:
            return result
    except SchemaError:
        raise SchemaError(message) from None
    raise SchemaError(message)


def _without(lines: list[str], text: str, section: str, name: str) -> list[str]:
    """Return the lines without those of an entry, if there is one. Comments before the next entry remain."""
    value = _value_of(text if text.endswith("\n") else f"{text}\n", section)
    children: list[tuple[Any, Any]] = value[1].value if value is not None and value[1].id == "mapping" else []
    for key, node in children:
        if key.value == name:
            # A block ends where the next token begins, anything else in its own last line.
            is_block = getattr(node, "flow_style", True) is False
            end: int = node.end_mark.line + (not is_block)
            while end > key.start_mark.line + 1 and lines[end - 1].lstrip()[:1] in ("", "#"):
                end -= 1
            return [*lines[: key.start_mark.line], *lines[end:]]
    return lines


def _value_of(text: str, section: str) -> tuple[Any, Any] | None:
    """Return the key and the value of a section as nodes with their lines."""
    root = _yaml().compose(text)
    items: list[tuple[Any, Any]] = root.value if root is not None else []
    return next(((key, value) for key, value in items if key.value == section), None)


def _entry_lines(name: str, entry: JsonObject, indent: str) -> list[str]:
    text: str = _yaml().safe_dump({name: entry}, sort_keys=False, allow_unicode=True, width=10_000)
    return [indent + line for line in text.splitlines()]


def _lines(text: str) -> list[str]:
    return text.splitlines()


def _yaml() -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise CodegenError("a YAML file needs PyYAML: pip install pyyaml") from None
    return yaml


# Add and remove an entry of a host's configuration: JSON or YAML, with a backup, atomically.


class HostFile:
    """The configuration of a host. Reading it raises SchemaError with the line if it is broken."""

    def __init__(self, host: Host, path: Path, project: Path | None = None) -> None:
        """Read the file. Raises OutputError if it is a link, or if a folder of it in a project is: a repository of
        others could choose what is written with them."""
        refuse_links(path, *([] if project is None else folders_between(project, path)))
        self.host = host
        self.path = path
        self._is_yaml = path.suffix in (".yaml", ".yml")
        self.text = _read(path)
        self.servers = self._servers()

    def entry(self, name: str, entry: JsonObject) -> JsonObject:
        """Return the entry to write: the new one, with the other keys and variables of the one that it replaces."""
        old = self.servers.get(name)
        if not is_object(old):
            return entry
        others = {key: value for key, value in old.items() if key not in _REPLACED_ENTRY and key not in entry}
        for key in _VARIABLES:
            before, after = old.get(key), entry.get(key)
            if is_object(before):
                others.pop(key, None)
                entry = {**entry, key: {**before, **(after if is_object(after) else {})}}
        return {**entry, **others}

    def with_entry(self, name: str, entry: JsonObject) -> str:
        """Return the text of the file with this entry; everything else has the same value."""
        if self._is_yaml:
            return yaml_with_entry(self.text, self.host.servers_key, name, entry, str(self.path))
        return self._json({**self.servers, name: entry})

    def without_entry(self, name: str) -> str:
        """Return the text of the file without this entry. Raises CodegenError if there is none."""
        if name not in self.servers:
            nearest = get_close_matches(name, self.servers, 1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            names = ", ".join(sorted(self.servers)) or "none"
            raise CodegenError(f"{self.path}: has no server {name!r}{hint} (its servers: {names})")
        if self._is_yaml:
            return yaml_without_entry(self.text, self.host.servers_key, name, str(self.path))
        return self._json({key: value for key, value in self.servers.items() if key != name})

    def write(self, text: str) -> Path | None:
        """Replace the file in one step, and return the backup of the text before, None for a new file.

        Raises OutputError, and has changed nothing, if one of them cannot be written.
        """
        backup = back_up(self.path, self.text) if self.text else None
        replace_user_file(self.path, text)
        return backup

    def _servers(self) -> JsonObject:
        if not self.text.strip():
            return {}
        if self._is_yaml:
            config = yaml_text(self.text, str(self.path))
        else:
            self._refuse_losses()
            config = read_config(self.path)
        servers = config.get(self.host.servers_key, {})
        if servers is None and self._is_yaml:
            return {}
        if not is_object(servers):
            raise SchemaError(f"{self.path}: {self.host.servers_key!r} must be an object; correct the file first")
        return servers

    def _refuse_losses(self) -> None:
        """Refuse a JSON file with comments or with a name twice, which would be lost."""
        for match in _COMMENT.finditer(self.text):
            if match[1]:
                line = self.text.count("\n", 0, match.start()) + 1
                raise SchemaError(
                    f"{self.path}: line {line} has a comment, which would be lost; remove it, or add the entry by hand "
                    "(--dry-run prints it)"
                )
        read_config(self.path)  # Raises the error with the line if it is broken.
        for name in duplicate_names(self.text):
            raise SchemaError(f"{self.path}: the name {name!r} is there twice in one object; correct the file first")

    def _json(self, servers: JsonObject) -> str:
        config = read_config(self.path) if self.text.strip() else {}
        indent = re.search(r"^([ \t]+)\S", self.text, re.M)
        document = config | {self.host.servers_key: servers}
        return json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _read(path: Path) -> str:
    try:
        return read_file(path, MAX_BYTES).decode("utf-8-sig") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"{path}: cannot be read: {error}") from None


# The servers in the configurations of the hosts on this machine, and what keeps a host from starting them.


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
