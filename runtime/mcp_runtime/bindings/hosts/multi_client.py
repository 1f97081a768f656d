"""One client for several servers: names with prefixes, and failures that harm no other server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar, Unpack, cast
from urllib.parse import quote

from ...aio.trio_programs.trio_tasks import is_trio_task
from ...endpoint.list_limits import MAX_ITEMS
from ...errors import (
    ConnectionClosedError,
    LocalError,
    MCPError,
    ProtocolViolationError,
    RemoteError,
    RequestTimeoutError,
)
from ...protocol.uris import spelled
from ...usage.keywords import checked
from ...usage.rules import FUNCTION, MAPPING, Rule
from ..client import BaseClient
from ..connect import Target, connect
from ..settings import MultiClientSettings
from .configuration import Configuration, client_of_entry, read_entries

_log: Final = logging.getLogger(__name__)

ClientT = TypeVar("ClientT", bound=BaseClient)

_LIST_SECONDS: Final = 30.0  # For all pages of a list of one server: the others are not kept waiting for longer.

OnServerClose: TypeAlias = Callable[[str, ConnectionClosedError | None], Awaitable[None] | None]
OnServerError: TypeAlias = Callable[[str, Exception], Awaitable[None] | None]

_RULES: Final[Mapping[str, Rule]] = {
    "servers": Rule(MAPPING.accepts, 'a dict of targets by name, such as {"notes": "http://host:port/mcp"}'),
    "on_close": FUNCTION.or_none(),
    "on_error": FUNCTION.or_none(),
}


class BaseMultiClient(Generic[ClientT]):
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
        servers: Mapping[str, Target | ClientT],
        *,
        on_close: OnServerClose | None = None,
        on_error: OnServerError | None = None,
        **settings: Unpack[MultiClientSettings],
    ) -> None:
        """Create a client of several servers.

        Args:
            servers: By name: clients that are not connected, or targets as `connect` takes them.
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
                (target if isinstance(target, BaseClient) else connect(self.client_class, target, revisions, keywords)),
            )
            for name, target in servers.items()
        }
        self.errors: dict[str, Exception] = {}
        for name, client in self.clients.items():
            client._observe(  # pyright: ignore[reportPrivateUsage]
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
                clients[name] = client_of_entry(cls.client_class, entry, on_line, {"revisions": "all", **settings})
            except LocalError as error:
                errors[name] = error
                _log.warning("the server %r is left out: %s", name, error)
        multi = cls(clients, on_close=on_close, on_error=on_error)
        multi.errors.update(errors)
        return multi

    async def __aenter__(self) -> Self:
        if is_trio_task():
            from ..trio_client import enter

            await enter(self, *self.clients.values())
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
                observer = self.clients.pop(name)._observer  # pyright: ignore[reportPrivateUsage]
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
        except TimeoutError:
            self._left_out(server, RequestTimeoutError(f"the list has not ended within {_LIST_SECONDS:g} s"))
        except ProtocolViolationError as error:  # The server declares no such list.
            _log.debug("the server %r: %s", server, error)
        except MCPError as error:
            self._left_out(server, error)
        return []

    def _left_out(self, server: str, error: MCPError) -> None:
        self.errors[server] = error
        _log.warning("the list of the server %r is left out: %s", server, error)

    async def _call(self, method: str, /, **arguments: Any) -> Any:
        """Call a method of the client whose prefix the name or the URI has."""
        key = "uri" if "uri" in arguments else "name"
        split = self._split_uri if key == "uri" else self._split_name
        server, arguments[key] = split(arguments[key])
        return await getattr(self.clients[server], method)(**arguments)

    def _split_name(self, name: str) -> tuple[str, str]:
        for server in self.clients:
            if name.startswith(f"{server}_"):
                return server, name[len(server) + 1 :]
        raise LocalError(f"{name!r} belongs to no connected server: {self._connected()}")

    def _split_uri(self, uri: str) -> tuple[str, str]:
        scheme, separator, rest = uri.partition("://")
        for server in self.clients:
            host = quote(server, safe="")
            first, slash, inside = rest.partition("/")
            if separator and slash and spelled(first).lower() == host.lower():
                return server, f"{scheme}://{inside}"
        raise LocalError(f"{uri!r} belongs to no connected server: {self._connected()}")

    def _connected(self) -> str:
        failed = f"; left out: {', '.join(self.errors)}" if self.errors else ""
        return f"names begin with {', '.join(f'{name}_' for name in self.clients) or '-'}{failed}"


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
