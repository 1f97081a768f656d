"""A gateway: an app whose tools, resources and prompts are those of other servers, by the rules of a file."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, overload

from mcp_products.host.multi_client import client_of_entry, entry_text
from mcp_products.metrics.families import Family, text_of
from mcp_products.metrics.process import PROCESS
from mcp_runtime._lazy import LazyModule, load
from mcp_runtime.errors import AuthorizationError, LocalError

from ..proxy.client_side import ChangeTeller
from ..proxy.connections import TargetConnections
from ..proxy.own_methods import PassedMethods, Send
from ..proxy.sharing import ConnectionRules
from ..upstream.places import SessionPlaces
from ..upstream.target import ClientConnector
from .breaker import STATES
from .page import RecentRecords
from .provider import GatewayProvider
from .rules import ID_FIELDS, AuditLog, DefinitionLock, write_lock
from .settings import GatewaySettings, UpstreamSettings, read_settings
from .upstream import GatedUpstream, UserConnections

if TYPE_CHECKING:
    from starlette import responses

    from mcp_products.app.serving import AppHTTPSettings
    from mcp_products.app.settings import NamedKeywords
    from mcp_runtime.bindings.server import HTTPTransport
    from mcp_runtime.session.interfaces import RevisionChoice
else:  # Imported when they are used.
    responses = LazyModule("starlette.responses")

_log: Final = logging.getLogger("mcp_runtime.gateway")
_CIRCUIT: Final = f"0 to 2: {', '.join(STATES)}."
# What a reload does not change.
_LASTING: Final = ("auth", "name", "audit", "code_mode", "health", "live", "ready", "metrics", "page")
_CHANGED: Final = "Definitions that differ from the lock."
_Row = tuple[
    str, Literal["counter", "gauge"], Literal["sum", "lowest", "highest"], str, Callable[[GatedUpstream], float]
]
_MEASURED: Final[Sequence[_Row]] = (
    ("requests", "counter", "sum", "Requests to a server.", lambda one: one.counts.calls),
    ("failures", "counter", "sum", "Requests that failed.", lambda one: one.counts.failed),
    ("refusals", "counter", "sum", "Requests that rules refused.", lambda one: one.counts.refused),
    ("seconds", "counter", "sum", "Seconds of requests.", lambda one: round(one.counts.seconds, 6)),
    ("upstream_up", "gauge", "lowest", "1 if it served when last used, else 0.", lambda one: one.failure is None),
    ("upstream_circuit", "gauge", "highest", _CIRCUIT, lambda one: STATES.index(one.breaker.state)),
    ("circuit_openings", "counter", "sum", "Openings of its circuit.", lambda one: one.breaker.openings),
)
_USERS: Final = "mcp_products.relay.gateway.users"
_CODE_MODE: Final = "mcp_products.code_mode.transform"


class Gateway:
    """Many servers behind one endpoint. Clients see what the settings allow, of each server under a prefix.

    Headers and tokens of clients are never passed to a server: its credentials stand in the settings.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        package: str = "mcp_generated",
        **settings: Unpack[NamedKeywords],
    ) -> None:
        """Read the settings; servers are connected to when a client needs them.

        Args:
            source: The path of a TOML file, or a dict with the same tables.
            package: The generated package with the protocol versions.
            settings: The keywords of `App`, such as `middleware`.

        Raises LocalError for settings that cannot work, and TypeError for an unknown keyword.
        """
        self._source = source
        self._package = package
        self._settings = read_settings(source, package)
        table = self._settings.auth
        self.auth: Any = None if table is None else load(_USERS).resource_server_of(table)
        """What `[auth]` of the file says: the `auth=` of `run`, and of `app.asgi` in a program. None without it."""
        self._audit = AuditLog(self._settings.audit)
        self._provider = GatewayProvider(self._opened, lambda uri: self.app.registry.has_resource(uri))
        self._records = None if self._settings.page is None else RecentRecords()
        self.app: Any = import_module(package).App(self._settings.name, **settings)
        """The app, for routes and middleware of its own."""
        self._provider.upstreams = self._upstreams(self._settings)
        self._methods = PassedMethods(self.app.registry)
        self._methods.replace(_senders(self._provider.upstreams))
        self.app.add_provider(self._provider)
        if self._settings.code_mode:
            self.app.add_transform(load(_CODE_MODE).CodeMode())

    def _upstream(self, name: str, settings: UpstreamSettings, lock: DefinitionLock | None) -> GatedUpstream:
        def make(auth: Any, teller: ChangeTeller) -> TargetConnections:
            keywords = {} if auth is None else {"auth": auth}
            connector = ClientConnector(self.app.client_class(), settings.entry, "all", keywords)
            connections = TargetConnections(name, connector, revision, rules, places, teller)
            connections.opener.on_open = lambda opened: upstream.connected()
            connections.opener.on_failed = lambda error: upstream.not_connected(error)
            connections.opener.max_delay = lambda: upstream.max_delay
            return connections

        exchange, revision = None, self.app.server_class.revision
        if settings.exchange is not None:
            try:
                from .token_exchange import TokenExchange
            except ModuleNotFoundError as error:
                raise LocalError(f"exchange needs {error.name}: pip install 'mcp-generated[auth,http]'") from None
            exchange = TokenExchange(entry_text(settings.entry["url"], "url"), settings.exchange.with_variables())
        rules = ConnectionRules(settings.connections, settings.share, settings.idle, settings.methods)
        places = SessionPlaces(settings.session_connections, repr(name), "session_connections")
        users = UserConnections(name, make, exchange)
        upstream = GatedUpstream(name, settings, users, revision, self._audit, lock)
        upstream.on_return = self._lists_changed
        return upstream

    def _lists_changed(self) -> None:
        for kind in ("tools", "resources", "prompts"):
            self.app.registry.changed(kind)

    def _upstreams(self, settings: GatewaySettings) -> dict[str, GatedUpstream]:
        """Return the servers of some settings: those that are the same keep their connections."""
        lock = None if settings.lock is None else DefinitionLock(settings.lock)
        upstreams: dict[str, GatedUpstream] = {}
        for name, item in settings.upstreams.items():
            present = self._provider.upstreams.get(name)
            if present is not None and present.settings.target == item.target:
                upstreams[name] = present
                continue
            try:
                upstreams[name] = self._upstream(name, item, lock)
            except (LocalError, AuthorizationError, TypeError) as error:
                raise LocalError(f"[upstreams.{name}]: {error}") from None
        for name, item in settings.upstreams.items():
            upstreams[name].change(item, lock)
            upstreams[name].records = self._records
        return upstreams

    # ---- serving -----------------------------------------------------------------------------------------------------

    @overload
    def run(self, transport: Literal["stdio"] = "stdio", *, revisions: RevisionChoice = "all") -> None: ...
    @overload
    def run(
        self, transport: HTTPTransport, *, revisions: RevisionChoice = "all", **keywords: Unpack[AppHTTPSettings]
    ) -> None: ...
    def run(self, transport: str = "stdio", **keywords: Any) -> None:
        """Serve until the client ends the connection, or until SIGINT or SIGTERM; SIGHUP reads the file again.

        Args:
            transport: "stdio" or "http".
            keywords: Those of `App.run`, such as `port`.

        Raises LocalError if the address cannot be used, or if an extra is missing.
        """
        if transport != "stdio":
            self._add_routes()
            if self.auth is not None:
                if keywords.get("auth") is not None:
                    raise LocalError("run(auth=…) and [auth] of the file are one too many: remove one of them")
                keywords["auth"] = self.auth
            paths = {
                "health_path": self._settings.live,
                "ready_path": self._settings.ready,
                "metrics_path": self._settings.metrics,
            }
            keywords = {**{name: path for name, path in paths.items() if path is not None}, **keywords}
            if keywords.get("path", "/mcp") in (*paths.values(), self._settings.health, self._settings.page):
                raise LocalError("[gateway] a route has the path of the endpoint: write another one")
        PROCESS.add(self._families)
        try:
            self.app.run(transport, **keywords)
        finally:
            PROCESS.remove(self._families)

    def _opened(self) -> None:
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_or_log)

    def _reload_or_log(self) -> None:
        try:
            self.reload()
        except LocalError as error:
            _log.error("the settings are as before: %s", error)

    def reload(self) -> None:
        """Read the settings again, while clients are connected: their sessions go on.

        A server whose command or URL is the same keeps its connections; the others get new ones at the next request.
        Clients are notified that the lists may have changed. Raises LocalError for settings that cannot work; nothing
        changes then. `[auth]`, the name, the routes, the audit log and code mode stay as they are: the log says so.
        """
        settings = read_settings(self._source, self._package)
        upstreams = self._upstreams(settings)
        if changed := [key for key in _LASTING if getattr(settings, key) != getattr(self._settings, key)]:
            _log.warning("a reload does not change %s: start the gateway anew", ", ".join(changed))
            settings = replace(settings, **{key: getattr(self._settings, key) for key in changed})
        self._methods.replace(_senders(upstreams))
        ended = {name: item for name, item in self._provider.upstreams.items() if item is not upstreams.get(name)}
        self._provider.upstreams = upstreams
        self._settings = settings
        for name, upstream in ended.items():
            self._provider.retire(upstream, upstreams.get(name))
        self._lists_changed()
        _log.info("the settings were read again: %d servers", len(upstreams))

    @staticmethod
    async def write_lock(source: str | os.PathLike[str] | Mapping[str, Any], package: str = "mcp_generated") -> None:
        """Connect to all servers of some settings, and write the definitions that clients may use to the lock.

        Args:
            source: The path of a TOML file, or a dict with the same tables.
            package: The generated package with the protocol versions.

        Raises LocalError if the settings name no lock, and MCPError if a server cannot be reached.
        """
        settings = read_settings(source, package)
        if settings.lock is None:
            raise LocalError('the settings have no lock: write lock = "tools.lock.json" into [gateway]')
        client_class, servers = import_module(package).App.client_class(), dict[str, dict[str, list[Any]]]()
        for name, item in settings.upstreams.items():
            if item.exchange is not None:
                raise LocalError(
                    f"[upstreams.{name}] needs the token of a user, so that --lock cannot list what it has: write the"
                    " lock with a file that has headers instead of exchange"
                )
            async with client_of_entry(client_class, item.entry, None, {"revisions": "all"}) as client:
                servers[name] = {kind: await _definitions(client, kind, item) for kind in ID_FIELDS}
        write_lock(settings.lock, servers)

    # ---- health ------------------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Return the state of each server: "ok", or "failed" if it did not serve when it was used last.

        The status is "degraded" if any has failed. What a gateway shows of the others does not depend on that one.
        `circuits` has the state of each circuit breaker: "closed", "half open" or "open".
        """
        upstreams = self._provider.upstreams
        states = {name: "ok" if item.failure is None else "failed" for name, item in upstreams.items()}
        circuits = {name: item.breaker.state for name, item in upstreams.items()}
        status = "ok" if set(states.values()) <= {"ok"} else "degraded"
        return {"status": status, "upstreams": states, "circuits": circuits}

    def metrics(self) -> str:
        """Return the counts of each server in the text format of Prometheus: those of this process."""
        return text_of(self._families())

    def _families(self) -> list[Family]:
        upstreams = self._provider.upstreams
        alarms = list(self._alarms())
        changed = {name: sum(alarm[0] == name for alarm in alarms) for name in upstreams}
        measured = [
            Family(f"mcp_gateway_{name}", kind, text, merge, _points({key: of(one) for key, one in upstreams.items()}))
            for name, kind, merge, text, of in _MEASURED
        ]
        return [*measured, Family("mcp_gateway_changed_definitions", "gauge", _CHANGED, "highest", _points(changed))]

    def _alarms(self) -> dict[tuple[str, str, str], str]:
        """Return what differs from the lock, by server, kind and id."""
        lock = next((item.lock for item in self._provider.upstreams.values()), None)
        return {} if lock is None else lock.alarms

    def _add_routes(self) -> None:
        settings = self._settings
        if settings.page is not None:
            self._add_page(settings.page)
        if settings.health is None:
            return

        async def health(request: Any) -> Any:
            # 200 in any state: a probe must not end a gateway for its servers.
            return responses.JSONResponse(self.health())

        self.app.custom_route(settings.health, ["GET"])(health)

    def _add_page(self, path: str) -> None:
        from .page import GatewayPage

        assert self._records is not None, "a gateway with a page has records"
        self._records.begin()
        page = GatewayPage(self._page_state)
        self.app.custom_route(path, ["GET"])(page.page)
        self.app.custom_route(f"{path.rstrip('/')}/data", ["GET"])(page.data)

    def _page_state(self) -> dict[str, Any]:
        """Return what the page shows: no arguments, no results, no credentials."""
        assert self._records is not None, "a gateway with a page has records"
        return {
            "name": self._settings.name,
            "code_mode": self._settings.code_mode,
            "upstreams": [item.summary() for item in self._provider.upstreams.values()],
            "alarms": [[*place, reason] for place, reason in self._alarms().items()],
            **self._records.shown(),
        }


async def _definitions(client: Any, kind: str, settings: UpstreamSettings) -> list[Any]:
    """Return the definitions of a server of which clients may use any; none of a kind that the server does not have."""
    capability = "resources" if kind == "resource_templates" else kind
    is_shown = {"prompts": settings.prompts, "resources": settings.resources}.get(capability, True)
    if not is_shown or capability not in client.server.to_dict()["capabilities"]:
        return []
    items = [item async for item in getattr(client, f"iter_{kind}")()]
    return [item for item in items if settings.allows(item.name)] if kind == "tools" else items


def _senders(upstreams: Mapping[str, GatedUpstream]) -> dict[str, Send]:
    """Return what sends the methods of vendors on, by method."""
    return {method: upstream.use_method for upstream in upstreams.values() for method in upstream.settings.methods}


def _points(values: Mapping[str, float]) -> dict[Any, Any]:
    return {(("upstream", name),): value for name, value in values.items()}
