"""The methods of `FastMCP` and `MCPServer` that take more than those of `App`, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, Unpack, overload

from ...app.serving.http_application import HTTPApplication
from ...bindings.server import HTTPTransport
from ...bindings.settings import StdioServerSettings
from ...session.interfaces import RevisionChoice
from .official_keywords import OfficialHTTPKeywords, OfficialPromptKeywords, OfficialRunKeywords, OfficialToolKeywords

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class OfficialMethods:
    """The methods whose keywords are those of `App` and those of the official SDK; `App` runs them."""

    @overload
    def tool(
        self, function: FunctionT, /, *, name: str | None = None, **settings: Unpack[OfficialToolKeywords]
    ) -> FunctionT: ...
    @overload
    def tool(
        self, name: str | None, /, **settings: Unpack[OfficialToolKeywords]
    ) -> Callable[[FunctionT], FunctionT]: ...
    @overload
    def tool(
        self, *, name: str | None = None, **settings: Unpack[OfficialToolKeywords]
    ) -> Callable[[FunctionT], FunctionT]: ...
    def tool(self, function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
        """Add a function as a tool, as `App.tool` does.

        `auth` are checks that a request must pass, such as `require_scopes("read")`; `app` is the view of the tool.
        """

    @overload
    def prompt(
        self, function: FunctionT, /, *, name: str | None = None, **settings: Unpack[OfficialPromptKeywords]
    ) -> FunctionT: ...
    @overload
    def prompt(
        self, name: str | None, /, **settings: Unpack[OfficialPromptKeywords]
    ) -> Callable[[FunctionT], FunctionT]: ...
    @overload
    def prompt(
        self, *, name: str | None = None, **settings: Unpack[OfficialPromptKeywords]
    ) -> Callable[[FunctionT], FunctionT]: ...
    def prompt(self, function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
        """Add a function as a prompt, as `App.prompt` does; `auth` are checks that a request must pass."""

    @overload
    def run(
        self,
        transport: Literal["stdio"] = "stdio",
        *,
        revisions: RevisionChoice = "all",
        **settings: Unpack[StdioServerSettings],
    ) -> None: ...
    @overload
    def run(self, transport: HTTPTransport, **settings: Unpack[OfficialRunKeywords]) -> None: ...
    def run(self, transport: str = "stdio", **settings: Any) -> None:
        """Serve until the client disconnects (stdio), or until the process gets SIGINT or SIGTERM."""

    @overload
    async def run_async(
        self,
        transport: Literal["stdio"] = "stdio",
        *,
        revisions: RevisionChoice = "all",
        **settings: Unpack[StdioServerSettings],
    ) -> None: ...
    @overload
    async def run_async(self, transport: HTTPTransport, **settings: Unpack[OfficialRunKeywords]) -> None: ...
    async def run_async(self, transport: str = "stdio", **settings: Any) -> None:
        """Serve as `run` does, in the running event loop."""

    async def run_http_async(self, transport: HTTPTransport = "http", **settings: Unpack[OfficialRunKeywords]) -> None:
        """Serve over HTTP in the running event loop."""

    async def run_streamable_http_async(self, **settings: Unpack[OfficialRunKeywords]) -> None:
        """Serve over Streamable HTTP in the running event loop."""

    async def run_sse_async(self, **settings: Unpack[OfficialRunKeywords]) -> None:
        """Serve over HTTP+SSE of 2024 besides Streamable HTTP in the running event loop."""

    def streamable_http_app(self, **settings: Unpack[OfficialRunKeywords]) -> HTTPApplication:
        """Return a Starlette application with the MCP endpoint and the custom routes. Needs the extra `http`."""
        raise NotImplementedError

    def http_app(
        self,
        path: str | None = None,
        middleware: Sequence[Any] = (),
        transport: HTTPTransport = "http",
        **settings: Unpack[OfficialHTTPKeywords],
    ) -> HTTPApplication:
        """Return the application of `streamable_http_app`, with this path, wrapped in ASGI middleware."""
        raise NotImplementedError
