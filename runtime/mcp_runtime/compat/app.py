"""`FastMCP` and `MCPServer`: an App with the defaults and the keywords of the official SDK."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, cast

from ..app.app import BaseApp
from ..app.content import AssistantMessage, UserMessage
from ..errors import JSONRPCError, LocalError
from .request import RequestContext
from .session_manager import warn_about_event_store

# Settings of `run("http")` that the constructor takes in the last 1.x, and the keyword of `run` that has the value.
_RUN_SETTINGS: Final = {"host": "host", "port": "port", "streamable_http_path": "path"}
# Keywords that ask for what an App does anyway: clients get a session or none, as their protocol version has it, and
# JSON or SSE, as the response needs. `subscriptions=False` only declares less.
_ACCEPTED: Final = frozenset(
    "debug log_level json_response stateless_http warn_on_duplicate_tools warn_on_duplicate_resources"
    " warn_on_duplicate_prompts dependencies mount_path sse_path message_path retry_interval website_url icons title"
    " description subscriptions".split()
)


class OfficialAppMixin:
    """An App that converts arguments, and shows the text of every exception, as the official SDK does."""

    positional: ClassVar[tuple[str, ...]]
    """The parameters of the constructor that may be given by position, in their order."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """Create a server; the keywords are those of the official SDK and those of `App`.

        Raises TypeError for an unknown keyword, and LocalError for one without a counterpart.
        """
        named = dict(zip(self.positional, arguments, strict=False))
        if repeated := named.keys() & settings.keys():
            raise TypeError(f"{type(self).__name__}() got {', '.join(repeated)} by position and by keyword")
        settings = {name: value for name, value in (named | settings).items() if value is not None}
        own = inspect.signature(cast(type[BaseApp[Any]], BaseApp)).parameters
        self._run_settings = {
            name: settings.pop(keyword)
            for keyword, name in _RUN_SETTINGS.items()
            if keyword in settings and keyword not in own
        }
        for name in [name for name in settings if name in _ACCEPTED and name not in own]:
            del settings[name]
        tools, middleware = settings.pop("tools", ()), settings.pop("middleware", ())
        if settings.pop("event_store", None) is not None:
            warn_about_event_store(type(self).__name__)
        unknown = [name for name in settings if name not in own]
        if unknown:
            raise LocalError(
                f"{type(self).__name__}: {unknown[0]} has no counterpart; docs/migration.md has the line to write"
            )
        settings.setdefault("name", type(self).__name__)
        if not settings.get("version"):
            settings["version"] = "0"
        super().__init__(**{"coerce": True, **settings})
        self.middleware: Any = OfficialMiddleware(super().middleware)  # type: ignore[misc]
        for tool in tools:
            self.add_tool(tool)
        for function in middleware:
            self.middleware.append(function)

    def tool(self, name: Any = None, **settings: Any) -> Any:
        """Return a decorator that adds a function as a tool; the decorator works without parentheses as well."""
        if callable(name):
            self.add_tool(name, **settings)
            return name

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.add_tool(function, name, **settings)
            return function

        return add

    def add_tool(self, function: Any, name: str | None = None, **settings: Any) -> None:
        """Add a tool, also at run time."""
        if "fn" in settings:
            function = settings.pop("fn")
        name = name or getattr(function, "__name__", None)
        parent: Any = super()
        parent.add_tool(_with_error_text(function, name), name, **_present(settings))

    def resource(self, uri: Any, **settings: Any) -> Any:
        """Return a decorator that adds a function as a resource or as a resource template."""
        parent: Any = super()
        return parent.resource(str(uri), **_present(settings))

    def prompt(self, name: Any = None, **settings: Any) -> Any:
        """Return a decorator that adds a function as a prompt; the decorator works without parentheses as well."""
        parent: Any = super()
        if callable(name):
            parent.add_prompt(name, **_present(settings))
            return name
        return parent.prompt(name, **_present(settings))

    def run(self, transport: str = "stdio", **settings: Any) -> None:
        """Serve over stdio, Streamable HTTP or, with "sse", the HTTP+SSE transport of 2024 as well."""
        if transport == "sse":
            transport, settings = "http", {"legacy_sse": True, **settings}
        parent: Any = super()
        parent.run(transport, **(settings if transport == "stdio" else {**self._run_settings, **settings}))

    async def run_stdio_async(self) -> None:
        """Serve over standard input and output in the running event loop, until the client disconnects."""
        from .stream_ends import serve_stream, stdio_server

        own: Any = self
        async with stdio_server() as (stream, _):
            await serve_stream(own.server, stream)

    def streamable_http_app(self, **settings: Any) -> Any:
        """Return an ASGI application that serves at the path of the settings, by default /mcp."""
        parent: Any = super()
        if hasattr(parent, "streamable_http_app"):
            return parent.streamable_http_app(**settings)
        return parent.asgi(path=self._run_settings.get("path", "/mcp"))


class OfficialMiddleware:
    """The middleware of an `MCPServer`: functions of a request context and `call_next`, outermost first.

    Called with a function, it adds a middleware of `App`.
    """

    def __init__(self, add: Callable[[Any], Any]) -> None:
        """Create the list of an app, whose own decorator is `add`."""
        self._add = add

    def __call__(self, function: Any) -> Any:
        """Add a middleware of `App`."""
        return self._add(function)

    def append(self, function: Callable[[Any, Callable[[Any], Any]], Any]) -> None:
        """Add a middleware inside of the ones before."""

        async def handle(name: str, ctx: Any, params: Any, call_next: Callable[[Any, Any], Any]) -> Any:
            async def proceed(context: Any) -> Any:
                return await call_next(ctx, params)

            return await function(RequestContext(ctx), proceed)

        self._add(handle)

    def extend(self, functions: Iterable[Any]) -> None:
        """Add several middlewares, outermost first."""
        for function in functions:
            self.append(function)


class RoleMessage:
    """A message of a prompt, by its role: creates a `UserMessage` or an `AssistantMessage`."""

    def __new__(cls, content: Any, role: str = "user") -> Any:
        """Return the message. Raises LocalError for another role than "user" and "assistant"."""
        kinds = {"user": UserMessage, "assistant": AssistantMessage}
        if role not in kinds:
            raise LocalError(f"Message: role {role!r}: the roles are 'user' and 'assistant'")
        return kinds[role](content)


def _present(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those that are None, which the official SDK has as defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def _with_error_text(function: Any, name: str | None) -> Any:
    """Return a function whose exceptions become the text of an error result, as in the official SDK."""
    from ..errors import ToolError

    if not callable(function):
        return function

    def failed(error: Exception) -> ToolError:
        return ToolError(f"Error executing tool {name}: {error}")

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*arguments: Any, **keywords: Any) -> Any:
            try:
                return await function(*arguments, **keywords)
            except JSONRPCError:
                raise
            except Exception as error:
                raise failed(error) from error

        return call_async

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except JSONRPCError:
            raise
        except Exception as error:
            raise failed(error) from error

    return call
