"""One client for several servers: names with prefixes, and failures that harm no other server; and their entries in the
configuration file of a host, under `mcpServers` (or `servers`)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar, Unpack, cast
from urllib.parse import quote

from mcp_runtime._lazy import load
from mcp_runtime.aio.tasks import foreign_loop
from mcp_runtime.bindings.arguments import MultiClientSettings
from mcp_runtime.bindings.client import BaseClient
from mcp_runtime.errors import (
    ConnectionClosedError,
    LocalError,
    MCPError,
    ProtocolViolationError,
    RemoteError,
    RequestTimeoutError,
)
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.result_types import FollowedPages
from mcp_runtime.protocol.uris import spelled
from mcp_runtime.usage.keywords import NamesOfAttributes, checked
from mcp_runtime.usage.rules import COUNT, FUNCTION, MAPPING, TEXT, Rule, are_texts, check_values

from .targets import CONNECTION, PYTHONS, ClientTarget, MadeClient, client_of, generated_of

_log: Final = logging.getLogger("mcp_runtime.host.multi_client")

ClientT = TypeVar("ClientT", bound=BaseClient)
Configuration = str | os.PathLike[str] | dict[str, Any]

_LIST_SECONDS: Final = 30.0  # For all pages of a list of one server: the others are not kept waiting for longer.
LIST_SECONDS: Final = 10.0  # For all pages, with the time until the connection is open.
_MAX_PAGES: Final = 1000
MAX_ITEMS: Final = 10_000
_MAX_BYTES: Final = 16 * 1024 * 1024  # Of the pages as JSON; a message has a limit of its own.

OnServerClose: TypeAlias = Callable[[str, ConnectionClosedError | None], Awaitable[None] | None]
OnServerError: TypeAlias = Callable[[str, Exception], Awaitable[None] | None]

_RULES: Final[Mapping[str, Rule]] = {
    "servers": Rule(
        lambda value: MAPPING.accepts(value) and are_texts(value.keys()),
        'a dict of targets by name, such as {"notes": "http://host:port/mcp"}',
    ),
    "on_close": FUNCTION.or_none(),
    "on_error": FUNCTION.or_none(),
}

TABLES: Final = ("mcpServers", "servers")
URLS: Final = ("url", "httpUrl", "serverUrl")
_TRANSPORTS: Final = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamableHttp": "url",
    "sse": "url",
}
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


# The limits of one list of a server: a list that does not end costs a bounded time and a bounded memory.


@dataclass(slots=True)
class ListLimits:
    """How long a list of a peer may take, and how many pages, items and bytes it may have."""

    seconds: float = LIST_SECONDS
    pages: int = _MAX_PAGES
    items: int = MAX_ITEMS
    size: int = _MAX_BYTES


class ListedPages(FollowedPages):
    """The pages of one list, as they come, with a limit of their bytes as well."""

    def __init__(self, method: str, limits: ListLimits) -> None:
        """Begin a list."""
        super().__init__(method, limits.pages, limits.items)
        self._max_size = limits.size
        self._size = 0

    def add_page(self, page: Any, items: int) -> str | None:
        """Count a page with its number of items, and return the cursor of the next one; None after the last.

        Raises RemoteError as `add` does, and for more bytes than the limit.
        """
        cursor = self.add(items, page.next_cursor)
        if cursor is not None:  # Most lists have one page, and nothing to count.
            self._size += len(page.model_dump_json())
            if self._size > self._max_size:
                raise RemoteError(f"{self._method!r}: the list has more than {self._max_size:,} bytes")
        return cursor


# A client of several servers.


class BaseMultiClient(NamesOfAttributes, Generic[ClientT]):
    """The base class of `MultiClient`: `async with` connects to all servers, and disconnects.

    The tools and prompts of a server are named `server_name`, and its resource URIs become `scheme://server/path`.

    Attributes:
        clients: The clients of the servers by name; after connecting, only those that are connected.
        errors: Why servers are left out, by name: the error of their entry, of their connection or of their last list.
    """

    client_class: ClassVar[type[BaseClient]]

    @checked(MultiClientSettings, rules=_RULES, example='MultiClient({"name": "http://host:port/mcp"})')
    def __init__(
        self,
        servers: Mapping[str, ClientTarget | ClientT | MadeClient],
        *,
        on_close: OnServerClose | None = None,
        on_error: OnServerError | None = None,
        **settings: Unpack[MultiClientSettings],
    ) -> None:
        """Create a client of several servers.

        Args:
            servers: By name: targets as `Client` takes them, or clients that are not connected.
            on_close: A function, or an `async def`, of the name of a server whose connection has ended: with None if
                this client has closed it, else with the error.
            on_error: A function, or an `async def`, of the name of a server and of an error that no call raises: of a
                handler, of an invalid message of the server, or of a connection that could not be opened.
            settings: The keywords of the constructor of clients; by default they negotiate all protocol versions.

        Raises LocalError for names that are ambiguous as prefixes, and for a wrong target.
        """
        _check_names(servers)
        keywords: dict[str, Any] = {**settings}
        revisions = keywords.pop("revisions", "all")
        self.clients: dict[str, ClientT] = {
            name: cast(
                ClientT,
                (
                    target
                    if isinstance(target, BaseClient)
                    else client_of(self.client_class, target, revisions, {**keywords})
                ),
            )
            for name, target in ((name, generated_of(target)) for name, target in servers.items())
        }
        self.errors: dict[str, Exception] = {}
        for name, client in self.clients.items():
            client.parts.observe(
                None if on_close is None else partial(on_close, name),
                None if on_error is None else partial(on_error, name),
            )

    @classmethod
    def from_config(
        cls,
        configuration: Configuration,
        *,
        stderr: Callable[[str, str], None] | None = None,
        on_close: OnServerClose | None = None,
        on_error: OnServerError | None = None,
        **settings: Unpack[MultiClientSettings],
    ) -> Self:
        """Return a client of the servers in a host's configuration.

        An entry has `command`, `args`, `env` and `cwd`, or `url` and `headers`. An entry that cannot work is left out;
        `errors` has the reason.

        Args:
            configuration: The path of a file such as claude_desktop_config.json, or its content.
            stderr: A function that gets the name of a server and each line that it writes to its standard error; by
                default the lines go to the standard error of this process.
            on_close: See the constructor.
            on_error: See the constructor.
            settings: The keywords of the constructor of clients; by default they negotiate all protocol versions.

        Raises LocalError for a file that cannot be read, that is not JSON, or that has no servers.
        """
        clients: dict[str, Any] = {}
        errors: dict[str, Exception] = {}
        for name, entry in read_entries(configuration).items():
            try:
                _check_names([*clients, name])
                on_line = None if stderr is None else partial(stderr, name)
                runnable = _with_a_python(entry)
                clients[name] = client_of_entry(cls.client_class, runnable, on_line, {"revisions": "all", **settings})
            except LocalError as error:
                errors[name] = error
                _log.warning("the server %r is left out: %s", name, error)
        multi = cls(clients, on_close=on_close, on_error=on_error)
        multi.errors.update(errors)
        return multi

    async def __aenter__(self) -> Self:
        if (foreign := foreign_loop()) is not None:
            await foreign.enter(self, *self.clients.values())
            return self
        try:
            opened = await asyncio.gather(
                *(client.__aenter__() for client in self.clients.values()), return_exceptions=True
            )
        except BaseException:
            await self.close()
            raise
        for name, outcome in zip([*self.clients], opened, strict=True):
            if isinstance(outcome, Exception):
                self.errors[name] = outcome
                observer = self.clients.pop(name).parts.observer
                if observer is not None:
                    observer.report(outcome)
                _log.warning("the server %r is left out: %s", name, outcome)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to all servers. May be called more than once."""
        outcomes = await asyncio.gather(*(client.close() for client in self.clients.values()), return_exceptions=True)
        for name, outcome in zip(self.clients, outcomes, strict=True):
            if isinstance(outcome, Exception):
                _log.warning("the connection to the server %r was not closed: %s", name, outcome)

    async def _list_all(self, iterator: str) -> list[Any]:
        """Return the items of a list of all servers, with their names and URIs as this client has them."""
        listed = await asyncio.gather(*(self._list(name, iterator) for name in self.clients))
        return [item for items in listed for item in items]

    async def _list(self, server: str, iterator: str) -> list[Any]:
        items: AsyncIterator[Any] = getattr(self.clients[server], iterator)()
        listed: list[Any] = []
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                async for item in items:
                    if len(listed) == MAX_ITEMS:
                        raise RemoteError(f"the list has more than {MAX_ITEMS:,} items")
                    listed.append(_with_prefix(server, item))
            return listed
        except ProtocolViolationError as error:  # The server declares no such list.
            _log.debug("the server %r: %s", server, error)
        except MCPError as error:
            self._left_out(server, error)
        except TimeoutError:
            self._left_out(server, RequestTimeoutError(f"the list has not ended within {_LIST_SECONDS:g} s"))
        return []

    def _left_out(self, server: str, error: MCPError) -> None:
        self.errors[server] = error
        _log.warning("the list of the server %r is left out: %s", server, error)

    async def _call(self, method: str, /, **arguments: Any) -> Any:
        """Call a method of the client whose prefix the name or the URI has."""
        key = "uri" if "uri" in arguments else "name"
        check_values(method, {key: arguments[key]}, {key: TEXT})
        split = self._split_uri if key == "uri" else self._split_name
        server, arguments[key] = split(arguments[key])
        return await getattr(self.clients[server], method)(**arguments)

    def _split_name(self, name: str) -> tuple[str, str]:
        for server in self.clients:
            if name.startswith(f"{server}_"):
                return server, name[len(server) + 1 :]
        raise LocalError(f"{name!r} belongs to no connected server: {self._connected('names begin with', '_')}")

    def _split_uri(self, uri: str) -> tuple[str, str]:
        scheme, separator, rest = uri.partition("://")
        for server in self.clients:
            host = quote(server, safe="")
            first, slash, inside = rest.partition("/")
            if separator and slash and spelled(first).lower() == host.lower():
                return server, f"{scheme}://{inside}"
        raise LocalError(f"{uri!r} belongs to no connected server: {self._connected('the host of a URI is')}")

    def _connected(self, rule: str, end: str = "") -> str:
        reasons = [f"{name} ({str(error).splitlines()[0]})" for name, error in self.errors.items()]
        failed = f"; left out: {', '.join(reasons)}" if reasons else ""
        return f"{rule} {', '.join(f'{name}{end}' for name in self.clients) or '-'}{failed}"


def _with_prefix(server: str, item: Any) -> Any:
    """Return a copy of an item of a list with the prefix of its server: in the URI if it has one, else in the name."""
    for attribute in ("uri", "uri_template"):
        if (uri := getattr(item, attribute, None)) is not None:
            scheme, separator, rest = uri.partition("://")
            if not separator:
                return item
            return item.model_copy(update={attribute: f"{scheme}://{quote(server, safe='')}/{rest}"})
    return item.model_copy(update={"name": f"{server}_{item.name}"})


def _check_names(names: Collection[str]) -> None:
    for name in names:
        if not name:
            raise LocalError("MultiClient(): the name of a server cannot be empty")
        for other in names:
            if other.startswith(f"{name}_"):
                raise LocalError(f"MultiClient(): {other!r} begins with {name + '_'!r}: rename one of the two servers")


# The configuration file of a host: one entry for each server.


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
    for table in TABLES:
        entries = content.get(table) if is_object(content) else None
        if is_object(entries):
            enabled = {name: entry for name, entry in entries.items() if not _is_disabled(entry)}
            for name, wrong in ((name, unused(entry)) for name, entry in enabled.items()):
                if wrong is not None:  # Other programs read the file as well, and may use the key: it is not refused.
                    _log.warning("the server %r: %s", name, wrong)
            return enabled
    raise LocalError(f'from_config(): {where} has no servers: write {{"mcpServers": {{"name": {{"command": …}}}}}}')


def unused(entry: object) -> str | None:
    """Return what to write instead of the first key that has no meaning for a server with the command or URL of an
    entry; None if there is no such key.

    An entry with a command and a URL, or with neither, is wrong otherwise.
    """
    if not is_object(entry) or ("command" in entry) == any(key in entry for key in URLS):
        return None
    if "command" in entry:
        keys, remedy = ["headers"], "is for a server with a URL: leave it out; a command gets what it needs in 'env'"
    else:
        keys, remedy = ["args", "env", "cwd"], "is for a server with a command: leave it out"
    return next((f"{key!r} {remedy}" for key in keys if entry.get(key)), None)


def client_of_entry(
    client_class: type[ClientT], entry: object, stderr: Callable[[str], None] | None, settings: Mapping[str, Any]
) -> ClientT:
    """Return the client of one entry, which is not connected.

    `stderr` gets each line that a child process writes to its standard error; None writes them to that of this process.
    Variables such as `${HOME}` and `${PORT:-8000}` are replaced by those of the environment. Raises LocalError for an
    entry that cannot work, and for a variable that is not set.
    """
    if not is_object(entry):
        raise LocalError(f"the entry is not an object: {entry!r}")
    url = next((entry[key] for key in URLS if key in entry), None)
    kind = entry.get("transport", entry.get("type"))
    needed = _TRANSPORTS.get(str(kind)) if kind is not None else ("command" if url is None else "url")
    if needed is None:
        raise LocalError(f'there is no transport {kind!r}: write "stdio", "http" or "sse"')
    other = entry.get("command") if needed == "url" else url
    if other is not None:
        raise LocalError(f"an entry with {needed!r} cannot have {'command' if needed == 'url' else 'url'!r} as well")
    if needed == "url":
        headers, others = _texts(entry, "headers"), dict(settings)
        options = load(CONNECTION).HTTPOptions(headers=headers, auth=others.pop("auth", None), **_max_bytes(entry))
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


def _with_a_python(entry: object) -> Any:
    """Return an entry whose command is the Python that runs this program, if it is "python" and there is no such
    program: many systems have "python3" alone."""
    if not is_object(entry) or entry.get("command") not in PYTHONS or shutil.which(entry["command"]):
        return entry
    return {**entry, "command": sys.executable}


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
