"""The configuration file of a host (`claude_desktop_config.json`): reading, adding a server, writing and checking."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from ..errors import OutputError, SchemaError
from ..json_types import JsonObject, is_list, is_object

_FILE: Final = "claude_desktop_config.json"
_SERVERS: Final = "mcpServers"
_REPLACED: Final = frozenset({"command", "args", "env", "cwd", "type", "url", "headers"})
_SCRIPTS: Final = frozenset({".py", ".js", ".mjs", ".ts", ".jar", ".sh", ".rb"})


def default_config_path(platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the desktop app's configuration on this platform."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
    match platform:
        case "darwin":
            folder = home / "Library" / "Application Support"
        case "win32":
            folder = Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
        case _:
            folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return folder / "Claude" / _FILE


def read_config(path: Path) -> JsonObject:
    """Return the configuration at a path. Raises SchemaError if it is missing, not JSON, or not an object."""
    try:
        config: object = json.loads(path.read_bytes().decode("utf-8-sig"))
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
    """Replace the file atomically. A new file is readable by its owner only.

    Raises OutputError, and has changed nothing, if it cannot be written.
    """
    target = path.resolve()
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    temporary: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except (OSError, UnicodeEncodeError) as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written: {error}; nothing was changed") from error


def servers_of(config: JsonObject) -> JsonObject:
    """Return the servers of a configuration by name."""
    servers = config.get(_SERVERS)
    return servers if is_object(servers) else {}


def problems(config: JsonObject) -> Iterator[str]:
    """Yield one line for each problem that keeps a host from starting the servers."""
    if not is_object(config.get(_SERVERS)):
        yield f"{_SERVERS!r} is missing or not an object"
    for name, entry in servers_of(config).items():
        if not is_object(entry):
            yield f"{name}: is not an object"
            continue
        yield from (f"{name}: {problem}" for problem in _problems_of(entry))


def _problems_of(entry: JsonObject) -> Iterator[str]:
    command, arguments, env = entry.get("command"), entry.get("args", []), entry.get("env", {})
    if not isinstance(command, str) or not command:
        yield "'command' must be a string" if "command" in entry else "'command' is missing"
    elif not _is_path(command):
        missing = shutil.which(command) is None
        yield f"'command' {command!r} is {'not found' if missing else 'not an absolute path; a host may not find it'}"
    elif not PurePath(command).is_absolute():
        yield f"'command' {command!r} is a relative path"
    elif shutil.which(command) is None:
        yield f"'command' {command!r} does not exist or is not executable"
    if not is_list(arguments) or not all(isinstance(word, str) for word in arguments):
        yield "'args' must be a list of strings"
    else:
        yield from (problem for word in arguments if (problem := _problem_of_argument(str(word))))
    if not is_object(env) or not all(isinstance(value, str) for value in env.values()):
        yield "'env' must be an object of strings; numbers need quotes"


def _problem_of_argument(word: str) -> str:
    is_path = word.startswith(("./", "../", "~")) or PurePath(word).suffix in _SCRIPTS
    if is_path and "://" not in word and not PurePath(word).is_absolute() and not word.startswith("-"):
        return f"'args' has the relative path {word!r}"
    if PurePath(word).is_absolute() and PurePath(word).suffix in _SCRIPTS and not Path(word).exists():
        return f"'args' has the path {word!r}, which does not exist"
    return ""


def _program(word: str, folder: Path) -> str:
    path = shutil.which(folder / word if _is_path(word) else word)
    if path is None:
        raise SchemaError(f"the command {word!r} does not exist or is not executable; nothing was changed")
    return os.path.abspath(path)  # Symbolic links stay: an interpreter finds its environment by the path of its link.


def _absolute(word: str, folder: Path) -> str:
    """Return an existing path as an absolute one; any other word is unchanged."""
    is_path = word.startswith(".") or _is_path(word) or PurePath(word).suffix in _SCRIPTS
    return os.path.abspath(folder / word) if is_path and not word.startswith("-") and (folder / word).exists() else word


def _is_path(word: str) -> bool:
    return "/" in word or os.sep in word
