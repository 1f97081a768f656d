"""The client of any server without `async`: each call runs in the event loop of another thread."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, Unpack, overload

from pydantic import BaseModel

from mcp_runtime.protocol.model_methods import ServerDetails
from mcp_runtime.session.requests import RequestKeywords, RequestOptions

from .client import HostClient
from .outputs import ToolOutput
from .sync import InThread

T = TypeVar("T")


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


HostClientT = TypeVar("HostClientT", bound=HostClient)


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

    def ping(self, *, options: RequestOptions | None = None) -> None:
        """Ask whether the server responds: with a ping, or with discovery where there is no ping.

        Raises MCPError if it does not.
        """
        self._run(self.client.ping(options=options))

    def set_log_level(self, level: str | None) -> None:
        """Request the log messages of a severity and above, from the next request on.

        Args:
            level: The lowest severity; None requests none, in a stateless protocol version.

        Raises LocalError for another severity.
        """
        self._run(self.client.set_log_level(level))

    def set_roots(self, *paths: str | os.PathLike[str]) -> None:
        """Set the folders and files to work on, of a client whose `roots=` are paths. Servers with a handshake are
        notified of the change; others get these paths when they request the roots again.

        Raises LocalError for a client without such roots: it has not declared any.
        """
        self.client.set_roots(*paths)

    @overload
    def request(
        self,
        method: str,
        params: Any = None,
        *,
        result: type[T],
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> T: ...
    @overload
    def request(
        self,
        method: str,
        params: Any = None,
        *,
        result: None = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> dict[str, Any]: ...
    def request(
        self,
        method: str,
        params: Any = None,
        *,
        result: Any = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> Any:
        """Send a request that the protocol does not have, as `Client.request` does."""
        return self._run(self.client.request(method, params, result=result, options=options, **keywords))

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification that the protocol does not have, as `Client.notify` does."""
        self._run(self.client.notify(method, params))

    def on(self, method: str, function: Callable[..., Any]) -> None:
        """Call a function with messages that the protocol does not have, as `Client.on` does; in another thread."""
        self.client.on(method, function)

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | BaseModel | None = None,
        *,
        output: type[T],
        raise_on_error: bool = True,
        strict: bool | None = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> ToolOutput[T]: ...
    @overload
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | BaseModel | None = None,
        *,
        output: None = None,
        raise_on_error: bool = True,
        strict: bool | None = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> ToolOutput[Any]: ...
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | BaseModel | None = None,
        *,
        output: Any = None,
        raise_on_error: bool = True,
        strict: bool | None = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> ToolOutput[Any]:
        """Call a tool, and return what it has returned; `data` is its value.

        Args:
            name: The name of the tool.
            arguments: The arguments of the tool, as a dict or a model.
            output: The type of `data`, such as a pydantic model; None for the types of the tool's output schema.
            raise_on_error: False to return the result of a tool that has failed.
            strict: False to take structured content that does not match the output schema; True to refuse its absence
                as well; None for the value of the constructor.
            options: The options of the request.
            keywords: The options of the request, as keywords.

        Raises ToolResultError if the tool has failed, and InvalidResponseError for structured content that does not
        match the output schema, or is not an `output`.
        """
        call = self.client.call_tool(
            name, arguments, output=output, raise_on_error=raise_on_error, strict=strict, options=options, **keywords
        )
        return self._run(call)
