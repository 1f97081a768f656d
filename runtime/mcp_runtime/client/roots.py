"""File system roots of a client: list the readable paths, and notify the server when they change."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

from ..aio.workers.threads import WORKER_THREADS
from ..endpoint.checks import Handler, with_checks
from ..endpoint.roots import readable_roots
from ..errors import ConnectionClosedError, LocalError, MCPError
from ..protocol.capabilities import Capabilities, parse_capability_path
from ..protocol.models import validator
from ..protocol.revision import InputRequest, Notification, Request, Revision

_log: Final = logging.getLogger(__name__)

_LIST_HANDLER: Final = "on_list_roots"
_CHANGE_HANDLER: Final = "on_roots_list_changed"


class FileRoots:
    """The roots of a client: folders and files of this machine.

    The server gets those that exist and are readable when it requests the roots. While the client is connected, the
    paths are polled, and the server is notified when the list has changed. See
    https://modelcontextprotocol.io/specification/draft/client/roots

    Attributes:
        paths: The absolute paths; may be changed at any time.
        poll_interval: The seconds between two polls.
    """

    def __init__(self, *paths: str | os.PathLike[str], poll_interval: float = 2.0) -> None:
        """Create the roots for these paths.

        Args:
            paths: Folders and files; relative paths start at the current working directory.
            poll_interval: The seconds between two polls of the file system.

        Raises LocalError unless `poll_interval` is more than 0.
        """
        if not poll_interval > 0:
            raise LocalError(f"the poll_interval of roots is more than 0 seconds, not {poll_interval}")
        self.paths = [os.path.abspath(path) for path in paths]
        self.poll_interval = poll_interval

    async def current_uris(self) -> list[str]:
        """Return the URIs of the paths that exist and are readable now.

        A file system may be slow: a worker thread reads it.
        """
        uris: list[str] = await WORKER_THREADS.run(readable_roots, list(self.paths))
        return uris

    def add_handler(self, handlers: dict[str, Handler], revision: Revision) -> None:
        """Add the handler that lists these roots. Raises LocalError if the client has one already."""
        for row in revision.rows:
            if row.name == _LIST_HANDLER and isinstance(row, (Request, InputRequest)):
                if row.method in handlers:
                    raise LocalError(
                        f"the client lists its roots in {_LIST_HANDLER}: remove it, or the argument `roots`"
                    )
                handlers[row.method] = with_checks(row.name, self._list_handler(row.result))

    def capabilities(self, revision: Revision) -> Capabilities:
        """Return the capabilities that a client of this protocol version declares to notify about changes."""
        row = self.list_changed_row(revision)
        declared: Any = True
        for step in reversed(() if row is None else parse_capability_path(row.capability)[1]):
            declared = {step: declared}
        return {} if row is None else declared

    def list_changed_row(self, revision: Revision) -> Notification | None:
        """Return the notification of a protocol version that roots have changed; None if it has none."""
        rows = (row for row in revision.rows if isinstance(row, Notification) and row.name == _CHANGE_HANDLER)
        return next(rows, None)

    async def watch(self, uris: list[str], closed: asyncio.Future[None], notify: Callable[[], Awaitable[None]]) -> None:
        """Poll the file system until the connection is closed, and notify the server of each change.

        Args:
            uris: The URIs before the first poll.
            closed: Is done when the connection is closed.
            notify: Send the notification.
        """
        # Polling, because file system events cannot wait for a folder that does not exist yet, and are missing on
        # network file systems.
        while not closed.done():
            previous, uris = uris, await self.current_uris()
            if uris != previous:
                try:
                    await notify()
                except ConnectionClosedError:
                    return
                except MCPError as error:
                    _log.warning("the server was not notified that the roots have changed: %s", error)
            await asyncio.wait([closed], timeout=self.poll_interval)

    def _list_handler(self, result_type: Any) -> Handler:
        async def list_roots(ctx: Any, params: Any) -> Any:
            roots: list[dict[str, str]] = []
            for uri in await self.current_uris():
                name = unquote(uri.rpartition("/")[2])
                roots.append({"uri": uri, "name": name} if name else {"uri": uri})
            return validator(result_type)({"roots": roots})

        return list_roots
