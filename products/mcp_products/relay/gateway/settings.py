"""The settings of a gateway: a TOML file, or the same as a dict."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Any, Final

from mcp_products.host.lists import LIST_SECONDS, MAX_ITEMS, ListLimits
from mcp_products.host.multi_client import entry_text
from mcp_runtime.errors import LocalError
from mcp_runtime.http.authentication import check_scopes
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.usage.keywords import nearest
from mcp_runtime.usage.rules import are_texts

from ..proxy.own_methods import check_methods
from ..upstream.places import HTTP_CONNECTIONS, PROCESSES
from ..upstream.pool import MAX_CONNECTIONS
from .breaker import BreakerSettings

_TARGET: Final = ("command", "args", "env", "cwd", "url", "headers", "type", "max_bytes")
_LISTS: Final = ("allow", "deny")
_NUMBERS: Final = ("rate", "timeout", "list_timeout", "idle")
_COUNTS: Final = ("connections", "session_connections", "list_items")
_FLAGS: Final = ("cache", "resources", "prompts", "share")
_KEYS: Final = ("prefix", "tools", "exchange", "scopes", "breaker", "methods")
_AS_THEY_ARE: Final = (*_LISTS, "rate", "timeout", "idle", "connections", *_FLAGS, "scopes", "methods")
_UPSTREAM: Final = (*_TARGET, *_LISTS, *_NUMBERS, *_COUNTS, *_FLAGS, *_KEYS)
_BREAKER: Final = ("failures", "delay")
_EXCHANGE: Final = ("token_endpoint", "client_id", "client_secret", "audience", "scope")
_TOOL: Final = ("name", "description", "hidden", "arguments", "scopes")
_GATEWAY: Final = ("name", "audit", "lock", "health", "live", "ready", "metrics", "page")
_SWITCHES: Final = ("code_mode",)
_MAX_PREFIX: Final = 64

_Kind = tuple[Callable[[Any], bool], str]
# What a value must be, and the rest of the sentence that refuses another.
_NUMBER: Final[_Kind] = (
    lambda value: type(value) in (int, float) and 0 < value < inf,
    "a number above 0: write {} = 10",
)
_COUNT: Final[_Kind] = (lambda value: type(value) is int and value > 0, "a whole number above 0: write {} = 16")
_FLAG: Final[_Kind] = (lambda value: type(value) is bool, "true or false: write {} = false")
_TEXT: Final[_Kind] = (lambda value: isinstance(value, str), 'a text: write {} = "…"')


@dataclass(slots=True)
class ToolChange:
    """What a gateway changes of one tool: its name, its description, arguments with fixed values, and the scopes that
    it needs."""

    name: str | None = None
    description: str | None = None
    hidden: bool = False
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    scopes: Sequence[str] = ()


@dataclass(slots=True)
class ExchangeSettings:
    """How a gateway gets tokens of users for a server: by a token exchange at this token endpoint, as this client."""

    token_endpoint: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    audience: str | None = None
    scope: str | None = None

    def with_variables(self) -> ExchangeSettings:
        """Return the settings with the variables of the environment. Raises LocalError for one that is not set."""
        table = {name: getattr(self, name) for name in _EXCHANGE}
        return ExchangeSettings(**{name: entry_text(text, name) for name, text in table.items() if text is not None})


@dataclass(slots=True)
class UpstreamSettings:
    """One server behind a gateway: how it is reached, and what clients may use of it."""

    entry: dict[str, Any]
    prefix: str
    session_connections: int
    limits: ListLimits
    exchange: ExchangeSettings | None
    tools: dict[str, ToolChange]
    breaker: BreakerSettings | None
    allow: Sequence[str] = ("*",)
    deny: Sequence[str] = ()
    rate: float | None = None
    timeout: float | None = None
    cache: bool = False
    resources: bool = True
    prompts: bool = True
    scopes: Sequence[str] = ()
    connections: int = MAX_CONNECTIONS
    share: bool | None = None
    idle: float | None = None
    methods: Sequence[str] = ()

    @classmethod
    def of_table(cls, name: str, table: Mapping[str, Any]) -> UpstreamSettings:
        """Return the settings of a table that was checked."""
        default = PROCESSES if "command" in table else HTTP_CONNECTIONS
        breaker = table.get("breaker", True)
        return cls(
            {key: table[key] for key in _TARGET if key in table},
            table.get("prefix", name),
            table.get("session_connections", default),
            ListLimits(seconds=table.get("list_timeout", LIST_SECONDS), items=table.get("list_items", MAX_ITEMS)),
            ExchangeSettings(**table["exchange"]) if "exchange" in table else None,
            {tool: ToolChange(**change) for tool, change in table.get("tools", {}).items()},
            None if breaker is False else BreakerSettings(**(breaker if is_object(breaker) else {})),
            **{key: table[key] for key in _AS_THEY_ARE if key in table},
        )

    @property
    def target(self) -> tuple[object, ...]:
        """How the server is reached, as whom, and with which connections."""
        places = self.connections, self.session_connections, self.share, self.idle
        return self.entry, self.exchange, *places, self.methods

    def shows(self, kind: str) -> bool:
        """Return True if clients may use a kind: "tools", "prompts", "resources" or "resource_templates"."""
        if kind == "tools":
            return True
        return self.prompts if kind == "prompts" else self.resources

    def allows(self, tool: str) -> bool:
        """Return True if clients may use a tool; the name is that of the server."""
        change = self.tools.get(tool)
        return (
            any(fnmatchcase(tool, pattern) for pattern in self.allow)
            and not any(fnmatchcase(tool, pattern) for pattern in self.deny)
            and not (change is not None and change.hidden)
        )

    def scopes_of(self, tool: str | None) -> Sequence[str]:
        """Return the scopes that a request needs for a tool, by the name of the server, or for anything else."""
        change = None if tool is None else self.tools.get(tool)
        return self.scopes if change is None else (*self.scopes, *change.scopes)

    def outside(self, tool: str) -> str:
        """Return the name that clients have for a tool, without the prefix."""
        change = self.tools.get(tool)
        return tool if change is None or change.name is None else change.name

    def inside(self, name: str) -> str | None:
        """Return the server's name of a tool; None if clients have no tool of this name."""
        renamed = next((tool for tool, change in self.tools.items() if change.name == name), None)
        tool = name if renamed is None else renamed
        return tool if self.outside(tool) == name and self.allows(tool) else None


@dataclass(slots=True)
class GatewaySettings:
    """The settings of a gateway. Paths are relative to the folder of its file."""

    upstreams: dict[str, UpstreamSettings]
    auth: Mapping[str, Any] | None
    name: str = "gateway"
    audit: Path | None = None
    lock: Path | None = None
    health: str | None = None
    live: str | None = None
    ready: str | None = None
    metrics: str | None = None
    page: str | None = None
    code_mode: bool = False


def read_settings(
    source: str | os.PathLike[str] | Mapping[str, Any], package: str = "mcp_generated"
) -> GatewaySettings:
    """Return the settings of a TOML file, or of a dict with the same tables, for a generated package.

    Raises LocalError for a file that cannot be read, for an unknown key, with the key to write instead, and for a value
    that cannot work.
    """
    where, folder = "Gateway()", Path()
    content: Any = source
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        where, folder = str(path), path.parent
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise LocalError(f"{where} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise LocalError(f"{where} is not TOML: {error}") from None
    if not is_object(content):
        raise LocalError('Gateway() needs a file or a dict: write Gateway("gateway.toml")')
    _check_keys(where, "the file", content, ("auth", "gateway", "upstreams"))
    gateway = _table(where, "gateway", content.get("gateway", {}))
    _check_keys(where, "[gateway]", gateway, (*_GATEWAY, *_SWITCHES))
    _check_values(where, "[gateway]", gateway, _GATEWAY, _TEXT)
    for key in ("health", "live", "ready", "metrics", "page"):
        if not gateway.get(key, "/").startswith("/"):
            raise LocalError(f'{where}: {key} is the path of a route: write {key} = "/{gateway[key]}"')
    _check_values(where, "[gateway]", gateway, _SWITCHES, _FLAG)
    tables = _table(where, "upstreams", content.get("upstreams", {}))
    if not tables:
        raise LocalError(f'{where} has no upstreams: write [upstreams.NAME] with command = "…" or url = "…"')
    upstreams = {name: _upstream(where, name, table) for name, table in tables.items()}
    _check_prefixes(where, {name: item.prefix for name, item in upstreams.items()})
    _check_names(where, {name: item.methods for name, item in upstreams.items()}, package)
    auth = _table(where, "auth", content["auth"]) if "auth" in content else None
    paths: dict[str, Path] = {key: folder / gateway[key] for key in ("audit", "lock") if key in gateway}
    fields: dict[str, Any] = {**gateway, **paths}
    return GatewaySettings(upstreams, auth, **fields)


def _upstream(where: str, name: str, table: Any) -> UpstreamSettings:
    place = f"[upstreams.{name}]"
    table = _table(where, f"upstreams.{name}", table)
    _check_keys(where, place, table, _UPSTREAM)
    _check_values(where, place, table, ("prefix",), _TEXT)
    for key in _LISTS:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):  # pyright: ignore
            raise LocalError(f'{where}: {place} {key} is a list of patterns: write {key} = ["read_*"]')
    _check_scopes(where, place, table)
    _check_methods(where, place, table)
    _check_values(where, place, table, _NUMBERS, _NUMBER)
    _check_values(where, place, table, _COUNTS, _COUNT)
    _check_values(where, place, table, _FLAGS, _FLAG)
    for tool, change in _table(where, f"upstreams.{name}.tools", table.get("tools", {})).items():
        _check_tool(where, f"[upstreams.{name}.tools.{tool}]", _table(where, f"upstreams.{name}.tools.{tool}", change))
    if "exchange" in table:
        _check_exchange(where, place, table)
    if type(table.get("breaker", True)) is not bool:
        _check_breaker(where, f"upstreams.{name}.breaker", table["breaker"])
    settings = UpstreamSettings.of_table(name, table)
    prefix = settings.prefix
    if prefix and not (prefix.replace("-", "_").isidentifier() and len(prefix) < _MAX_PREFIX):
        raise LocalError(f'{where}: {place} the prefix {prefix!r} is no identifier: write prefix = "tools"')
    return settings


def _check_tool(where: str, place: str, change: Mapping[str, Any]) -> None:
    _check_keys(where, place, change, _TOOL)
    _check_values(where, place, change, ("name", "description"), _TEXT)
    _check_scopes(where, place, change)
    if type(change.get("hidden", False)) is not bool:
        raise LocalError(f"{where}: {place} hidden is true or false: write hidden = true")
    if not is_object(change.get("arguments", {})):
        raise LocalError(
            f'{where}: {place} arguments is a table of fixed values: write arguments = {{ path = "/srv" }}'
        )


def _check_scopes(where: str, place: str, table: Mapping[str, Any]) -> None:
    scopes = table.get("scopes", [])
    if not is_list(scopes) or not all(isinstance(scope, str) for scope in scopes):
        raise LocalError(f'{where}: {place} scopes is a list of scopes: write scopes = ["notes:write", "role:admin"]')
    try:
        check_scopes(scopes)
    except LocalError as error:
        raise LocalError(f"{where}: {place} {error}") from None


def _check_methods(where: str, place: str, table: Mapping[str, Any]) -> None:
    if not are_texts(table.get("methods", [])):
        raise LocalError(f'{where}: {place} methods is a list of methods of vendors: write methods = ["acme/search"]')


def _check_exchange(where: str, place: str, table: Mapping[str, Any]) -> None:
    exchange = _table(where, f"{place[1:-1]}.exchange", table["exchange"])
    _check_keys(where, f"{place[:-1]}.exchange]", exchange, _EXCHANGE)
    _check_values(where, f"{place[:-1]}.exchange]", exchange, _EXCHANGE, _TEXT)
    if missing := next((key for key in ("token_endpoint", "client_id") if key not in exchange), None):
        raise LocalError(f'{where}: {place[:-1]}.exchange] has no {missing}: write {missing} = "…"')
    if "url" not in table or "authorization" in map(str.lower, table.get("headers", {})):
        raise LocalError(f"{where}: {place} exchange needs a url, and no Authorization in headers: remove one of them")


def _check_breaker(where: str, name: str, value: Any) -> None:
    if not is_object(value):
        raise LocalError(f"{where}: {name!r} is a table, or false: write breaker = {{ failures = 5, delay = 30 }}")
    _check_keys(where, f"[{name}]", value, _BREAKER)
    _check_values(where, f"[{name}]", value, ("failures",), _COUNT)
    _check_values(where, f"[{name}]", value, ("delay",), _NUMBER)


def _check_prefixes(where: str, prefixes: Mapping[str, str]) -> None:
    """Refuse prefixes that let one server have the names of another."""
    names = list(prefixes)
    for name in names:
        for other in names:
            if name != other and _covers(prefixes[name], prefixes[other]):
                raise LocalError(
                    f"{where}: tools of {name!r} could have the names of those of {other!r}: write another prefix in "
                    f"[upstreams.{name}]"
                )


def _check_names(where: str, methods: Mapping[str, Sequence[str]], package: str) -> None:
    """Refuse methods of the protocol, and one of two servers: its name does not say which of them is meant."""
    owners: dict[str, str] = {}
    for name, own in methods.items():
        try:
            check_methods(own, package)
        except LocalError as error:
            raise LocalError(f"{where}: [upstreams.{name}] {error}") from None
        for method in own:
            if (owner := owners.setdefault(method, name)) != name:
                raise LocalError(
                    f"{where}: [upstreams.{name}] methods has {method!r}, as {owner!r} has: leave it out of one of them"
                )


def _covers(prefix: str, other: str) -> bool:
    """Return True if a name with one prefix can be one with the other; without a prefix, no other may be empty."""
    return prefix == other or bool(prefix and other.startswith(f"{prefix}_"))


def _table(where: str, name: str, value: Any) -> dict[str, Any]:
    if not is_object(value):
        raise LocalError(f"{where}: {name!r} is a table: write [{name}]")
    return value


def _check_keys(where: str, place: str, table: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in table:
        if key not in allowed:
            raise LocalError(f"{where}: {place} has no key {key!r}; {nearest(key, sorted(allowed), 'keys')}")


def _check_values(where: str, place: str, table: Mapping[str, Any], keys: Sequence[str], kind: _Kind) -> None:
    accepts, example = kind
    for key in keys:
        if key in table and not accepts(table[key]):
            raise LocalError(f"{where}: {place} {key} is {example.format(key)}")
