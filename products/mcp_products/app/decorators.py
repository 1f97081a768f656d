"""The decorators of an app, and their counterparts that add and remove tools, resources and prompts at run time."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, Unpack, overload

from mcp_products.common.awaiting import plain_to_async
from mcp_products.host.own_messages import check_name
from mcp_runtime._lazy import LazyModule, load
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.revision import Notification, Request
from mcp_runtime.protocol.uris import encoded_uri, find_uri
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import shown

from .administration import Administration
from .components.catalog import is_requested
from .components.functions import check_accepts, check_function, signature_of
from .components.kinds import ListKind
from .middleware.hooks import MiddlewareFunction
from .prompts import Prompt
from .providers.file_system import TOOL_MARK
from .registry import CompletionFunction, Registry
from .resources import Resource, ResourceSource
from .settings import RULES, OnDuplicate, ResourceSettings, Settings, ToolSettings
from .signatures.signature import function_name
from .tools import Tool, ToolTransform

if TYPE_CHECKING:
    from . import transformed_tools
    from .signatures import dereferencing
else:  # Imported when they are used.
    transformed_tools = LazyModule("mcp_products.app.transformed_tools")
    dereferencing = LazyModule("mcp_products.app.signatures.dereferencing")

F = TypeVar("F", bound=Callable[..., Any])
MiddlewareT = TypeVar("MiddlewareT", bound=MiddlewareFunction)
_log: Final = logging.getLogger("mcp_runtime.app.decorators")


class Registrations(Administration):
    """The part of an app that adds and removes its tools, resources, prompts, completions and middleware."""

    types: ClassVar[ModuleType]
    name: str
    _coerce: bool
    _json_indent: int | None
    _on_duplicate: OnDuplicate
    tool_class: ClassVar[type[Tool]] = Tool
    _dereferences: bool
    registry: Registry
    """What middleware, providers and transforms take of the app; not for users."""

    @overload
    def tool(self, function: F, /, *, name: str | None = None, **settings: Unpack[ToolSettings]) -> F: ...
    @overload
    def tool(self, name: str | None, /, **settings: Unpack[ToolSettings]) -> Callable[[F], F]: ...
    @overload
    def tool(self, *, name: str | None = None, **settings: Unpack[ToolSettings]) -> Callable[[F], F]: ...
    @checked(ToolSettings, rules=RULES)
    def tool(self, function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
        """Add a function as a tool: decorate it with `@app.tool`, `@app.tool("name")` or `@app.tool(title="Title")`.

        The type hints and the docstring become the input schema, the return type becomes the output schema. `name` is
        by default the name of the function; the other keywords are described in `ToolSettings`. Raises TypeError for an
        unknown keyword, and LocalError for a function that cannot be a tool.
        """
        return _decorate("tool", function, name, lambda function, name: self.add_tool(function, name, **settings))

    @checked(ToolSettings, rules=RULES, example='app.add_tool(function, "name")')
    def add_tool(
        self, function: Callable[..., Any] | ToolTransform, name: str | None = None, **settings: Unpack[ToolSettings]
    ) -> None:
        """Add a tool, also at run time. Raises LocalError if the name is in use or the function cannot be a tool."""
        if isinstance(function, ToolTransform):
            self._add_transformed(function, name, settings)
            return
        check_function(function, "tool", name)
        view: Any = None
        if settings.get("view") is not None:  # An extra installs it.
            view = load("mcp_products.views.view").View(self, name or function_name(function), function, settings)
            settings = view.settings
        tool = self.tool_class(function, name, settings, self.types, self._coerce, self._json_indent)
        self._add_tool(tool)
        if view is not None:
            tool.view = view.add()

    def make_tool(self, function: Callable[..., Any], **settings: Unpack[ToolSettings]) -> Tool:
        """Return a function as a tool that is not added. Raises LocalError if it cannot be a tool."""
        check_function(function, "tool", None)
        return Tool(function, None, settings, self.types, self._coerce, self._json_indent)

    def _add_transformed(self, transform: ToolTransform, name: str | None, settings: ToolSettings) -> None:
        if name is not None or settings:
            raise TypeError("add_tool() takes no other arguments with a changed tool: pass them to Tool.from_tool()")

        self._add_tool(
            transformed_tools.transformed_tool(transform, self.registry, self.types, self._coerce, self._json_indent)
        )

    def _add_tool(self, tool: Tool) -> None:
        if self._dereferences:
            tool.definition = dereferencing.dereferenced_definition(tool.definition)
        self._add("tools", tool.name, tool)

    @checked(example="app.add_tools(object)")
    def add_tools(self, holder: object) -> None:
        """Add the methods of an object that are marked with `tool`; without marked methods, add all public ones.

        Raises LocalError if there are none.
        """
        if inspect.isclass(holder):
            name = holder.__name__
            raise LocalError(f"add_tools() needs an object, not the class {name!r}: write app.add_tools({name}())")
        methods = _methods(holder)
        marked = {name: method for name, method in methods.items() if hasattr(method, TOOL_MARK)}
        selected = marked or {name: method for name, method in methods.items() if not name.startswith("_")}
        if not selected:
            raise LocalError(f"add_tools(): {shown(holder)} has no public methods that could be tools")
        for method in selected.values():
            settings: dict[str, Any] = getattr(method, TOOL_MARK, {})
            self.add_tool(method, **settings)

    @checked(ResourceSettings, rules=RULES, example='@app.resource("scheme://path")')
    def resource(self, uri: str, **settings: Unpack[ResourceSettings]) -> Callable[[F], F]:
        """Return a decorator that adds a function as a resource, or as a resource template.

        A URI with variables (RFC 6570) makes a resource template. The keywords are described in `ResourceSettings`.
        Raises TypeError for an unknown keyword and without a URI, and LocalError for a function that cannot be a
        resource.
        """
        _check_uri(uri, '@app.resource("resource://{name}")')

        def add(function: F) -> F:
            self.add_resource(uri, function, **settings)
            return function

        return add

    @overload
    def add_resource(self, uri: ResourceSource) -> None: ...
    @overload
    def add_resource(self, uri: str, function: Callable[..., Any], **settings: Unpack[ResourceSettings]) -> None: ...
    @checked(ResourceSettings, rules=RULES, example='app.add_resource("scheme://path", function)')
    def add_resource(
        self,
        uri: str | ResourceSource,
        function: Callable[..., Any] | None = None,
        **settings: Unpack[ResourceSettings],
    ) -> None:
        """Add a resource, also at run time: a URI and a function, or a `TextResource`, `FileResource` and the like.

        Raises LocalError if the URI is in use or invalid.
        """
        if not isinstance(uri, str):
            if isinstance(uri, ResourceSource):  # pyright: ignore[reportUnnecessaryIsInstance]
                function, settings = uri.function, {**uri.settings(), **settings}
                uri = uri.uri
        _check_uri(uri, 'app.add_resource("resource://{name}", {name})')
        if function is None:
            raise LocalError(f"add_resource(): {uri!r} has no content; pass a function, or TextResource(uri=…, text=…)")
        uri = encoded_uri(uri)
        check_function(function, "resource", uri, is_named=True)
        resource = Resource(uri, function, settings, self.types, self._json_indent)
        self._add("resources", uri, resource)

    @overload
    def prompt(self, function: F, /, *, name: str | None = None, **settings: Unpack[Settings]) -> F: ...
    @overload
    def prompt(self, name: str | None, /, **settings: Unpack[Settings]) -> Callable[[F], F]: ...
    @overload
    def prompt(self, *, name: str | None = None, **settings: Unpack[Settings]) -> Callable[[F], F]: ...
    @checked(Settings, rules=RULES)
    def prompt(self, function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
        """Add a function as a prompt: decorate it with `@app.prompt`, `@app.prompt("name")` or with keywords.

        The function returns text, messages, or a list of these. The keywords are described in `Settings`. Raises
        TypeError for an unknown keyword, and LocalError for a function that cannot be a prompt.
        """
        return _decorate("prompt", function, name, lambda function, name: self.add_prompt(function, name, **settings))

    @checked(Settings, rules=RULES, example='app.add_prompt(function, "name")')
    def add_prompt(self, function: Callable[..., Any], name: str | None = None, **settings: Unpack[Settings]) -> None:
        """Add a prompt, also at run time. Raises LocalError if the name is in use or the function cannot be a
        prompt."""
        check_function(function, "prompt", name)
        prompt = Prompt(function, name, settings, self.types, self._json_indent)
        self._add("prompts", prompt.name, prompt)

    @overload
    def completion(self, function: F, /) -> F: ...
    @overload
    def completion(self) -> Callable[[F], F]: ...
    @checked()
    def completion(self, function: Any = None) -> Any:
        """Add a completion function: decorate it with `@app.completion`.

        The function gets the reference, the argument and the context of the request. It returns a list of strings, a
        Completion, or None if it has no suggestions; then the next completion function is called.
        """

        def add(function: Callable[..., Any], name: str | None) -> None:
            check_accepts(function, ("ref", "argument", "context"), 1, "completion")
            self.registry.completions.append(_to_async(function))
            self._declare_more()

        return _decorate("completion", function, None, add)

    @checked(rules=RULES, example='@app.method("acme/search")')
    def method(self, method: str, *, notification: bool = False, scopes: Sequence[str] = ()) -> Callable[[F], F]:
        """Return a decorator that lets a function handle a method which the protocol does not have, in all versions.

        A single parameter that is a model, a dataclass, a TypedDict or a dict gets the params; else each parameter is
        one of them. The function returns a model, a dict or None. Middleware and `rate_limits` of the app hold.

        Args:
            method: The method, with the name of its vendor: "acme/search".
            notification: True for a notification, which has no result.
            scopes: The OAuth scopes that a request requires.

        Raises LocalError for a method of the protocol, and for one that the app has already.
        """
        own: Any = load(f"{__package__}.methods")
        kind = Notification if notification else Request
        check_name("method()", method, self.types.__name__.rsplit(".", 2)[0], "client_to_server", own.line_for_app)
        if (method, kind) in self.registry.methods:
            raise LocalError(f"the app {self.name!r} has the method {method!r} already: use another name")

        def add(function: F) -> F:
            check_function(function, "method", method)
            self.registry.methods[method, kind] = own.OwnMethod(self.registry, function, method, scopes)
            return function

        return add

    @checked(example='app.remove_tool("name")')
    def remove_tool(self, name: str, version: str | None = None) -> None:
        """Remove a tool, or one version of it, with its view, also at run time. Raises LocalError if there is none."""
        tools = [tool for tool in self.registry.all_versions("tools") if tool.name == name and tool.view is not None]
        self._remove("tools", name, version)
        for tool in tools:
            if version is None or is_requested(tool.version, version):
                self.remove_resource(tool.view, tool.version)

    @checked(example='app.remove_resource("scheme://path")')
    def remove_resource(self, uri: str, version: str | None = None) -> None:
        """Remove a resource or a resource template, or one version of it, also at run time. Raises LocalError if there
        is none at this URI."""
        registered = find_uri(uri, self.registry.resources)
        self._remove("resources", registered or uri, version)

    @checked(example='app.remove_prompt("name")')
    def remove_prompt(self, name: str, version: str | None = None) -> None:
        """Remove a prompt, or one version of it, also at run time. Raises LocalError if there is none."""
        self._remove("prompts", name, version)

    @overload
    def middleware(self, function: MiddlewareT, /) -> MiddlewareT: ...
    @overload
    def middleware(self) -> Callable[[MiddlewareT], MiddlewareT]: ...
    @checked()
    def middleware(self, function: Any = None) -> Any:
        """Add a middleware, which handles every request: decorate it with `@app.middleware`.

        It is called with the name of the handler, the context, the params and `call_next`; it returns the result of
        `call_next(ctx, params)` or another result. The first middleware that is added is the outermost.
        """

        def add(function: MiddlewareFunction, name: str | None) -> None:
            check_accepts(function, ("name", "ctx", "params", "call_next"), 4, "middleware")
            self.registry.middleware.append(function)

        return _decorate("middleware", function, None, add)

    def _add(self, kind: ListKind, name: str, item: Any) -> None:
        """Add a component, or a version of it; `on_duplicate` of the app says what happens with one that is there.

        Raises LocalError if a name would have components with and without a version.
        """
        registered = self.registry.registered(kind)
        existing = registered.get(name)
        if existing is not None and (existing.version is None) is not (item.version is None):
            owner, several = f"the app {self.name!r}", f"{name!r} among its {kind}"
            if item.version is None:
                raise LocalError(f"{owner} has versions of {several}: add this one with version=…")
            raise LocalError(f"{owner} has {several} without a version: give both {kind} a version=…")
        in_use, place, argument = existing is not None, "", ""
        other = "URI" if kind == "resources" else "name"
        if item.version is not None:
            versions = self.registry.versions.get((kind, name), ())
            in_use = any(is_requested(one.version, item.version) for one in versions)
            place = f" in the version {item.version!r}"
            argument = f", version={item.version!r}"
            other = "version"
        there = f"the app {self.name!r} has {name!r} among its {kind}{place} already"
        if in_use and self._on_duplicate == "ignore":
            return
        if in_use and self._on_duplicate == "error":
            raise LocalError(f"{there}: use another {other}, or remove_{kind[:-1]}({name!r}{argument})")
        if in_use and self._on_duplicate == "warn":
            _log.warning("%s: the new one replaces it", there)
        registered[name] = item if item.version is None else self.registry.with_version(kind, name, item)
        self._changed(kind)

    def _remove(self, kind: ListKind, name: str, version: str | None) -> None:
        registered = self.registry.registered(kind)
        if name not in registered:
            existing = ", ".join(map(repr, registered)) or "none"
            raise LocalError(f"the app {self.name!r} has no {name!r} among its {kind}; it has {existing}")
        others = self.registry.without_version(kind, name, version)
        if others:
            registered[name] = others[0]
        else:
            del registered[name]
        self._changed(kind)


@overload
def tool(function: F, /, *, name: str | None = None, **settings: Unpack[ToolSettings]) -> F: ...
@overload
def tool(name: str | None, /, **settings: Unpack[ToolSettings]) -> Callable[[F], F]: ...
@overload
def tool(*, name: str | None = None, **settings: Unpack[ToolSettings]) -> Callable[[F], F]: ...
@checked(ToolSettings, rules=RULES)
def tool(function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
    """Mark a method for `App.add_tools`: decorate it with `@tool`, `@tool("name")` or with the keywords of `App.tool`.

    Raises TypeError for an unknown keyword.
    """

    def mark(function: Callable[..., Any], name: str | None) -> None:
        if not inspect.isfunction(function):
            check_function(function, "tool", name)
        setattr(function, TOOL_MARK, {"name": name, **settings})

    return _decorate("tool", function, name, mark)


def _decorate(
    kind: str, target: object, name: str | None, add: Callable[[Callable[..., Any], str | None], None]
) -> object:
    """Add a function and return it; without a function, return a decorator that does so.

    Args:
        kind: The name of the decorator.
        target: The argument without a keyword: the function, its name, or None.
        name: The keyword `name`.
        add: Adds a function under a name.
    """
    if target is not None and not isinstance(target, str):
        function: Any = target
        add(function, name)
        return function
    if target is not None and (name is not None or not target.strip()):
        reason = "is empty" if name is None else f"stands beside name={name!r}"
        raise LocalError(f'{kind}(): the name {target!r} {reason}: pass one name, such as @app.{kind}("name")')

    def decorator(function: F) -> F:
        add(function, target or name)
        return function

    return decorator


def _check_uri(uri: object, right_use: str) -> None:
    """Raise TypeError for a function or another object in the place of a URI; `right_use` is the line to write."""
    if callable(uri):
        line = right_use.replace("{name}", getattr(uri, "__name__", "name"))
        raise TypeError(f"resource() needs a URI before the function: write {line}")
    if not isinstance(uri, str):
        raise TypeError(f'resource() needs a URI as a string, not {shown(uri)}: write @app.resource("scheme://path")')
    if any(character < " " or character == "\x7f" for character in uri):
        raise LocalError(f"{uri!r} is not a resource URI: it has a control character; remove it")


def _to_async(function: Callable[..., Any]) -> CompletionFunction:
    count = len(signature_of(function, hints=False).parameters)
    call = function
    if not inspect.iscoroutinefunction(function):
        call = plain_to_async(function, f"the completion {getattr(function, '__name__', '')!r}")

    async def complete(*arguments: Any) -> Sequence[str] | Any:
        return await call(*arguments[:count])

    return complete


def _methods(holder: object) -> dict[str, Any]:
    """Return the methods of an object. Its properties are left alone: to read one may open what it stands for."""
    computed = (property, cached_property)
    names = [name for name in dir(holder) if not isinstance(inspect.getattr_static(holder, name, None), computed)]
    values = {name: getattr(holder, name, None) for name in names}
    return {name: value for name, value in values.items() if inspect.isroutine(value)}
