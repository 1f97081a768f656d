"""The settings of a gateway: a TOML file, or the same as a dict."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
_UPSTREAM: Final = (*_TARGET, *_LISTS, *_NUMBERS, *_COUNTS, *_FLAGS, *_KEYS)
_BREAKER: Final = ("failures", "delay")
_EXCHANGE: Final = ("token_endpoint", "client_id", "client_secret", "audience", "scope")
_TOOL: Final = ("name", "description", "hidden", "arguments", "scopes")
_GATEWAY: Final = ("name", "audit", "lock", "health", "live", "ready", "metrics", "page")
_SWITCHES: Final = ("code_mode",)
_MAX_PREFIX: Final = 64


@dataclass(init=False, slots=True)
class ToolChange:
    """What a gateway changes of one tool: its name, its description, arguments with fixed values, and the scopes that
    it needs."""

    name: str | None
    description: str | None
    hidden: bool
    arguments: dict[str, Any]
    scopes: tuple[str, ...]

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.name = table.get("name")
        self.description = table.get("description")
        self.hidden = table.get("hidden", False)
        self.arguments = dict(table.get("arguments", {}))
        self.scopes = tuple(table.get("scopes", ()))


@dataclass(init=False, slots=True)
class ExchangeSettings:
    """How a gateway gets tokens of users for a server: by a token exchange at this token endpoint, as this client."""

    token_endpoint: str
    client_id: str
    client_secret: str | None
    audience: str | None
    scope: str | None

    def __init__(self, table: Mapping[str, str]) -> None:
        self.token_endpoint = table["token_endpoint"]
        self.client_id = table["client_id"]
        self.client_secret = table.get("client_secret")
        self.audience = table.get("audience")
        self.scope = table.get("scope")

    def __repr__(self) -> str:
        return f"ExchangeSettings({self.token_endpoint!r})"  # Without the secret.

    def with_variables(self) -> ExchangeSettings:
        """Return the settings with the variables of the environment. Raises LocalError for one that is not set."""
        table = {name: getattr(self, name) for name in _EXCHANGE}
        return ExchangeSettings({name: entry_text(text, name) for name, text in table.items() if text is not None})


@dataclass(init=False, slots=True)
class UpstreamSettings:
    """One server behind a gateway: how it is reached, and what clients may use of it."""

    entry: dict[str, Any]
    prefix: str
    allow: list[str]
    deny: list[str]
    rate: float | None
    timeout: float | None
    cache: bool
    resources: bool
    prompts: bool
    tools: dict[str, ToolChange]
    exchange: ExchangeSettings | None
    scopes: tuple[str, ...]
    connections: int
    session_connections: int
    share: bool | None
    idle: float | None
    limits: ListLimits
    breaker: BreakerSettings | None
    methods: tuple[str, ...]

    def __init__(self, name: str, table: Mapping[str, Any]) -> None:
        self.entry = {key: table[key] for key in _TARGET if key in table}
        self.prefix = table.get("prefix", name)
        self.allow = table.get("allow", ["*"])
        self.deny = table.get("deny", [])
        self.rate = table.get("rate")
        self.timeout = table.get("timeout")
        self.connections = table.get("connections", MAX_CONNECTIONS)
        default = PROCESSES if "command" in table else HTTP_CONNECTIONS
        self.session_connections = table.get("session_connections", default)
        self.share = table.get("share")
        self.idle = table.get("idle")
        self.limits = ListLimits(
            seconds=table.get("list_timeout", LIST_SECONDS), items=table.get("list_items", MAX_ITEMS)
        )
        self.cache = table.get("cache", False)
        self.resources = table.get("resources", True)
        self.prompts = table.get("prompts", True)
        self.scopes = tuple(table.get("scopes", ()))
        self.exchange = ExchangeSettings(table["exchange"]) if "exchange" in table else None
        self.tools = {tool: ToolChange(change) for tool, change in table.get("tools", {}).items()}
        self.methods = tuple(table.get("methods", ()))
        breaker = table.get("breaker", True)
        self.breaker = None if breaker is False else BreakerSettings(**(breaker if is_object(breaker) else {}))

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

    def scopes_of(self, tool: str | None) -> tuple[str, ...]:
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


@dataclass(init=False, slots=True)
class GatewaySettings:
    """The settings of a gateway. Paths are relative to the folder of its file."""

    name: str
    audit: Path | None
    lock: Path | None
    health: str | None
    live: str | None
    ready: str | None
    metrics: str | None
    page: str | None
    code_mode: bool
    auth: Mapping[str, Any] | None
    upstreams: dict[str, UpstreamSettings]

    def __init__(self, table: Mapping[str, Any], upstreams: Mapping[str, UpstreamSettings], folder: Path) -> None:
        self.name = table.get("name", "gateway")
        self.audit = folder / table["audit"] if "audit" in table else None
        self.lock = folder / table["lock"] if "lock" in table else None
        self.health = table.get("health")
        self.live = table.get("live")
        self.ready = table.get("ready")
        self.metrics = table.get("metrics")
        self.page = table.get("page")
        self.code_mode = table.get("code_mode", False)
        self.auth = None
        self.upstreams = dict(upstreams)


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
    _check_texts(where, "[gateway]", gateway, _GATEWAY)
    for key in ("health", "live", "ready", "metrics", "page"):
        if not gateway.get(key, "/").startswith("/"):
            raise LocalError(f'{where}: {key} is the path of a route: write {key} = "/{gateway[key]}"')
    _check_flags(where, "[gateway]", gateway, _SWITCHES)
    tables = _table(where, "upstreams", content.get("upstreams", {}))
    if not tables:
        raise LocalError(f'{where} has no upstreams: write [upstreams.NAME] with command = "…" or url = "…"')
    upstreams = {name: _upstream(where, name, table) for name, table in tables.items()}
    _check_prefixes(where, {name: item.prefix for name, item in upstreams.items()})
    _check_names(where, {name: item.methods for name, item in upstreams.items()}, package)
    settings = GatewaySettings(gateway, upstreams, folder)
    settings.auth = _table(where, "auth", content["auth"]) if "auth" in content else None
    return settings


def _upstream(where: str, name: str, table: Any) -> UpstreamSettings:
    place = f"[upstreams.{name}]"
    table = _table(where, f"upstreams.{name}", table)
    _check_keys(where, place, table, _UPSTREAM)
    _check_texts(where, place, table, ("prefix",))
    for key in _LISTS:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):  # pyright: ignore
            raise LocalError(f'{where}: {place} {key} is a list of patterns: write {key} = ["read_*"]')
    _check_scopes(where, place, table)
    _check_methods(where, place, table)
    _check_numbers(where, place, table, _NUMBERS)
    _check_counts(where, place, table, _COUNTS)
    _check_flags(where, place, table, _FLAGS)
    for tool, change in _table(where, f"upstreams.{name}.tools", table.get("tools", {})).items():
        _check_tool(where, f"[upstreams.{name}.tools.{tool}]", _table(where, f"upstreams.{name}.tools.{tool}", change))
    if "exchange" in table:
        _check_exchange(where, place, table)
    if type(table.get("breaker", True)) is not bool:
        _check_breaker(where, f"upstreams.{name}.breaker", table["breaker"])
    settings = UpstreamSettings(name, table)
    if settings.prefix and not (
        settings.prefix.replace("-", "_").isidentifier() and len(settings.prefix) < _MAX_PREFIX
    ):
        raise LocalError(f'{where}: {place} the prefix {settings.prefix!r} is no identifier: write prefix = "tools"')
    return settings


def _check_tool(where: str, place: str, change: Mapping[str, Any]) -> None:
    _check_keys(where, place, change, _TOOL)
    _check_texts(where, place, change, ("name", "description"))
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
    _check_texts(where, f"{place[:-1]}.exchange]", exchange, _EXCHANGE)
    if missing := next((key for key in ("token_endpoint", "client_id") if key not in exchange), None):
        raise LocalError(f'{where}: {place[:-1]}.exchange] has no {missing}: write {missing} = "…"')
    if "url" not in table or "authorization" in map(str.lower, table.get("headers", {})):
        raise LocalError(f"{where}: {place} exchange needs a url, and no Authorization in headers: remove one of them")


def _check_breaker(where: str, name: str, value: Any) -> None:
    if not is_object(value):
        raise LocalError(f"{where}: {name!r} is a table, or false: write breaker = {{ failures = 5, delay = 30 }}")
    _check_keys(where, f"[{name}]", value, _BREAKER)
    _check_counts(where, f"[{name}]", value, ("failures",))
    _check_numbers(where, f"[{name}]", value, ("delay",))


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


def _check_numbers(where: str, place: str, table: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in keys:
        value = table.get(key, 1)
        if type(value) not in (int, float) or not 0 < value < inf:
            raise LocalError(f"{where}: {place} {key} is a number above 0: write {key} = 10")


def _check_counts(where: str, place: str, table: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in keys:
        number = table.get(key, 1)
        if type(number) is not int or number < 1:
            raise LocalError(f"{where}: {place} {key} is a whole number above 0: write {key} = 16")


def _check_flags(where: str, place: str, table: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in keys:
        if type(table.get(key, True)) is not bool:
            raise LocalError(f"{where}: {place} {key} is true or false: write {key} = false")


def _check_texts(where: str, place: str, table: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in keys:
        if not isinstance(table.get(key, ""), str):
            raise LocalError(f'{where}: {place} {key} is a text: write {key} = "…"')
