"""The files and folders that a client lists as its roots, and paths that have to be within a root.

MCP specification, https://modelcontextprotocol.io/specification/draft/client/roots
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from mcp_runtime.endpoint.checks import check_root
from mcp_runtime.errors import InvalidMessageError

_log: Final = logging.getLogger("mcp_runtime.host.roots")


def path_to_root(path: str) -> str:
    """Return the URI of a folder or a file, for a list of roots. Raises InvalidMessageError if it is not readable."""
    try:
        real = os.path.realpath(path)
        is_readable = os.access(real, os.R_OK | os.X_OK if os.path.isdir(real) else os.R_OK)
    except (OSError, ValueError) as error:
        raise InvalidMessageError(f"{path!r} cannot be a root: {error}") from None
    if not is_readable:
        raise InvalidMessageError(f"{path!r} cannot be a root: it does not exist, or is not readable")
    check_root(uri := Path(real).as_uri())
    return uri


def readable_roots(paths: Iterable[str]) -> list[str]:
    """Return the URIs of those paths that exist and are readable now."""
    uris: list[str] = []
    for path in paths:
        try:
            uris.append(path_to_root(path))
        except InvalidMessageError as error:
            _log.debug("%s", error)
    return uris


def is_within(path: str, roots: Iterable[Any]) -> bool:
    """Return True if a path is within one of a client's roots. Symbolic links are resolved.

    Args:
        path: The path to check.
        roots: The roots, as the client sent them; invalid ones are ignored.
    """
    real = os.path.realpath(path)
    for root in roots:
        try:
            path = check_root(root.uri)  # Of file:///C:/folder, it is /C:/folder.
            root_path = os.path.realpath(path[1:] if sys.platform == "win32" and path[2:3] == ":" else path)
            if os.path.commonpath([real, root_path]) == root_path:
                return True
        except (InvalidMessageError, ValueError):  # On Windows, paths of two drives have nothing in common.
            continue
    return False


class RootsCache:
    """The cached roots of each client.

    Create one for a server, and call `forget` in its handler of the notification that the roots have changed. See
    https://modelcontextprotocol.io/specification/draft/client/roots
    """

    def __init__(self) -> None:
        """Create an empty cache."""
        self._roots: WeakKeyDictionary[object, list[Any]] = WeakKeyDictionary()
        self._changes = 0  # Counts changes: a result of a request sent before a change is not cached.

    async def get(self, ctx: Any) -> list[Any]:
        """Return the roots of a client; request them if they are not cached.

        Args:
            ctx: The context of a handler that runs for this client.
        """
        state = ctx.connection_state
        if (cached := self._roots.get(state)) is not None:
            return cached
        changes = self._changes
        roots: list[Any] = list((await ctx.list_roots()).roots)
        if changes == self._changes:
            self._roots[state] = roots
        return roots

    def forget(self, ctx: Any) -> None:
        """Remove the cached roots of the client that a handler's context belongs to."""
        self._changes += 1
        self._roots.pop(ctx.connection_state, None)
