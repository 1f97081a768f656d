"""The client of any server without `async`: each call runs in the event loop of another thread."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from mcp_runtime.protocol.model_methods import ServerDetails
from mcp_runtime.session.requests import RequestKeywords, RequestOptions

from .client import HostClient, ResultT
from .sync import InThread

P = ParamSpec("P")
T = TypeVar("T")
HostClientT = TypeVar("HostClientT", bound=HostClient)


class _Blocking:
    """An object of an event loop, for programs without `async`: its methods return what they await."""

    def __init__(self, target: Any, run: Callable[[Any], Any], iterate: Callable[[Any], Any]) -> None:
        self._target = target
        self._run_there = run
        self._iterate_there = iterate

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **keywords: Any) -> Any:
            result = value(*arguments, **keywords)
            if inspect.isawaitable(result):
                return self._run_there(result)
            return self._iterate_there(result) if hasattr(result, "__aiter__") else result

        return call


class HostSyncClient(InThread[HostClientT]):
    """The base of `SyncClient`: what `Client` has, for programs without `async`.

    Attributes:
        client: The `Client`, which runs in an event loop of its own thread.
    """

    @property
    def generated(self) -> Any:
        """The generated client of `client`, whose methods block here, and whose iterators are plain."""
        return _Blocking(self.client.generated, self._run, self._iterate)

    @property
    def server(self) -> ServerDetails:
        """The result of `initialize` or of discovery: the name, version, title, instructions and capabilities of the
        server.

        Raises ConnectionClosedError before the client is connected.
        """
        return self.client.server

    @property
    def protocol_version(self) -> str:
        """The protocol version that was negotiated, as `Client.protocol_version` is."""
        return self.client.protocol_version

    def new(self) -> Self:
        """Return another client of the same target with the same keywords, which has a connection of its own.

        Raises LocalError for a client of a transport, which is a connection itself.
        """
        other = copy.copy(self)
        InThread.__init__(other, self.client.new())  # pyright: ignore[reportUnknownMemberType]
        return other

    @staticmethod
    def _blocking(
        method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[HostSyncClient[Any], P], T]:
        """Return the method that runs this one of the client, and has its parameters and its documentation."""

        def call(self: HostSyncClient[Any], /, *arguments: P.args, **keywords: P.kwargs) -> T:
            own: Callable[P, Coroutine[Any, Any, T]] = getattr(self.client, method.__name__)
            return self._run(own(*arguments, **keywords))

        return update_wrapper(call, method)

    ping = _blocking(HostClient.ping)
    set_log_level = _blocking(HostClient.set_log_level)
    notify = _blocking(HostClient.notify)
    call_tool = _blocking(HostClient.call_tool)

    def set_roots(self, *paths: str | os.PathLike[str]) -> None:
        """Set the folders and files to work on, of a client whose `roots=` are paths. Servers with a handshake are
        notified of the change; others get these paths when they request the roots again.

        Raises LocalError for a client without such roots: it has not declared any.
        """
        self.client.set_roots(*paths)

    def request(
        self,
        method: str,
        params: Any = None,
        *,
        result: type[ResultT] | None = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> ResultT:
        """Send a request that the protocol does not have, as `Client.request` does."""
        # Written out: mypy loses the default of `ResultT` in a method that `_blocking` returns.
        return self._run(self.client.request(method, params, result=result, options=options, **keywords))

    def on(self, method: str, function: Callable[..., Any]) -> None:
        """Call a function with messages that the protocol does not have, as `Client.on` does; in another thread."""
        self.client.on(method, function)
