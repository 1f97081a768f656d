"""A target goes in, be it a command, a URL or server objects; a client of the newest revision that can speak to it comes
out, whatever revision the server is of."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, TypeVar

from ..errors import LocalError
from ..session.interfaces import RevisionChoice
from .client import BaseClient
from .server import BaseServer

ClientT = TypeVar("ClientT", bound=BaseClient)
Target = str | Sequence[str] | BaseServer | Sequence[BaseServer]


def connect(
    client_class: type[ClientT], target: Target, revisions: RevisionChoice, settings: dict[str, Any]
) -> ClientT:
    """A client of this class, to be opened with `async with`. `settings` are those of the class and of what connects
    it: a command, a URL that begins with http, or server objects in the same process."""
    if isinstance(target, str):
        if not target.startswith(("http://", "https://")):
            raise LocalError(f"{target!r} is no URL; a command is a list of its words")
        return client_class.http(target, revisions=revisions, **settings)
    if isinstance(target, BaseServer):
        return client_class.memory(target, revisions=revisions, **settings)
    words = [item for item in target if isinstance(item, str)]
    if words:
        return client_class.stdio(*words, revisions=revisions, **settings)
    return client_class.memory(
        *(item for item in target if isinstance(item, BaseServer)), revisions=revisions, **settings
    )


def newest_client(package: str) -> type[BaseClient]:
    """The client of the newest revision of a package."""
    revisions: dict[str, str] = import_module(package).REVISIONS
    client: type[BaseClient] = import_module(f"{package}.{list(revisions.values())[-1]}").Client
    return client
