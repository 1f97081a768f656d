"""Add and remove an entry of a host's configuration: JSON or YAML, with a backup, atomically."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from ...errors import CodegenError, SchemaError
from ...json_types import JsonObject, is_object
from ...output import back_up, folders_between, read_file, refuse_links, replace_user_file
from .catalog import Host
from .host_config import MAX_BYTES, duplicate_names, read_config
from .yaml_editing import yaml_text, yaml_with_entry, yaml_without_entry

_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|(//[^\n]*|/\*.*?\*/)', re.S)
# What an entry says of the server itself; all else, such as `disabled`, is the user's and remains.
_REPLACED: Final = frozenset({"command", "args", "cwd", "type", "url", "httpUrl", "headers", "cmd", "uri", "name"})
_VARIABLES: Final = ("env", "envs")


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
        others = {key: value for key, value in old.items() if key not in _REPLACED and key not in entry}
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
