"""The hosts: the path of the configuration on a platform, its key, and the form of an entry."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ...errors import CodegenError, JsonObject

Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A server for a host to start by its command, or to connect to by its URL."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class _Places:
    """The folders in which programs of a platform store their configuration."""

    def __init__(self, platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> None:
        self.platform = platform
        self.environment = environment
        self.home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
        self.config = Path(environment.get("XDG_CONFIG_HOME") or self.home / ".config")
        self.windows = Path(environment.get("APPDATA") or self.home / "AppData" / "Roaming")

    @property
    def applications(self) -> Path:
        """The folder of programs with a window."""
        match self.platform:
            case "darwin":
                return self.home / "Library" / "Application Support"
            case "win32":
                return self.windows
            case _:
                return self.config


@dataclass(frozen=True, slots=True)
class Host:
    """A program that starts servers.

    `config_path` takes a `_Places`. `project_file` is the configuration of one project, relative to its folder, empty
    if the host has none. `remote_key` is the key of a URL, empty if the configuration cannot name one.
    """

    name: str
    title: str
    config_path: Callable[[_Places], Path]
    servers_key: str = "mcpServers"
    project_file: str = ""
    stdio_type: str = ""
    remote_key: str = "url"
    remote_type: str = ""
    next_step: str = "restart it to see the server"

    def path(self, scope: Scope, folder: Path) -> Path:
        """Return the path of the configuration. Raises CodegenError if the host has none for a project."""
        if scope == "user":
            return self.config_path(_Places())
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


def _claude_code(places: _Places) -> Path:
    return Path(places.environment.get("CLAUDE_CONFIG_DIR") or places.home) / ".claude.json"


def _goose(places: _Places) -> Path:
    if places.platform == "win32":
        return places.windows / "Block" / "goose" / "config" / "config.yaml"
    return places.config / "goose" / "config.yaml"


_ALL: Final = (
    Host(
        "claude-desktop",
        "Claude Desktop",
        lambda places: places.applications / "Claude" / "claude_desktop_config.json",
        remote_key="",
    ),
    Host(
        "claude-code",
        "Claude Code",
        _claude_code,
        project_file=".mcp.json",
        stdio_type="stdio",
        remote_type="http",
        next_step="start a new session to see the server; /mcp shows its state",
    ),
    Host(
        "cursor",
        "Cursor",
        lambda places: places.home / ".cursor" / "mcp.json",
        project_file=".cursor/mcp.json",
        stdio_type="stdio",
        next_step="enable the server in its settings, under MCP",
    ),
    Host(
        "vscode",
        "VS Code",
        lambda places: places.applications / "Code" / "User" / "mcp.json",
        servers_key="servers",
        project_file=".vscode/mcp.json",
        stdio_type="stdio",
        remote_type="http",
        next_step="start the server with the command MCP: List Servers",
    ),
    Host(
        "gemini",
        "Gemini CLI",
        lambda places: places.home / ".gemini" / "settings.json",
        project_file=".gemini/settings.json",
        remote_key="httpUrl",
        next_step="restart it; /mcp shows the state of the server",
    ),
    Host("goose", "goose", _goose, servers_key="extensions", next_step="start a new session to see the server"),
)
HOSTS: Final[Mapping[str, Host]] = {host.name: host for host in _ALL}


def config_path(host: str, platform: str, environment: Mapping[str, str]) -> Path:
    """Return the path of a host's configuration for a user of this platform."""
    return HOSTS[host].config_path(_Places(platform, environment))
