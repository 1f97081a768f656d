"""What the arguments must be that run a server or connect a client, and which keywords belong to which transport."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from ..aio.tasks import is_trio_task
from ..errors import LocalError
from ..http.urls import without_secrets
from ..protocol.framing import MAX_MESSAGE_BYTES, SizeLimit
from ..stores import open_store
from ..usage.keywords import keywords_of, refuse_unknown
from ..usage.rules import (
    COUNT,
    FLAG,
    FUNCTION,
    HOST,
    MAPPING,
    PORT,
    PROCESSES,
    Rule,
    are_texts,
    check_values,
    check_variables,
    is_items,
    like,
    number_variable,
    shown,
)

if TYPE_CHECKING:
    from ..aio.rates import RateLimit
    from ..client.subscriptions import ClientRoots, ResultCache
    from ..endpoint.base import Extension
    from ..http.authentication import Protection
    from ..session.instruments import OnClose, OnError
    from ..session.interfaces import RevisionChoice
    from ..session.requests import RequestOptions
    from ..stores import Store
    from ..transports.http_client.connection import HTTPOptions
    from ..transports.http_server.app import HTTPLimits, Owner
    from ..transports.http_server.events import EventStore

_log: Final = logging.getLogger(__name__)
_TRANSPORTS: Final = {"stdio": "stdio", "http": "http", "streamable-http": "http", "sse": "sse"}
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/]+")

_HOSTS: Final = Rule(are_texts, 'a list of host names, such as ["example.com"]')
_ORIGINS: Final = Rule(
    lambda value: are_texts(value) and all(item == "*" or _ORIGIN.fullmatch(item) for item in value),
    'a list of origins with a scheme and no path, such as ["https://example.com"], or ["*"]',
)

STDIO_RULES: Final[Mapping[str, Rule]] = {
    "env": Rule(
        lambda value: isinstance(value, Mapping) and are_texts([*value, *value.values()]),
        'a dict of strings, such as {"DEBUG": "1"}',
    ).or_none(),
    "cwd": Rule(lambda value: isinstance(value, str) or hasattr(value, "__fspath__"), "a path").or_none(),
    "stderr": Rule(callable, "a function of a line, such as print").or_none(),
    "max_bytes": COUNT,
}
HTTP_RULES: Final[Mapping[str, Rule]] = {
    "http": like("HTTPOptions(…)", "login_timeout").or_none(),
}


# The keywords of the methods that run a server or connect a client, as type checkers see them.


class ASGISettings(TypedDict, total=False):
    """The keywords of `asgi`."""

    path: str | None
    hosts: Iterable[str] | None
    origins: Iterable[str] | None
    owner: Owner
    auth: Protection | None
    event_store: EventStore | None
    limits: HTTPLimits
    legacy_sse: bool
    routes: Sequence[Any]
    json_response: bool
    stateless_http: bool
    store: str | Store
    health_path: str | None
    ready_path: str | None
    metrics_path: str | None


class StdioServerSettings(TypedDict, total=False):
    """The keywords of `run("stdio")`."""

    max_bytes: int


class HTTPServerSettings(ASGISettings, total=False):
    """The keywords of `run("http")`."""

    host: str
    port: int
    uvicorn: dict[str, Any] | None
    server: Literal["uvicorn", "hypercorn", "granian"]
    workers: int


class _ClientSettings(TypedDict, total=False):
    name: str
    version: str
    capabilities: Mapping[str, Any] | None
    connect_options: RequestOptions
    ping_interval: float | None
    extensions: Sequence[Extension]
    cache: ResultCache | bool
    roots: ClientRoots | None
    timeout: float | None
    rate_limits: Mapping[str, RateLimit | None] | None
    strict: bool


class _CallbackSettings(TypedDict, total=False):
    on_close: OnClose | None
    on_error: OnError | None


class _StdioSettings(TypedDict, total=False):
    env: Mapping[str, str] | None
    cwd: str | None
    stderr: Callable[[str], None] | None
    max_bytes: int


class _HTTPSettings(TypedDict, total=False):
    http: HTTPOptions | None


class MultiClientSettings(_ClientSettings, total=False):
    """The keywords of `MultiClient` besides its callbacks."""

    revisions: RevisionChoice


class ClientSettings(_ClientSettings, _CallbackSettings, total=False):
    """The keywords of a client's constructor."""

    revisions: RevisionChoice


class StdioClientSettings(ClientSettings, _StdioSettings, total=False):
    """The keywords of `Client.stdio`."""


class HTTPClientSettings(ClientSettings, _HTTPSettings, total=False):
    """The keywords of `Client.http`."""


class ConnectSettings(_ClientSettings, _CallbackSettings, _StdioSettings, _HTTPSettings, total=False):
    """The keywords of `connect` besides `client` and `revisions`, for any kind of target."""


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("/") and not re.search(r"[?#\s]", value)


_PATH: Final = Rule(_is_path, 'a path that begins with a slash, such as "/mcp"').or_none()

_RULES: Final[Mapping[str, Rule]] = {
    "host": HOST,
    "port": PORT,
    "path": _PATH,
    "uvicorn": Rule(MAPPING.accepts, 'a dict of settings of uvicorn, such as {"workers": 1}').or_none(),
    "hosts": _HOSTS.or_none(),
    "origins": _ORIGINS.or_none(),
    "owner": FUNCTION,
    "routes": Rule(is_items, 'a list of Starlette routes, such as [Route("/health", health)]'),
    "auth": like("a ResourceServer", "authenticator").or_none(),
    "event_store": like("an EventStore, with the methods add, after and drop", "add", "after", "drop").or_none(),
    "limits": like("HTTPLimits(…)", "max_body"),
    "legacy_sse": FLAG,
    "json_response": FLAG,
    "stateless_http": FLAG,
    "health_path": _PATH,
    "ready_path": _PATH,
    "metrics_path": _PATH,
    "workers": COUNT,
    "max_bytes": COUNT,
    "server": Rule(("uvicorn", "hypercorn", "granian").__contains__, '"uvicorn", "hypercorn" or "granian"'),
}


def check_run(transport: object, settings: Mapping[str, Any], function: Literal["run", "run_async"] = "run") -> str:
    """Return the transport of a call of `run`, without the names that other SDKs use for it.

    Raises LocalError for an unknown transport, for a wrong value, and for `run` inside a running event loop, and
    TypeError for a keyword that the transport does not have.
    """
    if not isinstance(transport, str) or transport not in _TRANSPORTS:
        raise LocalError(f"{function}(): there is no transport {shown(transport)}; use 'stdio', 'http' or 'sse'")
    kind = _TRANSPORTS[transport]
    allowed = keywords_of(HTTPServerSettings)
    if kind == "stdio":
        for keyword in settings:
            if keyword in allowed:
                raise TypeError(
                    f'{function}("stdio") has no keyword argument {keyword!r}: write {function}("http", {keyword}=…)'
                )
        allowed = keywords_of(StdioServerSettings)
    elif "max_bytes" in settings:
        raise TypeError(
            f"{function}(\"http\") has no keyword argument 'max_bytes': write limits=HTTPLimits(max_body=…)"
        )
    refuse_unknown(function, settings, allowed | {"revisions"})
    check_values(function, settings, _RULES)
    check_variables()
    _check_store(function, settings)
    if function == "run_async" and settings.get("workers", 1) > 1:
        raise LocalError('run_async() serves in this process: workers= starts others, so write run("http", workers=…)')
    if function == "run" and _is_in_loop():
        raise LocalError(
            "run() starts an event loop and cannot be called inside of one: write `await app.run_async(…)`, or call it "
            "outside of async def"
        )
    return kind


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return is_trio_task()
    return True


def check_asgi(settings: Mapping[str, Any]) -> None:
    """Raise TypeError for a keyword that `asgi` does not have, and LocalError for a wrong value."""
    refuse_unknown("asgi", settings, keywords_of(ASGISettings) | {"revisions"})
    check_values("asgi", settings, _RULES)
    _check_store("asgi", settings)
    check_processes(settings.get("store"))


def _check_store(function: str, settings: Mapping[str, Any]) -> None:
    if "store" in settings:
        open_store(function, settings["store"])  # It connects with its first command.
    workers = settings.get("workers", 1)
    if workers > 1 and settings.get("store") == "memory":
        raise LocalError(
            f'{function}(): workers={workers} need a store that they share, and "memory" is that of one process: write '
            'store="sqlite:///FILE" or store="redis://HOST", or leave out store= for a temporary SQLite file'
        )
    uvicorn: Any = settings.get("uvicorn") or {}
    if (processes := uvicorn.get("workers")) not in (None, 1):
        raise LocalError(
            f"{function}(): uvicorn={{'workers': {processes}}} starts no processes: write {function}(\"http\", "
            f"workers={processes})"
        )


def check_processes(store: object) -> None:
    """Warn if other processes serve the same application without a store that they share.

    Raises LocalError if the application names the store of one process, and for a variable that is not a number.
    """
    check_variables()
    number = number_variable(PROCESSES)
    if number is None or number < 2 or store not in (None, "memory"):
        return
    remedy = 'write store="sqlite:///FILE" or store="redis://HOST"'
    if store == "memory":
        raise LocalError(
            f'asgi(): {PROCESSES}={number} starts several processes, and "memory" is the store of one: {remedy}'
        )
    _log.warning("%s=%d: if several processes serve this application, they need a store: %s", PROCESSES, number, remedy)


def stdio_limit(function: str, max_bytes: int = MAX_MESSAGE_BYTES) -> SizeLimit:
    """Return the limit of messages over stdio; `function` is the one that takes `max_bytes`."""
    return SizeLimit(max_bytes, f"max_bytes= of {function}")


def check_url(function: str, url: object) -> None:
    """Raise LocalError unless this is the text of an http or https URL with a host."""
    check_variables()
    if not isinstance(url, str):
        raise LocalError(f"{function}() needs a URL as a string, not {shown(url)}")
    if not re.match(r"https?://[^/\s]+", url):
        raise LocalError(f'{function}(): {shown(without_secrets(url))} is not a URL: write "http://host:port/mcp"')


def check_command(function: str, command: tuple[object, ...]) -> None:
    """Raise LocalError unless these are the words of a command, separate strings."""
    check_variables()
    example = f'{function}("python", "server.py")'
    if not command:
        raise LocalError(f"{function}() needs the words of a command: write {example}")
    for word in command:
        if is_items(word):
            raise LocalError(f"{function}() needs separate words, not a list: write {function}(*words)")
        if not isinstance(word, str) and not hasattr(word, "__fspath__"):
            raise LocalError(f"{function}() needs the words of a command as strings, not {shown(word)}")
    if len(command) == 1 and re.search(r"\s-|\s\S+\.(py|js|jar|sh)\b", str(command[0])):
        raise LocalError(f"{function}() needs separate words, not {shown(command[0])}: {str(command[0]).split()}")
