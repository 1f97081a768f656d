"""The configuration file of a host (`claude_desktop_config.json`): reading, adding a server, writing and checking."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from ...errors import SchemaError
from ...json_types import JsonObject, is_object
from ...output import read_file, replace_user_file

_FILE: Final = "claude_desktop_config.json"
_SERVERS: Final = "mcpServers"
_VSCODE_SERVERS: Final = "servers"
MAX_BYTES: Final = 16 * 1024 * 1024  # Hosts keep the history of conversations in such a file.
_REPLACED: Final = frozenset({"command", "args", "env", "cwd", "type", "url", "headers"})
SCRIPTS: Final = frozenset({".py", ".js", ".mjs", ".ts", ".jar", ".sh", ".rb"})


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
