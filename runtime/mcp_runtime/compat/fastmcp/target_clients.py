"""`Client(target)` of FastMCP and of the official SDK 2.x: a client that is created from what it connects to."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from ...bindings.connect import connect


class TargetClients(type):
    """The type of client classes that take an App, a URL or the words of a command, or a function that connects.

    The path of a server file, and a configuration with `mcpServers`, are those of `App.proxy`.
    """

    app_class: Any

    if not TYPE_CHECKING:  # For type checkers the constructors of the classes have the keywords.

        def __call__(cls, target: Any, /, *arguments: Any, **settings: Any) -> Any:
            """Create a client, as `connect(target)` does."""
            if callable(target) or arguments:  # A function that connects: `Client(connect)`.
                return super().__call__(target, *arguments, **settings)
            if _needs_proxy(target):
                target = cls.app_class.proxy(target)
            return connect(cls, target, settings.pop("revisions", "all"), settings)


def _needs_proxy(target: Any) -> bool:
    """Return True for the path of a server file, and for a configuration of servers."""
    if isinstance(target, str):
        return target.endswith((".py", ".js", ".mjs", ".jar")) and not target.startswith(("http://", "https://"))
    return isinstance(target, (Mapping, PathLike))
