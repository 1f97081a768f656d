"""`FastMCP` and `MCPServer`: an App with the defaults and the keywords of the official SDK."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..app.content import AssistantMessage, Audio, Image, UserMessage
from ..errors import JSONRPCError, LocalError
from ..protocol.models import is_list
from .app_protection import Protection
from .http.translation import translated
from .request import OfficialRequestContext

# An App always refuses a name that is in use, so these ask for less than it does.
_STRICTER_HERE: Final = frozenset(
    "warn_on_duplicate_tools warn_on_duplicate_resources warn_on_duplicate_prompts".split()
)


# Private attributes of the official SDK that programs use.
_PRIVATE: Final = frozenset("_mcp_server _lowlevel_server _tool_manager _resource_manager _prompt_manager".split())


class OfficialAppMixin:
    """An App that converts arguments, and shows the text of every exception, as the official SDK does."""

    settings: Any
    """How the app is served."""
    positional: ClassVar[tuple[str, ...]]
    """The parameters of the constructor that may be given by position, in their order."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """Create a server; the keywords are those of the official SDK and those of `App`.

        Raises TypeError for an unknown keyword, and LocalError for one without a counterpart.
        """
        named = dict(zip(self.positional, arguments, strict=False))
        if repeated := named.keys() & settings.keys():
            raise TypeError(f"{type(self).__name__}() got {', '.join(repeated)} by position and by keyword")
        settings = {name: value for name, value in (named | settings).items() if name not in _STRICTER_HERE}
        tools, middleware = settings.pop("tools", None) or (), settings.pop("middleware", None) or ()
        protection = Protection.from_settings(type(self).__name__, settings)
        settings = translated(settings)
        settings.setdefault("name", type(self).__name__)
        if not settings.get("version"):
            settings["version"] = "0"
        super().__init__(**{"coerce": True, **settings})
        self.middleware: Any = OfficialMiddleware(super().middleware)  # type: ignore[misc]
        self._protection = protection
        if protection.verifier is not None:
            self.middleware(protection.middleware)
        for tool in tools:
            self.add_tool(tool)
        for function in middleware:
            self.middleware.append(function)

    if not TYPE_CHECKING:  # Checkers report attributes that do not exist.

        def __getattr__(self, name: str) -> Any:
            remedy = "; docs/migration.md has the lines to write instead" if name in _PRIVATE else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{remedy}")

    def add_tool(self, function: Any, name: str | None = None, **settings: Any) -> None:
        """Add a tool, also at run time."""
        if "fn" in settings:
            function = settings.pop("fn")
        name = name or getattr(function, "__name__", None)
        parent: Any = super()
        parent.add_tool(_with_error_text(function, name), name, **settings)

    def add_prompt(self, function: Any, name: str | None = None, **settings: Any) -> None:
        """Add a prompt, also at run time. Without a description and a docstring its description is an empty text."""
        if settings.get("description") is None and not getattr(function, "__doc__", None):
            settings["description"] = ""
        parent: Any = super()
        parent.add_prompt(function, name, **settings)

    def asgi(self, **settings: Any) -> Any:
        """Return an ASGI application that serves this app."""
        parent: Any = super()
        return parent.asgi(**{**self._protection.keywords(self.settings), **translated(settings)})

    def _http_application(self, revisions: Any, keywords: dict[str, Any], middleware: Any = ()) -> Any:
        parent: Any = super()
        merged = {**self._protection.keywords(self.settings), **translated(keywords)}
        return parent._http_application(revisions, merged, middleware)

    def _run_settings(self, transport: str, keywords: dict[str, Any]) -> dict[str, Any]:
        parent: Any = super()
        if transport == "stdio":
            settings: dict[str, Any] = parent._run_settings(transport, keywords)
            return settings
        merged = {**self._protection.keywords(self.settings), **translated(keywords)}
        return dict(parent._run_settings(transport, merged))

    def resource(self, uri: Any, **settings: Any) -> Any:
        """Return a decorator that adds a function as a resource or as a resource template."""
        parent: Any = super()
        return parent.resource(str(uri), **settings)


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

            return await function(OfficialRequestContext(ctx), proceed)

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
                return _with_read_files(await function(*arguments, **keywords))
            except JSONRPCError:
                raise
            except Exception as error:
                raise failed(error) from error

        return call_async

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return _with_read_files(function(*arguments, **keywords))
        except JSONRPCError:
            raise
        except Exception as error:
            raise failed(error) from error

    return call


def _with_read_files(value: Any) -> Any:
    """Return a value of a tool with the files of its images and sounds read, so that their errors are the tool's."""
    if isinstance(value, (Image, Audio)):
        if value.path is None:
            return value
        return type(value)(Path(value.path).read_bytes(), format=value.mime_type)
    if is_list(value):
        return [_with_read_files(item) for item in value]
    return value
