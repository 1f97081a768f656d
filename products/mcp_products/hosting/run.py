"""Run servers over HTTP with uvicorn, or with the server that `server=` names."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcp_products.fast.http import observed
from mcp_products.platforms.error_output import ExitTimer, exit_without_threads
from mcp_runtime import stores
from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError
from mcp_runtime.session.interfaces import Service
from mcp_runtime.transports.http_server.app import MCPASGIApp
from mcp_runtime.transports.http_server.limits import HTTPLimits
from mcp_runtime.transports.http_server.sessions import EndpointSharing
from mcp_runtime.usage.rules import PROCESSES, number_variable

from .limits import ServerConnections
from .uvicorn_protocols import ProxyHeaders, handshake_deadline

if TYPE_CHECKING:
    from uvicorn import Server

    from mcp_runtime.stores import Store

if TYPE_CHECKING:
    Share = Callable[[str | Store, Sequence[Service], Any], EndpointSharing | None]

_log: Final = logging.getLogger("mcp_runtime.hosting.run")

_THIS_MACHINE: Final = "127.0.0.1"
_DRAIN_SECONDS: Final = 1  # Seconds for responses to complete after SIGINT or SIGTERM.
_WORKER_DRAIN_SECONDS: Final = 10  # The same for one of several workers: the others serve meanwhile.
_LEAVE_SECONDS: Final = 0.5  # Seconds for requests to arrive on connections that were accepted before.
_TURNS_OF_ACCEPTING: Final = 2  # Iterations of the event loop in which it accepts all connections that wait.
_TLS: Final = ("ssl_certfile", "ssl_keyfile", "ssl_context_factory")  # Settings of uvicorn with which it uses TLS.
_OTHERS: Final = f"{__package__}.other_servers"
_METRICS: Final = "mcp_products.metrics.process"
_NO_FOLDER: Final = "-"  # Workers that have a store of their own, and are not measured, need no temporary folder.
_LOOP: Final = f"{__package__}.accepting:AcceptingLoop"  # Where asyncio has the Proactor of Windows.
_EXIT_SECONDS: Final = 0.75  # Further seconds after which the process exits whatever its handlers do.


class WorkerPlace(Protocol):
    """What a worker process has of its supervisor."""

    @property
    def listener(self) -> socket.socket:
        """The listening socket, which all workers have."""
        ...

    async def begin(self) -> None:
        """Report that requests are served, and end this process when its supervisor has ended."""


class ASGIServer(Protocol):
    """An ASGI server that has its application."""

    def run(self, sockets: list[socket.socket]) -> None: ...

    async def serve(self, sockets: list[socket.socket]) -> None: ...


def serve_with_uvicorn(servers: Sequence[Service], *, host: str = _THIS_MACHINE, **settings: Any) -> None:
    """Serve until SIGINT or SIGTERM; the settings are those of `serve_http`. SIGINT ends it without an exception.

    With `workers` above 1, so many processes serve, and this one supervises them.

    Raises LocalError if uvicorn is not installed, and SystemExit if the address cannot be used.
    """
    _check_server(settings)
    workers: int = settings.pop("workers", 1)
    place = None
    if workers > 1:
        processes: Any = stores.workers("workers= of run()")
        place = processes.WorkerPlace.of_environment()
        if place is None:
            return _supervise(workers, host, **settings)
        if place.store != _NO_FOLDER:
            temporary = _temporary_store(processes, place.store, settings.get("metrics_path") is not None)
            settings["store"] = temporary.url if settings.get("store", "memory") == "memory" else settings["store"]
    exit_timer = ExitTimer()
    server, listener = _prepare(servers, host, exit_timer, place=place, **settings)
    with listener, suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    exit_timer.cancel()
    exit_without_threads()


def _supervise(workers: int, host: str, **settings: Any) -> None:
    """Serve with several processes until SIGINT or SIGTERM."""
    processes: Any = stores.workers("workers= of run()")
    processes.check_program()
    needs_folder = settings.get("store", "memory") == "memory" or settings.get("metrics_path") is not None
    listener = _listen_or_exit(host, settings.get("port", 8000))
    _warn_about_hosts(host, settings.get("hosts"))
    uvicorn: dict[str, Any] = settings.get("uvicorn") or {}
    urls = _urls(listener, host, settings.get("path", "/mcp"), settings, uvicorn)
    drain: float | None = uvicorn.get("timeout_graceful_shutdown", _WORKER_DRAIN_SECONDS)
    grace = math.inf if drain is None else drain + 2 * _EXIT_SECONDS
    with listener:
        number = processes.supervise(
            listener, workers, None if needs_folder else _NO_FOLDER, grace, lambda: _print_urls(urls)
        )
    if number == signal.SIGTERM:
        signal.raise_signal(number)


async def serve_http(servers: Sequence[Service], *, host: str = _THIS_MACHINE, **settings: Any) -> None:
    """Serve in the running event loop until SIGINT or SIGTERM, which uvicorn raises again at the end.

    Args:
        servers: One server for each protocol version, oldest first.
        host: Address to listen on. Default `127.0.0.1`: this machine only.
        port: TCP port; 0 selects a free one. Default 8000.
        path: Path of the endpoint. Default `/mcp`.
        uvicorn: Settings of `uvicorn.Config`. Default None: those of uvicorn, with few log messages.
        server: The ASGI server: "uvicorn" (the default), "hypercorn" or "granian".
        workers: 1, the default: this process serves.
        store: The store of all workers. Default "memory": there are no others.
        metrics_path: The path of what this process has measured. Default None: there is none.
        share: Returns what an endpoint shares over a store. Default None: nothing.
        settings: Keyword arguments of `MCPASGIApp`.

    The URL is written to standard error. Raises LocalError if uvicorn is not installed, and SystemExit if the address
    cannot be used.
    """
    _check_server(settings)
    settings.pop("workers", 1)
    exit_timer = ExitTimer()
    server, listener = _prepare(servers, host, exit_timer, **settings)
    with listener:
        try:
            await server.serve(sockets=[listener])
        finally:
            exit_timer.cancel()


def _check_server(settings: Mapping[str, Any]) -> None:
    """Raise LocalError if the server that `server` names is not installed, or if settings do not work with it."""
    if (name := settings.get("server", "uvicorn")) != "uvicorn":
        load(_OTHERS).check_other_server(name, settings)
    elif find_spec("uvicorn") is None:
        raise LocalError("a server over HTTP needs uvicorn: pip install 'mcp-generated[http]'")


def _prepare(
    servers: Sequence[Service],
    host: str,
    exit_timer: ExitTimer,
    *,
    port: int = 8000,
    path: str = "/mcp",
    uvicorn: dict[str, Any] | None = None,
    place: WorkerPlace | None = None,
    server: str = "uvicorn",
    **settings: Any,
) -> tuple[ASGIServer, socket.socket]:
    """Return an ASGI server, which writes its URLs to standard error, and its listening socket."""
    if place is None:
        _warn_about_hosts(host, settings.get("hosts"))
    if (measured_at := settings.pop("metrics_path", None)) is not None:
        settings["routes"] = [*settings.get("routes", ()), metrics_route(measured_at)]
    shared = _shared(servers, settings)
    application = MCPASGIApp(servers, path=path, shared=shared, **settings)
    drain = _DRAIN_SECONDS if shared is None else _WORKER_DRAIN_SECONDS
    listener = _listen_or_exit(host, port) if place is None else place.listener
    urls = _urls(listener, host, path, settings, uvicorn)
    if server != "uvicorn":
        serve: Any = load(_OTHERS).OtherServer(server, application, shared is not None, drain)
        serve.on_start = partial(_begin, place, urls)
        serve.on_signal = partial(_exit_late, exit_timer, drain)
        return serve, listener
    from uvicorn import Config
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    number_variable(PROCESSES)  # uvicorn reads it where it is not given `workers`, and this is one process.
    config: dict[str, Any] = {
        "workers": 1,
        "log_level": "warning",
        "timeout_graceful_shutdown": drain,
        "server_header": False,
        **({"loop": _LOOP} if hasattr(asyncio, "IocpProactor") else {}),
        **(uvicorn or {}),
    }
    connections = ServerConnections(settings.get("limits") or HTTPLimits())
    server_class = _server_class(application, connections, exit_timer, place, urls, shared is not None)
    loaded: Any = Config(application, **config)
    loaded.load()
    if isinstance(loaded.loaded_app, ProxyHeadersMiddleware) and loaded.loaded_app.app is application:
        loaded.loaded_app = ProxyHeaders(loaded.loaded_app)
    loaded.http_protocol_class = observed(loaded.http_protocol_class, connections)
    return server_class(loaded), listener


def _temporary_store(processes: Any, url: str, is_measured: bool) -> Any:
    """Return the store of a worker in a temporary folder, where it also writes what it measures."""
    if not is_measured:
        return processes.TemporaryStore.of_worker(url)
    process = load(_METRICS).PROCESS
    temporary = processes.TemporaryStore.of_worker(url, process.end)
    process.share(temporary.folder)
    return temporary


def metrics_route(path: str) -> Any:
    """Return the route of what this process has measured. Raises LocalError if an extra is missing."""
    try:
        return load(_METRICS).metrics_route(path)
    except ModuleNotFoundError as error:
        raise LocalError(f"metrics_path= needs {error.name}: pip install 'mcp-generated[metrics]'") from None


def _shared(servers: Sequence[Service], settings: dict[str, Any]) -> EndpointSharing | None:
    """Return what the endpoint shares with other workers, and remove its settings."""
    share: Share | None = settings.pop("share", None)
    store: str | Store = settings.pop("store", "memory")
    return None if share is None else share(store, servers, settings.get("auth"))


def _server_class(
    application: MCPASGIApp,
    connections: ServerConnections,
    exit_timer: ExitTimer,
    place: WorkerPlace | None,
    urls: Sequence[str],
    is_shared: bool,
) -> type[Server]:
    from uvicorn import Server

    class UvicornServer(Server):
        """A uvicorn server that writes its URLs, and ends all streams before uvicorn waits for them."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            with handshake_deadline(connections.limits.head_timeout):
                await super().startup(sockets)
            # From here on uvicorn handles signals: who has read the line may stop the server.
            if place is not None:
                await application.open()
            await _begin(place, urls)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            super().handle_exit(sig, frame)
            if (seconds := self.config.timeout_graceful_shutdown) is not None:
                exit_timer.start(seconds + _EXIT_SECONDS, 128 + sig)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if is_shared:
                await _leave(self, application, place is not None)
            await application.close()
            await super().shutdown(sockets)
            await connections.close()

    return UvicornServer


async def _leave(server: Server, application: MCPASGIApp, is_worker: bool) -> None:
    """Accept nothing new, close the streams that other workers can go on with, and wait for calls."""
    application.hand_over()  # From now on responses close their connections, so that proxies use others.
    if not is_worker:
        # A proxy notices by then that this process is not ready. Connections that nobody has accepted are reset
        # when the socket is closed; workers leave them to the others.
        await asyncio.sleep(_LEAVE_SECONDS)
        for _ in range(_TURNS_OF_ACCEPTING):
            await asyncio.sleep(0)
    for accepting in server.servers:
        accepting.close()
    await asyncio.sleep(_LEAVE_SECONDS)
    application.hand_over()  # Clients have come back meanwhile, on connections that were accepted before.
    for connection in list(server.server_state.connections):
        connection.shutdown()
    if server.server_state.tasks:
        seconds = max((server.config.timeout_graceful_shutdown or 0) - _DRAIN_SECONDS, 0)
        await asyncio.wait(list(server.server_state.tasks), timeout=seconds)


async def _begin(place: WorkerPlace | None, urls: Sequence[str]) -> None:
    """Report that requests are served: to the supervisor, or else to standard error."""
    if place is None:
        _print_urls(urls)
    else:
        await place.begin()


def _exit_late(timer: ExitTimer, drain: float, number: int) -> None:
    """Let the process exit some time after a signal, whatever its handlers do."""
    timer.start(drain + _EXIT_SECONDS, 128 + number)


def _warn_about_hosts(host: str, hosts: object) -> None:
    if hosts is None and host not in ("127.0.0.1", "localhost", "::1"):
        _log.warning(
            "listening on %s, but requests to other hosts than localhost are rejected; pass hosts=[…] to accept them",
            host,
        )


def _urls(
    listener: socket.socket, host: str, path: str, settings: Mapping[str, Any], uvicorn: Mapping[str, Any] | None
) -> list[str]:
    scheme = "https" if any((uvicorn or {}).get(name) for name in _TLS) else "http"
    address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    return [f"{address}{endpoint}" for endpoint in (path, *(["/sse"] if settings.get("legacy_sse") else []))]


def _print_urls(urls: Sequence[str]) -> None:
    for url in urls:
        print(f"listening at {url}", file=sys.stderr, flush=True)


def _listen_or_exit(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises SystemExit with one line if that fails."""
    try:
        return listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = "is in use; end the other program, or pass another port to run(), or port=0 for a free one"
        elif isinstance(error, PermissionError):
            problem = "needs privileges of the system; pass a port above 1023 to run()"
        else:
            problem = f"cannot be listened on ({error.strerror}); pass another host to run()"
        raise SystemExit(f"run(): port {port} of {host} {problem}") from None


def listen(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket, whose connections have TCP_NODELAY set."""
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio sets TCP_NODELAY only for sockets whose `proto` is TCP, and create_server leaves it 0. Without it, a body
    # waits 40 ms for the acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
