"""What is wrong in the file of a gateway: keys and values, variables, commands and URLs, each with its line.

No server is started or connected to.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from mcp_products.host.multi_client import entry_text
from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_list, is_object

from ..gateway.settings import ENCODING, TARGET, read_settings
from ..upstream.target import target_of_entry

_PLACE: Final = re.compile(r"Gateway\(\):? ")  # How errors name settings that are not a file.
_USERS: Final = "mcp_products.relay.gateway.users"
_QUOTES: Final = ('"""', "'''")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TABLES: Final = ("tools", "exchange", "breaker")

KeyPath = tuple[str, ...]


class Finding(NamedTuple):
    """Something that is wrong: the keys that lead to it, and a sentence that says what to write."""

    path: KeyPath
    message: str


def check_file(file: str | os.PathLike[str]) -> list[str]:
    """Return a line for everything that is wrong in a file, with its name and the number of its line.

    Raises LocalError for a file that cannot be read, or is not TOML.
    """
    try:
        text = Path(file).read_text(encoding=ENCODING)
        content = tomllib.loads(text)
    except (OSError, ValueError):
        read_settings(file)  # Its error says which.
        raise
    lines = lines_of(text)
    found = [(_line(lines, finding.path), finding.message) for finding in findings(content)]
    return [f"{file}:{line}: {message}" for line, message in sorted(found)]


def findings(content: Mapping[str, Any]) -> list[Finding]:
    """Return everything that is wrong in the tables of a file.

    Each key is read as if it stood alone, so that one that is wrong hides no other.
    """
    known = "gateway", "upstreams"
    gateway, upstreams = (content.get(key, {}) for key in known)
    found = [item for key in content if key not in ("auth", *known) for item in _refused({key: 0}, key)]
    found += _of_auth(content["auth"]) if is_object(content.get("auth")) else ()
    for key, value in gateway.items() if is_object(gateway) else ():
        found += _refused({"gateway": {key: value}, "upstreams": {"x": {}}}, "gateway", key)
    for name, table in upstreams.items() if is_object(upstreams) else ():
        if is_object(table):
            own = [*_of_upstream(name, table)]  # A key that is missing may be one that is misspelt.
            found += [*own, *(item for item in _of_target(name, table) if not own or len(item.path) > 2)]
        else:
            found += _refused({"upstreams": {name: table}}, "upstreams", name)
    return found or _refused(content)


def _refused(settings: Mapping[str, Any], *path: str) -> list[Finding]:
    """Return what is wrong in settings, which is found where a path leads to."""
    try:
        read_settings(settings)
    except LocalError as error:
        message = _PLACE.sub(lambda match: "" if ":" in match[0] else "the file ", str(error), count=1)
        named = re.search(r"\[upstreams\.([^\].]+)", message)
        return [Finding(path or (("upstreams", named[1]) if named else ()), message)]
    return []


def _of_auth(table: Mapping[str, Any]) -> list[Finding]:
    """Return the first thing that is wrong in the table of users."""
    try:
        load(_USERS).resource_server_of(table)
    except LocalError as error:
        key = re.match(r"\[auth\] '?(\w+)", str(error))
        return [Finding(("auth", key[1]) if key is not None else ("auth",), str(error))]
    return []


def _of_upstream(name: str, table: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what is wrong in the keys of a server and of its tables."""
    for key, value in table.items():
        ways = {"exchange": ("url", "headers"), **dict.fromkeys(TARGET, ("command", "url"))}.get(key, ())
        beside = {"prefix": "x", **{other: table[other] for other in ways if other in table}}  # An error of its own.
        parts = {part: {part: item} for part, item in value.items()} if key in _TABLES and is_object(value) else {}
        inside: list[Finding] = []
        for part, alone in parts.items():
            needed = {"token_endpoint": "x", "client_id": "x"} if key == "exchange" else {}
            trials = [alone]
            if key == "tools" and is_object(alone[part]):
                trials = [{part: {field: setting}} for field, setting in alone[part].items()]
            for trial in trials:
                fields = trial[part] if key == "tools" and is_object(trial[part]) else {}
                settings = {"upstreams": {name: {**beside, key: {**needed, **trial}}}}
                inside += _refused(settings, "upstreams", name, key, part, *fields)
        yield from inside or _refused({"upstreams": {name: {**beside, key: value}}}, "upstreams", name, key)


# ---- how a server is reached -----------------------------------------------------------------------------------------


def _of_target(name: str, table: Mapping[str, Any]) -> list[Finding]:
    """Return which variables of a server are not set, and what of its command or URL cannot be right."""
    found: list[Finding] = []
    place = f"[upstreams.{name}] "

    def check(path: KeyPath, value: Any, right: Callable[[str], str | None] = lambda text: None) -> None:
        if isinstance(value, str):
            try:
                wrong = right(entry_text(value, path[-1]))
            except LocalError as error:
                wrong = str(error)
            if wrong is not None:
                found.append(Finding(("upstreams", name, *path), place + wrong))

    rules = {"command": _wrong_command, "url": _wrong_url, "cwd": _wrong_folder}
    for key in TARGET:
        value = table.get(key)
        if is_object(value):
            for part, item in value.items():
                check((key, part), item)
        for item in value if is_list(value) else [value]:
            check((key,), item, rules.get(key, lambda text: None))
    exchange = table.get("exchange")
    for key, value in exchange.items() if is_object(exchange) else ():
        check(("exchange", key), value, _wrong_url if key == "token_endpoint" else lambda text: None)
    if not found:
        try:
            target_of_entry({key: table[key] for key in TARGET if key in table})
        except LocalError as error:
            named = re.match(r"'(\w+)'", str(error))
            within = () if named is None or named[1] not in table else (named[1],)
            found.append(Finding(("upstreams", name, *within), place + str(error)))
    return found


def _wrong_command(command: str) -> str | None:
    if shutil.which(command) is not None:
        return None
    where = "there is no such program" if os.path.dirname(command) else "no folder of PATH has it"
    return f"command {command!r} cannot be started, {where}: install it, or write its path"


def _wrong_folder(folder: str) -> str | None:
    return None if os.path.isdir(folder) else f"cwd {folder!r} is not a folder: write one that exists"


def _wrong_url(url: str) -> str | None:
    reason = None
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            reason = "it has to begin with https:// or http://"
        elif not parts.hostname or parts.port == 0:
            reason = "it names no host" if not parts.hostname else "there is no port 0"
        elif re.search(r"[\s\x00-\x1f\\]", url):
            reason = "it has a space or a backslash"
        elif parts.fragment:
            reason = "what follows # is sent to no server"
    except ValueError:
        reason = "its host or its port cannot be read"
    return None if reason is None else f"the URL cannot be right, {reason}"  # It may have a secret in it.


# ---- lines -----------------------------------------------------------------------------------------------------------


def lines_of(text: str) -> dict[KeyPath, int]:
    """Return the number of the line of each table and each key of a TOML file. What stands within a line has none."""
    lines: dict[KeyPath, int] = {(): 1}
    table: KeyPath = ()
    quote = ""  # Of a text over several lines.
    for number, line in enumerate(text.splitlines(), 1):
        if quote:
            quote = quote if line.count(quote) % 2 == 0 else ""
            continue
        header = line.split("#", 1)[0].strip()
        try:
            if header.startswith("[") and "=" not in header:
                table = _path_of(tomllib.loads(header))
                lines.setdefault(table, number)
            elif key := _KEY.match(line):
                lines.setdefault(table + _path_of(tomllib.loads(f"{key[1]} = 0")), number)
        except ValueError:
            pass  # A line of a list.
        quote = next((mark for mark in _QUOTES if line.count(mark) % 2), "")
    return lines


def _path_of(content: Any) -> KeyPath:
    """Return the keys that lead to the only table or value of a line."""
    path: KeyPath = ()
    while is_object(content) and content:
        ((key, content),) = content.items()
        path = (*path, key)
    return path


def _line(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of the end of a path, or of what it is in."""
    while path not in lines:
        path = path[:-1]
    return lines[path]
