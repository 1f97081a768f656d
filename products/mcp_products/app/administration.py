"""Changes of an app that concern its tools, resources and prompts as a whole."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Self

from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import LocalError
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import shown

from .components.functions import signature_of
from .components.kinds import KINDS, ComponentKind
from .components.visibility import Texts, VisibilityRule, visibility_rule, with_rule
from .middleware.hooks import CallNext, MiddlewareAdapter, MiddlewareContext
from .providers.provider import Provider

if TYPE_CHECKING:
    from .transforms import transform as transforms
    from .transforms.transform import Transform
else:  # Imported when they are used.
    transforms = LazyModule("mcp_products.app.transforms.transform")


class Administration:
    """The part of an app that enables and disables components, and adds middleware objects."""

    registry: Any

    def _has_clients(self) -> bool:
        """Return True as soon as clients may know what the app declares."""
        raise NotImplementedError

    def _declare_more(self) -> None:
        """Declare what the app has had none of before."""
        raise NotImplementedError

    @checked(example='app.enable(tags={"admin"})')
    def enable(
        self,
        *,
        names: Texts | None = None,
        tags: Texts | None = None,
        components: Collection[ComponentKind] | None = None,
        only: bool = False,
    ) -> Self:
        """Enable tools, resources and prompts that match all criteria; later calls override earlier ones.

        Subscribed clients are notified. The rule holds for components that are added later as well.

        Args:
            names: Names of tools and prompts, names or URIs of resources; with a prefix those of mounted apps.
            tags: Tags, of which a component has at least one.
            components: Kinds: "tool", "resource", "template" or "prompt".
            only: True disables everything else.

        Raises LocalError without criteria, and TypeError for a string instead of a set.
        """
        rule = visibility_rule("enable", True, names, tags, components)
        self._add_rules([VisibilityRule(False, None, None, None), rule] if only else [rule])
        return self

    @checked(example='app.disable(tags={"admin"})')
    def disable(
        self,
        *,
        names: Texts | None = None,
        tags: Texts | None = None,
        components: Collection[ComponentKind] | None = None,
    ) -> Self:
        """Disable tools, resources and prompts that match all criteria: they are neither listed nor callable.

        Args:
            names: Names of tools and prompts, names or URIs of resources; with a prefix those of mounted apps.
            tags: Tags, of which a component has at least one.
            components: Kinds: "tool", "resource", "template" or "prompt".

        Raises LocalError without criteria, and TypeError for a string instead of a set.
        """
        self._add_rules([visibility_rule("disable", False, names, tags, components)])
        return self

    def add_middleware(self, *middleware: Callable[[MiddlewareContext, CallNext], Awaitable[Any]]) -> None:
        """Add middleware objects, which handle messages; the first one that is added is the outermost.

        Args:
            middleware: Objects of subclasses of `Middleware`, or callables with the parameters `context` and
                `call_next`.

        Raises LocalError for a class instead of an object, and for a callable with other parameters.
        """
        for item in middleware:
            if inspect.isclass(item):
                raise LocalError(
                    f"add_middleware() needs an object, not the class {item.__name__}: write {item.__name__}()"
                )
            if not callable(item) or not _takes_two(item):
                raise LocalError(
                    f"add_middleware(): {item!r} does not take (context, call_next); use @app.middleware for a "
                    "function with (name, ctx, params, call_next)"
                )

            self.registry.middleware.append(MiddlewareAdapter(item, self))
        self._declare_more()

    @checked(example='app.add_provider(provider, "prefix")')
    def add_provider(self, provider: Provider, prefix: str = "") -> None:
        """Add a source of tools, resources and prompts, which is used at each request.

        Args:
            provider: An object of a subclass of `Provider`, such as `FileSystemProvider(folder)`.
            prefix: The prefix of its names and URIs, as of `mount`; by default none.

        Raises LocalError for something that is not a provider, and if a client has connected.
        """
        self._check_addition("add_provider", "Provider", provider, Provider)
        provider.attach(self, prefix)
        self._declare_more()

    @checked(example="app.add_transform(transform)")
    def add_transform(self, transform: Transform) -> None:
        """Add an object that changes what clients see of the app; the first one that is added is the outermost.

        Args:
            transform: An object of a subclass of `Transform`, such as `BM25SearchTransform()`.

        Raises LocalError for something that is not a transform, if this app is mounted, and if a client has
        connected.
        """
        self._check_addition("add_transform", "Transform", transform, transforms.Transform)
        if self.registry.is_mounted:
            raise LocalError(
                "add_transform(): this app is mounted, and only its own clients see that: add it to the outer app"
            )
        self.registry.transforms.append(transform.adapter(self))
        self._declare_more()

    def _check_addition(self, method: str, kind: str, item: object, expected: type) -> None:
        if inspect.isclass(item):
            raise LocalError(f"{method}() needs an object, not the class {item.__name__}: write {item.__name__}()")
        if not isinstance(item, expected):
            raise LocalError(f"{method}() needs an object of a subclass of {kind}, not {shown(item)}{_remedy(item)}")
        if self._has_clients():
            raise LocalError(f"{method}(): clients have connected to this app already: call {method} before that")

    @checked(example='await app.get_resource("scheme://path")')
    async def get_resource(self, uri: str, version: str | None = None) -> Any:
        """Return the resource of this app or of a mounted one that serves a URI, also a disabled one.

        `definition` of the resource is its item in the list. Without `version` it is the highest one. Raises LocalError
        if there is none.
        """
        return self._with_version(self.registry.resource_at(uri), f"resource {uri!r}", version)

    @checked(example='await app.get_resource_template("scheme://{name}")')
    async def get_resource_template(self, uri_template: str, version: str | None = None) -> Any:
        """Return a resource template of this app or of a mounted one, also a disabled one.

        `definition` of the template is its item in the list. Without `version` it is the highest one. Raises LocalError
        if there is none.
        """
        match = self.registry.template_at(uri_template)
        match = match if match is not None and match[1].is_template else None
        return self._with_version(match, f"resource template {uri_template!r}", version)

    def _with_version(self, match: Any, description: str, version: str | None) -> Any:
        if match is None:
            raise LocalError(f"there is no {description}; {self._names_of('resources')}")
        owner = next(registry for registry in self.registry.all_registries() if registry.has_item(match[1]))
        return owner.version_named("resources", match[1].uri, version)

    def _names_of(self, kind: str) -> str:
        return f"the {kind} are {', '.join(map(repr, self._listed()[kind])) or 'none'}"

    @checked(example='await app.get_tool("name")')
    async def get_tool(self, name: str, version: str | None = None) -> Any:
        """Return a tool of this app or of a mounted one, also a disabled one, for `Tool.from_tool`.

        Args:
            name: Its name. `definition` of the tool is its item in the list of tools.
            version: Its version; by default the highest one.

        Raises LocalError if there is none.
        """
        return self.registry.find_tool(name, version)[1]

    def _add_rules(self, rules: list[VisibilityRule]) -> None:
        before = self._listed()
        for rule in rules:
            self.registry.visibility = with_rule(self.registry.visibility, rule)
        after = self._listed()
        for kind in after:
            if before[kind] != after[kind]:
                self._changed(kind)

    def _listed(self) -> dict[Any, list[str]]:
        """Return what is listed, by list."""
        listed: dict[Any, list[str]] = {}
        for kind in KINDS.values():
            listed.setdefault(kind.list, []).extend(getattr(item, kind.key) for item in self.registry.all(kind))
        return listed

    def _changed(self, kind: Any) -> None:
        """Handle a change of one of the lists."""
        raise NotImplementedError


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature_of(function, hints=False).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # A callable in C without a signature.
        return True
    return True


def _remedy(item: object) -> str:
    """Return the end of a message: which method takes an object."""
    methods = {Administration: "mount", Provider: "add_provider", transforms.Transform: "add_transform"}
    return next((f": call {name}()" for kind, name in methods.items() if isinstance(item, kind)), "")
