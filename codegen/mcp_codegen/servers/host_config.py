"""The configuration of a host (`claude_desktop_config.json`) goes in; it comes out with a server more, or with what is wrong in it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

from ..errors import OutputError, SchemaError
from ..json_types import is_list, is_object

Json = dict[str, Any]

_FILE: Final = "claude_desktop_config.json"
_SERVERS: Final = "mcpServers"
_REPLACED: Final = frozenset({"command", "args", "env", "cwd", "type", "url", "headers"})
_SCRIPTS: Final = frozenset({".py", ".js", ".mjs", ".ts", ".jar", ".sh", ".rb"})


def usual_place(platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the desktop app keeps its configuration on this platform."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
    match platform:
        case "darwin":
            folder = home / "Library" / "Application Support"
        case "win32":
            folder = Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
        case _:
            folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return folder / "Claude" / _FILE


def read_config(path: Path) -> Json:
    """The configuration at a path. Raises SchemaError for one that is missing, no JSON, or no object."""
    try:
        said: object = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise SchemaError(f"{path}: there is no such configuration") from None
    except json.JSONDecodeError as fault:
        raise SchemaError(f"{path}: is not JSON: line {fault.lineno}, column {fault.colno}: {fault.msg}") from None
    except (OSError, ValueError, RecursionError) as fault:
        raise SchemaError(f"{path}: cannot be read: {fault}") from None
    if not is_object(said):
        raise SchemaError(f"{path}: is not an object")
    return said


def with_server(config: Json, name: str, words: Sequence[str], env: Mapping[str, str], folder: Path) -> Json:
    """The configuration with this server in it, and all else as it was. What `words` say of files becomes absolute:
    hosts start servers in a folder of their own. Raises SchemaError for a command that does not exist."""
    before = config.get(_SERVERS, {})
    if not is_object(before):
        raise SchemaError(f"{_SERVERS!r} is not an object; nothing was changed")
    entry: Json = {"command": _program(words[0], folder), "args": [_absolute(word, folder) for word in words[1:]]}
    if env:
        entry["env"] = dict(env)
    old = before.get(name)
    kept = {key: value for key, value in old.items() if key not in _REPLACED} if is_object(old) else {}
    return config | {_SERVERS: before | {name: entry | kept}}


def write_config(path: Path, config: Json) -> None:
    """Replace the file as a whole, so that no host reads half of one; a new one is for its owner's eyes alone.

    Raises OutputError, and has changed nothing, where it cannot be written.
    """
    place = path.resolve()
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    waiting: str | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, waiting = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        if place.exists():
            os.chmod(waiting, stat.S_IMODE(place.stat().st_mode))
        os.replace(waiting, place)
    except (OSError, UnicodeEncodeError) as fault:
        if waiting is not None:
            Path(waiting).unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written: {fault}; nothing was changed") from fault


def servers_of(config: Json) -> Json:
    """The servers of a configuration by name; none where there is no object of them."""
    servers = config.get(_SERVERS)
    return servers if is_object(servers) else {}


def problems(config: Json) -> Iterator[str]:
    """What keeps a host from starting the servers, a line each."""
    if not is_object(config.get(_SERVERS)):
        yield f"there is no object {_SERVERS!r}"
    for name, entry in servers_of(config).items():
        if not is_object(entry):
            yield f"{name}: is not an object"
            continue
        yield from (f"{name}: {each}" for each in _problems_of(entry))


def _problems_of(entry: Json) -> Iterator[str]:
    command, arguments, env = entry.get("command"), entry.get("args", []), entry.get("env", {})
    if not isinstance(command, str) or not command:
        yield "'command' is not a text" if "command" in entry else "there is no 'command'"
    elif not _is_path(command):
        missing = shutil.which(command) is None
        yield f"'command' {command!r} is {'not found' if missing else 'no absolute path; a host may not find it'}"
    elif not PurePath(command).is_absolute():
        yield f"'command' {command!r} is a relative path"
    elif shutil.which(command) is None:
        yield f"'command' {command!r} is not there, or cannot be run"
    if not is_list(arguments) or not all(isinstance(each, str) for each in arguments):
        yield "'args' is not a list of texts"
    else:
        yield from (each for word in arguments if (each := _problem_of_argument(str(word))))
    if not is_object(env) or not all(isinstance(each, str) for each in env.values()):
        yield "'env' is not an object of texts; numbers need quotes"


def _problem_of_argument(word: str) -> str:
    looks = word.startswith(("./", "../", "~")) or PurePath(word).suffix in _SCRIPTS
    if looks and "://" not in word and not PurePath(word).is_absolute() and not word.startswith("-"):
        return f"'args' has the relative path {word!r}"
    if PurePath(word).is_absolute() and PurePath(word).suffix in _SCRIPTS and not Path(word).exists():
        return f"'args' names {word!r}, which is not there"
    return ""


def _program(word: str, folder: Path) -> str:
    found = shutil.which(folder / word if _is_path(word) else word)
    if found is None:
        raise SchemaError(f"the command {word!r} is not found, or cannot be run; nothing was changed")
    return os.path.abspath(found)  # Not resolved: an interpreter finds its environment by where its link is.


def _absolute(word: str, folder: Path) -> str:
    """A path that exists, made absolute; what else a word may be stays as it is."""
    looks = word.startswith(".") or _is_path(word) or PurePath(word).suffix in _SCRIPTS
    return os.path.abspath(folder / word) if looks and not word.startswith("-") and (folder / word).exists() else word


def _is_path(word: str) -> bool:
    return "/" in word or os.sep in word
