"""Paths go in; those that are there are told as a client's roots, and when they change, the server is told of that."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

from ..aio.threads import WORKER_THREADS
from ..endpoint.checks import Handler, with_checks
from ..endpoint.roots import readable_roots
from ..errors import ConnectionClosedError, LocalError, MCPError
from ..protocol.capabilities import Capabilities, parse_capability_path
from ..protocol.models import validator
from ..protocol.revision import InputRequest, Notification, Request, Revision

_log: Final = logging.getLogger(__name__)

_LISTED: Final = "on_list_roots"
_CHANGED: Final = "on_roots_list_changed"


class FileRoots:
    """The roots of a client: folders and files of this machine, of which those are told that are there and can be read
    when the server asks.

    While a conversation lasts they are looked at every so many seconds, and a server is told when one has come, gone,
    been renamed or become unreadable; a revision without such news has servers ask anew. `paths` may be changed at any
    time.
    """

    def __init__(self, *paths: str | os.PathLike[str], poll_interval: float = 2.0) -> None:
        """Raises LocalError unless `every` is more than 0."""
        if not poll_interval > 0:
            raise LocalError(f"folders cannot be looked at every {poll_interval} seconds")
        self.paths = [os.path.abspath(path) for path in paths]
        self.poll_interval = poll_interval

    async def current_uris(self) -> list[str]:
        """The URIs of those that are there now. A file system may be slow: it is asked in a worker thread."""
        found: list[str] = await WORKER_THREADS.run(readable_roots, list(self.paths))
        return found

    def add_handler(self, handlers: dict[str, Handler], revision: Revision) -> None:
        """Be the handler that lists a client's roots. Raises LocalError where it has one already."""
        for row in revision.rows:
            if row.name == _LISTED and isinstance(row, (Request, InputRequest)):
                if row.method in handlers:
                    raise LocalError(f"the roots of this client are told by its {_LISTED}, and cannot be given as well")
                handlers[row.method] = with_checks(row.name, self._listing(row.result))

    def capabilities(self, revision: Revision) -> Capabilities:
        """What a client of this revision declares because it will tell of changes."""
        row = self.list_changed_row(revision)
        declared: Any = True
        for step in reversed(() if row is None else parse_capability_path(row.capability)[1]):
            declared = {step: declared}
        return {} if row is None else declared

    def list_changed_row(self, revision: Revision) -> Notification | None:
        """The notification by which clients of a revision say that their roots have changed."""
        found = (row for row in revision.rows if isinstance(row, Notification) and row.name == _CHANGED)
        return next(found, None)

    async def watch(
        self, known_uris: list[str], closed: asyncio.Future[None], notify: Callable[[], Awaitable[None]]
    ) -> None:
        """Look until it is over, and tell each time that there is something else than what is known."""
        # Looking again and again is all there is to it: what tells of changes by itself cannot wait for a folder that
        # is not there yet, and is silent on file systems of other machines.
        while not closed.done():
            before, known_uris = known_uris, await self.current_uris()
            if known_uris != before:
                try:
                    await notify()
                except ConnectionClosedError:
                    return
                except MCPError as fault:
                    _log.warning("the server was not told that the roots have changed: %s", fault)
            await asyncio.wait([closed], timeout=self.poll_interval)

    def _listing(self, result: Any) -> Handler:
        async def listing(ctx: Any, params: Any) -> Any:
            roots = [{"uri": uri, "name": unquote(uri.rpartition("/")[2]) or None} for uri in await self.current_uris()]
            said = [{key: value for key, value in root.items() if value is not None} for root in roots]
            return validator(result)({"roots": said})

        return listing
