"""The configuration file of a host: one entry for each server, under `mcpServers` (or `servers`)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from ...errors import LocalError
from ...protocol.models import is_list, is_object
from ...usage.rules import COUNT
from ..client import BaseClient

ClientT = TypeVar("ClientT", bound=BaseClient)
Configuration = str | os.PathLike[str] | dict[str, Any]

_TABLES: Final = ("mcpServers", "servers")
_URLS: Final = ("url", "httpUrl", "serverUrl")
_TRANSPORTS: Final = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamableHttp": "url",
    "sse": "url",
}
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def read_entries(configuration: Configuration) -> dict[str, Any]:
    """Return the entries of a configuration by the names of the servers, without those that are disabled.

    Raises LocalError for a file that cannot be read, that is not JSON, or that has no servers.
    """
    where = "the configuration"
    content: object = configuration
    if not isinstance(configuration, dict):
        where = str(Path(configuration))
        try:
            content = json.loads(Path(configuration).read_bytes().decode("utf-8-sig"))
        except OSError as error:
            raise LocalError(f"from_config(): {where} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise LocalError(f"from_config(): {where} is not JSON: {error}") from None
    for table in _TABLES:
        entries = content.get(table) if is_object(content) else None
        if is_object(entries):
            return {name: entry for name, entry in entries.items() if not _is_disabled(entry)}
    raise LocalError(f'from_config(): {where} has no servers: write {{"mcpServers": {{"name": {{"command": …}}}}}}')


def client_of_entry(
    client_class: type[ClientT], entry: object, stderr: Callable[[str], None] | None, settings: Mapping[str, Any]
) -> ClientT:
    """Return the client of one entry, which is not connected.

    `stderr` gets each line that a child process writes to its standard error; None writes them to that of this process.
    Variables such as `${HOME}` and `${PORT:-8000}` are replaced by those of the environment. Raises LocalError for an
    entry that cannot work, and for a variable that is not set.
    """
    if not is_object(entry):
        raise LocalError(f"the entry is no object: {entry!r}")
    url = next((entry[key] for key in _URLS if key in entry), None)
    kind = entry.get("transport", entry.get("type"))
    needed = _TRANSPORTS.get(str(kind)) if kind is not None else ("command" if url is None else "url")
    if needed is None:
        raise LocalError(f'there is no transport {kind!r}: write "stdio", "http" or "sse"')
    other = entry.get("command") if needed == "url" else url
    if other is not None:
        raise LocalError(f"an entry with {needed!r} cannot have {'command' if needed == 'url' else 'url'!r} as well")
    if needed == "url":
        from ...transports.http_client.connection import HTTPOptions

        headers, others = _texts(entry, "headers"), dict(settings)
        options = HTTPOptions(headers=headers, auth=others.pop("auth", None), **_max_bytes(entry))
        return client_class.http(entry_text(url, "url"), http=options, **others)
    words = entry.get("args", [])
    if not is_list(words):
        raise LocalError(f"'args' must be a list of strings, not {words!r}")
    cwd = entry.get("cwd")
    return client_class.stdio(
        entry_text(entry.get("command"), "command"),
        *(entry_text(word, "args") for word in words),
        env=_texts(entry, "env"),
        cwd=None if cwd is None else entry_text(cwd, "cwd"),
        stderr=stderr,
        **_max_bytes(entry),
        **settings,
    )


def _is_disabled(entry: object) -> bool:
    return is_object(entry) and entry.get("disabled") is True


def _max_bytes(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword for the size of a message of the server, if the entry has it; hosts do not know this key."""
    if "max_bytes" not in entry:
        return {}
    if not COUNT.accepts(entry["max_bytes"]):
        raise LocalError(f"'max_bytes' must be {COUNT.expected}, not {entry['max_bytes']!r}")
    return {"max_bytes": entry["max_bytes"]}


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    values: object = entry.get(key) or dict[str, Any]()
    if not is_object(values):
        raise LocalError(f"{key!r} must be an object of strings, not {values!r}")
    return {name: entry_text(value, key) for name, value in values.items()}


def entry_text(value: object, key: str) -> str:
    """Return a string of an entry with its variables replaced. Raises LocalError."""
    if not isinstance(value, str) or not value:
        raise LocalError(f"{key!r} must be a string, not {value!r}" if value else f"{key!r} is missing or empty")
    return _VARIABLE.sub(_replacement(key), value)


def _replacement(key: str) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        default: str | None = match["default"]
        value = os.environ.get(match["name"])
        if value is None and default is None:
            raise LocalError(f"{key!r} needs the environment variable {match['name']}, which is not set")
        return value or default or ""

    return replace
