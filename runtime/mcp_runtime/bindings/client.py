"""The base class of generated clients: connect over a transport with `async with`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from ..client.core import ClientCore
from ..server.core import ServerCore
from ..session.interfaces import Transport
from ..session.negotiation import ready_candidate
from ..session.options import RequestOptions
from ..versions.candidates import client_candidates
from .server import services_of

if TYPE_CHECKING:
    from ..transports.http_client.connection import HTTPOptions


class BaseClient(ClientCore):
    """A client: `async with` connects to the server, and disconnects."""

    @classmethod
    def stdio(
        cls,
        *command: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stderr: Callable[[str], None] | None = None,
        **settings: Any,
    ) -> Self:
        """A client of a server that is started as a child process.

        The child gets a small environment, and `env` beside it. `stderr` gets each line of the child's standard
        error; without it, they go to this process's. `settings` are those of the class.
        """

        async def start() -> Transport:
            from ..transports.stdio.client import SubprocessTransport

            return await SubprocessTransport.start(command, env, cwd, stderr)

        return cls(start, **settings)

    @classmethod
    def memory(cls, *servers: ServerCore, **settings: Any) -> Self:
        """A client of server objects in the same process, for tests."""
        from ..transports.memory import connect_in_memory

        return cls(connect_in_memory(services_of(servers)), **settings)

    @classmethod
    def http(cls, url: str, *, http: HTTPOptions | None = None, **settings: Any) -> Self:
        """A client of the server at this URL. `reach` says how it is reached: with which headers and credentials, over
        which proxy, within which limits. `settings` are those of the class."""

        async def start() -> Transport:
            from ..transports.http_client.connection import HTTPOptions
            from ..transports.http_client.transport import HTTPClientTransport

            return HTTPClientTransport(url, cls.revision, http or HTTPOptions())

        if http is not None and http.login_timeout:
            settings.setdefault("connect_options", RequestOptions(timeout=http.login_timeout + 60.0))
        return cls(start, **settings)

    async def __aenter__(self) -> Self:
        if not self._revisions:
            await self._open([ready_candidate(self)])
            return self
        from ..versions.client_adapter import ClientAdapter

        candidates = client_candidates(self, self._revisions)
        # A server that shakes hands says so when it is asked what it is; one that does not, would not say what it is.
        first = next((each for each in reversed(candidates) if not each.stateful), candidates[-1])
        agreed = await first.get()._open(candidates)
        if isinstance(agreed, ClientAdapter):
            agreed.attach_to_client()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


async def negotiate(*clients: ClientCore) -> ClientCore:
    """Open one conversation, over the connection of the last client, as that one whose revision the server agrees to.

    Clients are given oldest revision first; the newest is offered. The client that comes back is open: close it.
    """
    return await clients[-1]._open([ready_candidate(client) for client in clients])
