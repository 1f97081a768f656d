"""The settings of a gateway: a TOML file, or the same as a dict."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import permutations
from math import inf
from pathlib import Path
from typing import Any, Final

from mcp_products.host.multi_client import LIST_SECONDS, MAX_ITEMS, ListLimits, entry_text, unused
from mcp_runtime.errors import LocalError
from mcp_runtime.http.authentication import check_scopes
from mcp_runtime.protocol.models import is_object
from mcp_runtime.usage.keywords import nearest
from mcp_runtime.usage.rules import Rule, are_texts

from ..proxy.own_methods import check_methods
from ..upstream.places import HTTP_CONNECTIONS, PROCESSES
from ..upstream.pool import MAX_CONNECTIONS
from .breaker import BreakerSettings

_MAX_PREFIX: Final = 64
ENCODING: Final = "utf-8-sig"  # Some editors begin a file with a byte order mark.


def _is_json(value: Any) -> bool:
    try:
        return is_object(value) and bool(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):  # A date, or nan.
        return False


# What a value must be, and the rest of the sentence that refuses another.
_NUMBER: Final = Rule(lambda value: type(value) in (int, float) and 0 < value < inf, "a number above 0: write {} = 10")
_COUNT: Final = Rule(lambda value: type(value) is int and value > 0, "a whole number above 0: write {} = 16")
_FLAG: Final = Rule(lambda value: type(value) is bool, "true or false: write {} = false")
_HIDDEN: Final = Rule(lambda value: type(value) is bool, "true or false: write {} = true")
_TEXT: Final = Rule(lambda value: isinstance(value, str), 'a text: write {} = "…"')
_PATTERNS: Final = Rule(are_texts, 'a list of patterns: write {} = ["read_*"]')
_SCOPES: Final = Rule(are_texts, 'a list of scopes: write {} = ["notes:write", "role:admin"]')
_METHODS: Final = Rule(are_texts, 'a list of methods of vendors: write {} = ["acme/search"]')
_ARGUMENTS: Final = Rule(_is_json, 'a table of fixed values that JSON has: write {} = {{ path = "/srv" }}')
_CHECKED_LATER: Final = Rule(lambda value: True, "")

# The keys of each table.
_Rules = Mapping[str, Rule]
TARGET: Final = ("command", "args", "env", "cwd", "url", "headers", "type", "max_bytes")
_ROUTES: Final = ("health", "live", "ready", "metrics", "page")
_FILE: Final[_Rules] = dict.fromkeys(("auth", "gateway", "upstreams"), _CHECKED_LATER)
_GATEWAY: Final[_Rules] = {**dict.fromkeys(("name", "audit", "lock", *_ROUTES), _TEXT), "code_mode": _FLAG}
_AS_THEY_ARE: Final[_Rules] = {
    **dict.fromkeys(("allow", "deny"), _PATTERNS),
    "scopes": _SCOPES,
    "methods": _METHODS,
    **dict.fromkeys(("rate", "timeout", "idle"), _NUMBER),
    "connections": _COUNT,
    **dict.fromkeys(("cache", "resources", "prompts", "share"), _FLAG),
}
_UPSTREAM: Final[_Rules] = {
    **dict.fromkeys((*TARGET, "tools", "exchange", "breaker"), _CHECKED_LATER),
    "prefix": _TEXT,
    **_AS_THEY_ARE,
    "list_timeout": _NUMBER,
    **dict.fromkeys(("session_connections", "list_items"), _COUNT),
}
_TOOL: Final[_Rules] = {
    **dict.fromkeys(("name", "description"), _TEXT),
    "scopes": _SCOPES,
    "hidden": _HIDDEN,
    "arguments": _ARGUMENTS,
}
_EXCHANGE: Final[_Rules] = dict.fromkeys(("token_endpoint", "client_id", "client_secret", "audience", "scope"), _TEXT)
_BREAKER: Final[_Rules] = {"failures": _COUNT, "delay": _NUMBER}


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
            {key: table[key] for key in TARGET if key in table},
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
            content = tomllib.loads(path.read_text(encoding=ENCODING))
        except OSError as error:
            raise LocalError(f"{where} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise LocalError(f"{where} is not TOML: {error}") from None
    if not is_object(content):
        raise LocalError('Gateway() needs a file or a dict: write Gateway("gateway.toml")')
    _check(where, "the file", content, _FILE)
    gateway = _table(where, "gateway", content.get("gateway", {}), _GATEWAY)
    for key in _ROUTES:
        if not gateway.get(key, "/").startswith("/"):
            raise LocalError(f'{where}: {key} is the path of a route: write {key} = "/{gateway[key]}"')
    if twice := _twice({key: gateway[key] for key in _ROUTES if key in gateway}):
        raise LocalError(f"{where}: [gateway] {twice[0]} and {twice[1]} have the same path: write another one")
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
    table = _table(where, f"upstreams.{name}", table, _UPSTREAM)
    _check_scopes(where, place, table)
    if (wrong := unused(table)) is not None:  # The file is read by nothing but the gateway.
        raise LocalError(f"{where}: {place} {wrong}")
    for tool, change in _table(where, f"upstreams.{name}.tools", table.get("tools", {})).items():
        _table(where, f"upstreams.{name}.tools.{tool}", change, _TOOL)
        _check_scopes(where, f"[upstreams.{name}.tools.{tool}]", change)
    tools: dict[str, Any] = table.get("tools", {})
    if twice := _twice({tool: change["name"] for tool, change in tools.items() if "name" in change}):
        raise LocalError(f"{where}: {place} the tools {twice[0]!r} and {twice[1]!r} have the same name: change one")
    if "exchange" in table:
        _check_exchange(where, place, table)
    if type(breaker := table.get("breaker", True)) is not bool:
        if not is_object(breaker):
            line = "write breaker = { failures = 5, delay = 30 }"
            raise LocalError(f"{where}: 'upstreams.{name}.breaker' is a table, or false: {line}")
        _table(where, f"upstreams.{name}.breaker", breaker, _BREAKER)
    settings = UpstreamSettings.of_table(name, table)
    prefix = settings.prefix
    if prefix and not (prefix.replace("-", "_").isidentifier() and len(prefix) < _MAX_PREFIX):
        raise LocalError(f'{where}: {place} the prefix {prefix!r} is not an identifier: write prefix = "tools"')
    return settings


def _twice(values: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the keys of a value that two have."""
    keys: dict[str, str] = {}
    return next(((first, key) for key, value in values.items() if (first := keys.setdefault(value, key)) != key), None)


def _check_scopes(where: str, place: str, table: Mapping[str, Any]) -> None:
    try:
        check_scopes(table.get("scopes", ()))
    except LocalError as error:
        raise LocalError(f"{where}: {place} {error}") from None


def _check_exchange(where: str, place: str, table: Mapping[str, Any]) -> None:
    exchange = _table(where, f"{place[1:-1]}.exchange", table["exchange"], _EXCHANGE)
    if missing := next((key for key in ("token_endpoint", "client_id") if key not in exchange), None):
        raise LocalError(f'{where}: {place[:-1]}.exchange] has no {missing}: write {missing} = "…"')
    if "url" not in table or "authorization" in map(str.lower, table.get("headers", {})):
        raise LocalError(f"{where}: {place} exchange needs a url, and no Authorization in headers: remove one of them")


def _check_prefixes(where: str, prefixes: Mapping[str, str]) -> None:
    """Refuse prefixes that let one server have the names of another."""
    for name, other in permutations(prefixes, 2):
        if _covers(prefixes[name], prefixes[other]):
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


def _table(where: str, name: str, value: Any, rules: _Rules | None = None) -> dict[str, Any]:
    """Return a table that has what it may have, if there are rules for its keys."""
    if not is_object(value):
        raise LocalError(f"{where}: {name!r} is a table: write [{name}]")
    if rules is not None:
        _check(where, f"[{name}]", value, rules)
    return value


def _check(where: str, place: str, table: Mapping[str, Any], rules: _Rules) -> None:
    """Refuse a key that a table does not have, with the nearest one, and a value of another kind than its key has."""
    for key in table:
        if key not in rules:
            raise LocalError(f"{where}: {place} has no key {key!r}; {nearest(key, sorted(rules), 'keys')}")
    for key, rule in rules.items():
        if key in table and not rule.accepts(table[key]):
            raise LocalError(f"{where}: {place} {key} is {rule.expected.format(key)}")
