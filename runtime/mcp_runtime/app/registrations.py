"""The decorators of an app, and their counterparts that add and remove tools, resources and prompts at run time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, Unpack, overload

from ..aio.threads import WORKER_THREADS
from ..errors import LocalError
from .prompts import Prompt
from .registry import CompletionFunction, ListKind, Middleware, Registry
from .resources import Resource
from .settings import ResourceSettings, Settings, ToolSettings, check_keywords
from .tools import Tool

if TYPE_CHECKING:
    from .resource_types import ResourceSource

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__mcp_tool__"


class Registrations:
    """The part of an app that adds and removes its tools, resources, prompts, completions and middleware."""

    types: ClassVar[ModuleType]
    name: str
    _coerce: bool
    _json_indent: int | None
    _registry: Registry

    def tool(self, name: str | None = None, **settings: Unpack[ToolSettings]) -> Callable[[F], F]:
        """Return a decorator that adds a function as a tool.

        The type hints and the docstring become the input schema, the return type becomes the output schema. `name` is
        by default the name of the function; the other keywords are described in `ToolSettings`. Raises TypeError for an
        unknown keyword.
        """
        check_keywords("tool", settings, ToolSettings)

        def add(function: F) -> F:
            self.add_tool(function, name, **settings)
            return function

        return add

    def add_tool(self, function: Callable[..., Any], name: str | None = None, **settings: Unpack[ToolSettings]) -> None:
        """Add a tool, also at run time. Raises LocalError if the name is in use or the function cannot be a tool."""
        check_keywords("add_tool", settings, ToolSettings)
        tool = Tool(function, name, settings, self.types, self._coerce, self._json_indent)
        self._add("tools", self._registry.tools, tool.name, tool)

    def add_tools(self, holder: object) -> None:
        """Add the methods of an object that are marked with `tool`; without marked methods, add all public ones.

        Raises LocalError if there are none.
        """
        methods = dict(inspect.getmembers(holder, inspect.isroutine))
        marked = {name: method for name, method in methods.items() if hasattr(method, _MARK)}
        selected = marked or {name: method for name, method in methods.items() if not name.startswith("_")}
        if not selected:
            raise LocalError(f"{holder!r} has no public methods that could be tools")
        for method in selected.values():
            settings: dict[str, Any] = getattr(method, _MARK, {})
            self.add_tool(method, **settings)

    def resource(self, uri: str, **settings: Unpack[ResourceSettings]) -> Callable[[F], F]:
        """Return a decorator that adds a function as a resource, or as a resource template.

        A URI with variables (RFC 6570) makes a resource template. The keywords are described in `ResourceSettings`.
        Raises TypeError for an unknown keyword.
        """
        check_keywords("resource", settings, ResourceSettings)

        def add(function: F) -> F:
            self.add_resource(uri, function, **settings)
            return function

        return add

    @overload
    def add_resource(self, uri: ResourceSource) -> None: ...
    @overload
    def add_resource(self, uri: str, function: Callable[..., Any], **settings: Unpack[ResourceSettings]) -> None: ...
    def add_resource(
        self,
        uri: str | ResourceSource,
        function: Callable[..., Any] | None = None,
        **settings: Unpack[ResourceSettings],
    ) -> None:
        """Add a resource, also at run time: a URI and a function, or a `TextResource`, `FileResource` and the like.

        Raises LocalError if the URI is in use or invalid.
        """
        check_keywords("add_resource", settings, ResourceSettings)
        if not isinstance(uri, str):
            function, settings = uri.function, {**uri.settings(), **settings}
            uri = uri.uri
        if function is None:
            raise LocalError(f"add_resource(): {uri!r} has no content; pass a function, or TextResource(uri=…, text=…)")
        resource = Resource(uri, function, settings, self.types, self._json_indent)
        self._add("resources", self._registry.resources, uri, resource)

    def prompt(self, name: str | None = None, **settings: Unpack[Settings]) -> Callable[[F], F]:
        """Return a decorator that adds a function as a prompt; it returns text, messages, or a list of these.

        The keywords are described in `Settings`. Raises TypeError for an unknown keyword.
        """
        check_keywords("prompt", settings, Settings)

        def add(function: F) -> F:
            self.add_prompt(function, name, **settings)
            return function

        return add

    def add_prompt(self, function: Callable[..., Any], name: str | None = None, **settings: Unpack[Settings]) -> None:
        """Add a prompt, also at run time. Raises LocalError if the name is in use."""
        check_keywords("add_prompt", settings, Settings)
        prompt = Prompt(function, name, settings, self.types, self._json_indent)
        self._add("prompts", self._registry.prompts, prompt.name, prompt)

    def completion(self) -> Callable[[F], F]:
        """Return a decorator that adds a completion function.

        The function gets the reference, the argument and the context of the request. It returns a list of strings, a
        Completion, or None if it has no suggestions; then the next completion function is called.
        """

        def add(function: F) -> F:
            self._registry.completions.append(_to_async(function))
            return function

        return add

    def remove_tool(self, name: str) -> None:
        """Remove a tool, also at run time. Raises LocalError if there is no tool with this name."""
        self._remove("tools", self._registry.tools, name)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a resource template, also at run time. Raises LocalError if there is none at this
        URI."""
        self._remove("resources", self._registry.resources, uri)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt, also at run time. Raises LocalError if there is no prompt with this name."""
        self._remove("prompts", self._registry.prompts, name)

    def middleware(self, function: Middleware) -> Middleware:
        """Add a middleware, which handles every request.

        It is called with the name of the handler, the context, the params and `call_next`; it returns the result of
        `call_next(ctx, params)` or another result. The first middleware that is added is the outermost.
        """
        self._registry.middleware.append(function)
        return function

    def _add(self, kind: ListKind, registered: dict[str, Any], name: str, item: Any) -> None:
        if name in registered:
            raise LocalError(f"the app {self.name!r} has {name!r} among its {kind} already")
        registered[name] = item
        self._changed(kind)

    def _remove(self, kind: ListKind, registered: dict[str, Any], name: str) -> None:
        if name not in registered:
            raise LocalError(f"the app {self.name!r} has no {name!r} among its {kind}")
        del registered[name]
        self._changed(kind)

    def _changed(self, kind: ListKind) -> None:
        """Handle a change of one of the lists."""
        raise NotImplementedError


def tool(name: str | None = None, **settings: Unpack[ToolSettings]) -> Callable[[F], F]:
    """Return a decorator that marks a method for `App.add_tools`; the keywords are those of `App.tool`."""
    check_keywords("tool", settings, ToolSettings)

    def mark(function: F) -> F:
        setattr(function, _MARK, {"name": name, **settings})
        return function

    return mark


def _to_async(function: Callable[..., Any]) -> CompletionFunction:
    count = len(inspect.signature(function).parameters)

    async def complete(*arguments: Any) -> Sequence[str] | Any:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments[:count])
        return await WORKER_THREADS.run(function, *arguments[:count])

    return complete
