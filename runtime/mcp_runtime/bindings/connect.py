"""Connect to a URL, a command or server objects, in whatever protocol version the server supports."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar, cast

from ..errors import LocalError
from ..http.urls import without_secrets
from ..session.interfaces import RevisionChoice
from ..usage.keywords import keywords_of, refuse_unknown
from ..usage.rules import Rule, check_values, is_items, shown
from .client import BaseClient
from .server import BaseServer, Servable
from .settings import ClientSettings, ConnectSettings, HTTPClientSettings, StdioClientSettings

ClientT = TypeVar("ClientT", bound=BaseClient)
Target = str | Sequence[str] | BaseServer | Sequence[BaseServer] | Servable

_HOST: Final = re.compile(r"[\w.-]+(?::\d+(?:/\S*)?|\.\w+/\S*)$")
_TARGETS: Final = 'a URL such as "http://host:port/mcp", the words of a command in a list, an App or a Server'
_RULES: Final[Mapping[str, Rule]] = {
    "client": Rule(lambda value: inspect.isclass(value) and issubclass(value, BaseClient), "a subclass of Client"),
}


def connect(
    client_class: type[ClientT], target: Target, revisions: RevisionChoice, settings: dict[str, Any]
) -> ClientT:
    """Return a client for a target; connect with `async with`.

    Args:
        client_class: The class of the client.
        target: A URL that starts with http:// or https://, the words of a command, an App, or server objects of this
            process.
        revisions: The protocol versions that may be negotiated: "all", or their ids.
        settings: The keywords of the client's constructor, and of `stdio` or `http`.

    Raises LocalError for a text that is not a URL and for another kind of target, and TypeError for a keyword that the
    target does not have.
    """
    refuse_unknown("connect", settings, keywords_of(ConnectSettings) | {"client", "revisions"})
    check_values("connect", {"client": client_class}, _RULES)
    if isinstance(target, str):
        if not target.startswith(("http://", "https://")):
            url = f'write "http://{target}", or ' if _HOST.match(target) else ""
            named = without_secrets(target) if "://" in target else target
            raise LocalError(
                f"connect(): {named!r} is no URL; {url}pass a command as a list of its words: {_as_words(named)}"
            )
        _refuse_others("a URL", settings, HTTPClientSettings)
        return client_class.http(target, revisions=revisions, **settings)
    items = [*target] if is_items(target) and isinstance(target, Sequence) else [target]
    if items and all(isinstance(item, str) for item in items):
        _refuse_others("a command", settings, StdioClientSettings)
        return client_class.stdio(*cast("list[str]", items), revisions=revisions, **settings)
    if not items or not all(map(_is_server, items)):
        raise LocalError(f"connect() needs {_TARGETS}; {shown(target)} is none of them")
    _refuse_others("a server object", settings, ClientSettings)
    return client_class.memory(*cast("list[BaseServer]", items), revisions=revisions, **settings)


def default_client(package: str) -> type[BaseClient]:
    """Return the client class of the protocol version in which a generated package has its app."""
    index = import_module(package)
    client: type[BaseClient] = import_module(f"{package}.{index.REVISIONS[index.DEFAULT_REVISION]}").Client
    return client


def _is_server(item: object) -> bool:
    return isinstance(item, (BaseServer, Servable))


def _as_words(command: str) -> str:
    words = command.split() or ["python", "server.py"]
    return f'["python", "{words[0]}"]' if len(words) == 1 and words[0].endswith(".py") else repr(words)


def _refuse_others(target: str, settings: Mapping[str, Any], allowed: type[Any]) -> None:
    """Raise TypeError for a keyword that belongs to another kind of target."""
    for keyword in settings:
        if keyword not in keywords_of(allowed):
            raise TypeError(f"connect() with {target} has no keyword argument {keyword!r}: leave it out")
