"""What a client connects to: a file, a module, a command, a URL, a server object, or a transport."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import isawaitable
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

from mcp_runtime._lazy import load
from mcp_runtime.bindings.client import BaseClient, connect
from mcp_runtime.bindings.server import BaseServer, Servable
from mcp_runtime.errors import LocalError
from mcp_runtime.session.interfaces import Connect, RequestTransport, RevisionChoice, Transport
from mcp_runtime.usage.rules import are_texts, is_items, shown

from .handlers import parameter_count

RUNNERS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": (sys.executable,),
    ".pyz": (sys.executable,),
    ".js": ("node",),
    ".mjs": ("node",),
    ".jar": ("java", "-jar"),
}
PYTHONS: Final = ("python", "python3")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
CONNECTION: Final = "mcp_runtime.transports.http_client.connection"
_APPLICATION: Final = "mcp_products.host.applications"
_OF_COMMANDS: Final = ("env", "cwd", "stderr", "max_bytes")
_OF_URLS: Final = ("http", "auth")


@runtime_checkable
class Command(Protocol):
    """The command of a server, as `StdioServerParameters` of the official SDK has it."""

    command: str
    args: Any


ClientTarget: TypeAlias = (
    str
    | os.PathLike[str]
    | Sequence[str | os.PathLike[str]]
    | Mapping[str, Any]
    | BaseServer
    | Sequence[BaseServer]
    | Servable
    | Command
    | Transport
    | RequestTransport
    | Connect
    | Callable[[Any, Any, Any], Awaitable[None]]
)
Revisions: TypeAlias = RevisionChoice | Literal["handshake", "modern"] | str


def revisions_of(package: str, revisions: Any) -> RevisionChoice:
    """Return the protocol versions of a choice: "handshake" are those with `initialize`, "modern" those without.

    Raises LocalError for something else than these, "all", an id or a list of ids.
    """
    lifecycles: Mapping[str, str] = import_module(package).LIFECYCLES
    of_kind = {"handshake": "handshake", "modern": "stateless"}
    if isinstance(revisions, str) and revisions in of_kind:
        return [id for id, lifecycle in lifecycles.items() if lifecycle == of_kind[revisions]]
    chosen = [revisions] if isinstance(revisions, str) and revisions != "all" else revisions
    ids = ", ".join(lifecycles)
    if chosen != "all" and not (are_texts(chosen) and chosen and all(id in lifecycles for id in chosen)):
        raise LocalError(
            f'Client(): revisions must be "all", "handshake", "modern" or of {ids}; {shown(revisions)} is not'
        )
    return cast("RevisionChoice", chosen if chosen == "all" else [*chosen])


def is_configuration(target: object) -> bool:
    """Return True for a configuration of several servers: a dict, or a JSON file."""
    if isinstance(target, Mapping):
        return True
    return isinstance(target, (str, os.PathLike)) and _suffix(cast("str | os.PathLike[str]", target)) == ".json"


def _suffix(target: str | os.PathLike[str]) -> str:
    text = os.fspath(target)
    return "" if "://" in text else Path(text).suffix.lower()


class MadeClient(Protocol):
    """A `Client`, by what makes it one."""

    generated_class: ClassVar[type[BaseClient]]
    generated: Any


def generated_of(target: object) -> Any:
    """Return the generated client of a `Client`; anything else as it is."""
    return cast("Any", target).generated if hasattr(type(target), "generated_class") else target


def client_of(
    client_class: type[BaseClient], target: Any, revisions: RevisionChoice, settings: dict[str, Any]
) -> BaseClient:
    """Return the client of one target, which is not connected.

    Args:
        client_class: The class of the client.
        target: What to connect to.
        revisions: The protocol versions that may be negotiated.
        settings: The keywords of the constructor, with `env`, `cwd`, `stderr`, `http` and `auth`.

    Raises LocalError for something that is not a target, and TypeError for a keyword that belongs to another kind.
    """
    words = command_of(target)
    if words is not None:
        _refuse("a command", settings, _OF_URLS)
        if isinstance(target, Command):
            settings = {"env": getattr(target, "env", None), "cwd": getattr(target, "cwd", None), **settings}
        if settings.get("cwd") is not None:
            settings["cwd"] = os.fspath(settings["cwd"])
        return connect(client_class, words, revisions, settings)
    if isinstance(target, str):
        auth = settings.pop("auth", None)
        _refuse("a URL", settings, _OF_COMMANDS)
        if auth is not None:
            settings["http"] = with_auth(client_class, target, auth, settings.get("http"))
        return connect(client_class, target, revisions, settings)
    if _is_asgi(target):
        _refuse("an application", settings, ("auth", *_OF_COMMANDS))
        options = settings.pop("http", None) or load(CONNECTION).HTTPOptions()

        async def start() -> RequestTransport:
            kind = load(_APPLICATION).HTTPApplicationTransport
            return cast("RequestTransport", await kind.open(target, client_class.revision, options))

        return client_class(start, revisions=revisions, **settings)
    _refuse("an object", settings, (*_OF_URLS, *_OF_COMMANDS))
    if is_transport(target):
        transport = cast("Transport | RequestTransport", target)

        async def give() -> Transport | RequestTransport:
            return transport

        return client_class(give, revisions=revisions, **settings)
    if callable(target) and not isinstance(target, (BaseServer, Servable, type)):
        return client_class(partial(_opened, target), revisions=revisions, **settings)
    return connect(client_class, cast("Any", target), revisions, settings)


async def _opened(function: Callable[[], Any]) -> Any:
    """Return the transport that a function opens. Raises LocalError for one that is not `async def`."""
    opened = function()
    if not isawaitable(opened):
        raise LocalError(f"Client(): a function that opens a transport is `async def`; {shown(function)} is not")
    return await opened


def _is_asgi(target: object) -> bool:
    """Return True for a function of a scope, and of what receives and sends: an ASGI application."""
    return callable(target) and not isinstance(target, (BaseServer, Servable, type)) and parameter_count(target) == 3


def is_transport(target: object) -> bool:
    """Return True for an open transport."""
    methods = ("send", "receive", "close")
    return isinstance(target, RequestTransport) or all(callable(getattr(target, name, None)) for name in methods)


def command_of(target: Any) -> list[str] | None:
    """Return the words of the command of a target: a file, a module or a command; None for another target.

    Raises LocalError for a file that does not exist.
    """
    if isinstance(target, Command) and not isinstance(target, (BaseServer, Servable)):
        return _with_this_python([target.command, *target.args])
    if isinstance(target, (str, os.PathLike)):
        text = os.fspath(cast("str | os.PathLike[str]", target))
        runner = RUNNERS.get(_suffix(text))
        if runner is not None and (not isinstance(target, str) or " " not in text or Path(text).exists()):
            if not Path(text).is_file():
                raise LocalError(f"Client(): there is no file {shown(text)} in {os.getcwd()}")
            return [*runner, str(Path(text).absolute())]
        if isinstance(target, str):
            if "." in text and Path(text).is_file():
                raise LocalError(f"Client(): {text!r} is a program of another language: write Path({text!r}) to run it")
            return [sys.executable, "-m", text] if _MODULE.fullmatch(text) else None
        if not Path(text).is_file():
            raise LocalError(f"Client(): there is no file {shown(text)} in {os.getcwd()}")
        return [str(Path(text).absolute())]
    if is_items(target) and isinstance(target, Sequence):
        items = cast("Sequence[object]", target)
        if items and all(isinstance(item, (str, os.PathLike)) for item in items):
            return _with_this_python([os.fspath(cast("str | os.PathLike[str]", item)) for item in items])
    return None


def _with_this_python(words: list[str]) -> list[str]:
    """Return the words of a command, in which "python" is the Python that runs this program."""
    return [sys.executable, *words[1:]] if words[0] in PYTHONS else words


def with_auth(client_class: type[BaseClient], url: str, auth: Any, http: Any) -> Any:
    """Return the HTTP options with these credentials: a bearer token, "oauth" for a login, or an httpx2 flow.

    Raises LocalError for something else, and beside other credentials.
    """
    options = http if http is not None else load(CONNECTION).HTTPOptions()
    if options.auth is not None:
        raise LocalError("Client(): auth= and http=HTTPOptions(auth=…) are the same: leave one of them out")
    if auth == "oauth":
        area = import_module(f"{client_class.revision.package}.auth")
        browser = area.LoopbackBrowser()
        return replace(
            options, auth=area.OAuthClientProvider(url, area.AuthorizationCode(browser, browser.redirect_uri))
        )
    if isinstance(auth, str):
        return replace(options, headers={**options.headers, "Authorization": f"Bearer {auth}"})
    return replace(options, auth=auth)


def _refuse(kind: str, settings: Mapping[str, Any], keywords: Sequence[str]) -> None:
    """Raise TypeError for a keyword that belongs to another kind of target."""
    for keyword in keywords:
        if settings.get(keyword) is not None:
            raise TypeError(f"Client() with {kind} has no keyword argument {keyword!r}: leave it out")
