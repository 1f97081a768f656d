"""Connect to a URL, a command or server objects, in whatever protocol version the server supports."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, TypeVar

from ..errors import LocalError
from ..session.interfaces import RevisionChoice
from .client import BaseClient
from .server import BaseServer, Servable

ClientT = TypeVar("ClientT", bound=BaseClient)
Target = str | Sequence[str] | BaseServer | Sequence[BaseServer] | Servable


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

    Raises LocalError for a text that is not a URL.
    """
    if isinstance(target, str):
        if not target.startswith(("http://", "https://")):
            raise LocalError(f"{target!r} is no URL; pass a command as a list of its words")
        return client_class.http(target, revisions=revisions, **settings)
    if isinstance(target, (BaseServer, Servable)):
        return client_class.memory(target, revisions=revisions, **settings)
    words = [item for item in target if isinstance(item, str)]
    if words:
        return client_class.stdio(*words, revisions=revisions, **settings)
    return client_class.memory(
        *(item for item in target if isinstance(item, BaseServer)), revisions=revisions, **settings
    )


def newest_client(package: str) -> type[BaseClient]:
    """Return the client class of the newest protocol version of a generated package."""
    revisions: dict[str, str] = import_module(package).REVISIONS
    client: type[BaseClient] = import_module(f"{package}.{list(revisions.values())[-1]}").Client
    return client
