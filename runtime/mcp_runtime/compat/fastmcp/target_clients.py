"""`Client(target)` of FastMCP and of the official SDK 2.x: a client that is created from what it connects to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...bindings.connect import connect


class TargetClients(type):
    """The type of client classes that take an App, a URL or the words of a command, or a function that connects."""

    if not TYPE_CHECKING:  # For type checkers the constructors of the classes have the keywords.

        def __call__(cls, target: Any, /, *arguments: Any, **settings: Any) -> Any:
            """Create a client, as `connect(target)` does."""
            if callable(target) or arguments:  # A function that connects: `Client(connect)`.
                return super().__call__(target, *arguments, **settings)
            client_class: Any = cls
            return connect(client_class, target, settings.pop("revisions", "all"), settings)
