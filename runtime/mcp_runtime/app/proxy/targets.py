"""The targets of a proxy: what `App.proxy` takes, and the clients that connect to it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from ...bindings.client import BaseClient
from ...bindings.connect import connect
from ...bindings.hosts.configuration import client_of_entry, read_entries
from ...bindings.server import BaseServer, Servable
from ...errors import LocalError
from ...protocol.model_methods import ServerDetails
from ...protocol.models import is_object
from ...session.interfaces import RevisionChoice
from ...usage.rules import shown

ProxyTarget: TypeAlias = (
    str
    | os.PathLike[str]
    | Sequence[str]
    | Mapping[str, Any]
    | BaseServer
    | Servable
    | BaseClient
    | Sequence[BaseServer]
)

_RUNNERS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": (sys.executable,),
    ".js": ("node",),
    ".mjs": ("node",),
    ".jar": ("java", "-jar"),
}
_TABLES: Final = ("mcpServers", "servers")
_ENTRY_KEYS: Final = ("command", "url", "httpUrl", "serverUrl")
_TARGETS: Final = "a URL, a command, the path of a server file, an App, a Server, a Client or a configuration"


class ClientFactory:
    """Makes a client of one target for each connection of a proxy."""

    def __init__(
        self, client_class: type[BaseClient], target: Any, revisions: RevisionChoice, settings: Mapping[str, Any]
    ) -> None:
        """Check a target. Raises LocalError for one that cannot be connected to.

        Args:
            client_class: The class of the clients, of the newest protocol version.
            target: The target: not the configuration of several servers.
            revisions: The protocol versions that may be negotiated with the target.
            settings: The keywords of `Client.http` or `Client.stdio`.
        """
        self._client_class = client_class
        self._revisions = revisions
        self._settings = dict(settings)
        self._target: Any = target if isinstance(target, (BaseClient, Mapping)) else _words_of_file(target)
        self.connected: BaseClient | None = None
        """A client that is connected already; all connections share it."""
        self.on_connected: Callable[[ServerDetails], None] | None = None
        """Called with what the target is, each time that a client has connected to it."""
        if isinstance(target, BaseClient):
            self._check_client(target)
        else:
            self.client({})

    def client(self, keywords: Mapping[str, Any]) -> BaseClient:
        """Return a new client that is not connected; `keywords` are those of its constructor."""
        target: Any = self._target
        settings: dict[str, Any] = {**self._settings, **keywords}
        if isinstance(target, BaseClient):
            options: dict[str, Any] = {**keywords, "connect_options": target._connect_options}  # pyright: ignore
            return self._client_class(target._connect, revisions=self._revisions, **options)  # pyright: ignore
        if is_object(target):
            stderr = settings.pop("stderr", None)
            return client_of_entry(self._client_class, target, stderr, {"revisions": self._revisions, **settings})
        return connect(self._client_class, target, self._revisions, settings)

    def _check_client(self, client: BaseClient) -> None:
        if client._session is not None:  # pyright: ignore[reportPrivateUsage]
            self.connected = client
        elif client._handlers:  # pyright: ignore[reportPrivateUsage]
            names = ", ".join(sorted(client._handlers))  # pyright: ignore[reportPrivateUsage]
            raise LocalError(
                f"proxy(): the client {type(client).__name__!r} handles {names}, which a proxy passes to its own"
                " clients: connect it before, or pass its URL or command"
            )
        if self._settings:
            raise LocalError(f"proxy() with a Client takes no {next(iter(self._settings))!r}: pass it to the client")


def entries_of(target: Any) -> dict[str, Any] | None:
    """Return the entries of a configuration with several servers, by name; None for another target.

    Raises LocalError for a configuration without servers.
    """
    if is_object(target) and any(table in target for table in _TABLES):
        return _not_empty(read_entries(target))
    path = _path_text(target)
    if path.endswith(".json"):
        return _not_empty(read_entries(path))
    if is_object(target) and not any(key in target for key in _ENTRY_KEYS):
        raise LocalError('proxy(): the configuration has no servers: write {"mcpServers": {"name": {"command": …}}}')
    return None


def prefix_of(name: str) -> str:
    """Return the prefix of a server of a configuration: its name, with `_` for what no prefix may have."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _path_text(target: Any) -> str:
    """Return a text or a path as a text; of another target, the empty one."""
    return os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""


def _not_empty(entries: dict[str, Any]) -> dict[str, Any]:
    if not entries:
        raise LocalError("proxy(): all servers of the configuration are disabled: enable one, or pass another target")
    return entries


def _words_of_file(target: Any) -> Any:
    """Return the words that start a server file or a command line; another target as it is."""
    if isinstance(target, os.PathLike):
        return _start_file(_path_text(target))
    if not isinstance(target, str):
        if isinstance(target, (BaseServer, Servable, Sequence)):
            return cast(Any, target)
        raise LocalError(f"proxy() needs {_TARGETS}; {shown(target)} is none of them")
    if target.startswith(("http://", "https://")):
        return target
    if os.path.splitext(target)[1] in _RUNNERS and (os.path.exists(target) or not target.split()[1:]):
        return _start_file(target)
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise LocalError(f"proxy(): {shown(target)} is no command line: {error}") from None
    if not words:
        raise LocalError(f"proxy() needs {_TARGETS}; an empty string is none of them")
    return words


def _start_file(path: str) -> list[str]:
    runner = _RUNNERS.get(os.path.splitext(path)[1])
    if runner is None:
        raise LocalError(f"proxy(): {path!r} is no server file (.py, .js, .jar): pass its command as a list of words")
    if not Path(path).is_file():
        raise LocalError(f"proxy(): there is no file {path!r}: pass the path of a server, a URL or a command")
    return [*runner, path]
