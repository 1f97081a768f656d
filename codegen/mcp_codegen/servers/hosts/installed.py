"""The servers in the configurations of the hosts on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...errors import CodegenError
from ...json_types import JsonObject, is_list, is_object
from .catalog import HOSTS, Scope
from .editing import HostFile


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
