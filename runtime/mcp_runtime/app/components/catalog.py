"""The catalog of an app: which tools, resources and prompts there are and which are enabled, mounted apps included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, Self

from ...server.context import ServerContext
from ...server.visibility import ComponentKind, VisibilityRule, is_enabled, session_rules
from .prefixes import add_prefix, strip_name_prefix, strip_prefix, with_prefixed_name

NamedList = Literal["tools", "prompts"]

_KIND_OF_LIST: Final[Mapping[NamedList, ComponentKind]] = {"tools": "tool", "prompts": "prompt"}
_RESOURCE: Final[ComponentKind] = "resource"
_TEMPLATE: Final[ComponentKind] = "template"


class Component(Protocol):
    """A tool, a prompt, a resource or a resource template of an app."""

    definition: Any
    scopes: tuple[str, ...]
    tags: frozenset[str]


class Template(Protocol):
    """The URI template of a resource."""

    def match(self, uri: str) -> dict[str, str] | None: ...


class ResourceItem(Component, Protocol):
    """A resource or a resource template of an app."""

    uri: str
    is_template: bool

    @property
    def template(self) -> Template: ...


class Catalog:
    """What an app has, with what is mounted in it; `visibility` are the rules that enable and disable it."""

    def __init__(self) -> None:
        self.mounted: list[tuple[str, Self]] = []
        self.visibility: list[VisibilityRule] = []

    def _registered(self, kind: NamedList) -> Mapping[str, Component]:
        registered: Mapping[str, Component] = vars(self)[kind]
        return registered

    def _registered_resources(self) -> Mapping[str, Any]:
        registered: Mapping[str, Any] = vars(self)["resources"]
        return registered

    def all(self, kind: NamedList, session: Sequence[VisibilityRule] = ()) -> Iterator[Any]:
        """Yield the definitions of what is enabled here and in mounted apps; the first one if a name occurs twice."""
        for definition, _ in self._enabled(kind, session):
            yield definition

    def _enabled(self, kind: NamedList, session: Sequence[VisibilityRule] = ()) -> Iterator[tuple[Any, Component]]:
        seen: set[str] = set()
        for definition, item in self._named(kind):
            name = definition.name
            if name not in seen:
                seen.add(name)
                if self._shows(session, _KIND_OF_LIST[kind], (name,), item.tags):
                    yield definition, item

    def _named(self, kind: NamedList) -> Iterator[tuple[Any, Component]]:
        yield from ((item.definition, item) for item in self._registered(kind).values())
        for prefix, inner in self.mounted:
            for definition, item in inner._enabled(kind):
                yield with_prefixed_name(prefix, definition), item

    def all_resources(self, *, templates: bool, session: Sequence[VisibilityRule] = ()) -> Iterator[Any]:
        """Yield the definitions of all resources, or of all resource templates, that are enabled."""
        for definition, _ in self._enabled_resources(templates, session):
            yield definition

    def _enabled_resources(
        self, templates: bool, session: Sequence[VisibilityRule] = ()
    ) -> Iterator[tuple[Any, ResourceItem]]:
        field, kind = ("uri_template", _TEMPLATE) if templates else ("uri", _RESOURCE)
        own = [resource for resource in self._registered_resources().values() if resource.is_template is templates]
        entries = [(resource.definition, resource) for resource in own]
        for prefix, inner in self.mounted:
            for definition, resource in inner._enabled_resources(templates):
                uri = add_prefix(prefix, getattr(definition, field))
                entries.append((definition.model_copy(update={field: uri}), resource))
        for definition, resource in entries:
            if self._shows(session, kind, (definition.name, getattr(definition, field)), resource.tags):
                yield definition, resource

    def _shows(
        self, session: Sequence[VisibilityRule], kind: ComponentKind, names: Sequence[str], tags: frozenset[str]
    ) -> bool:
        """Return True if a component is enabled: by the rules of the session, else by those of this app."""
        if not self.visibility and not session:
            return True
        return is_enabled(session, kind, names, tags, is_enabled(self.visibility, kind, names, tags))

    def _rules(self, ctx: ServerContext) -> Sequence[VisibilityRule]:
        """Return the rules of the session, whose names are those of the outermost app."""
        if ctx.connection_state.visibility is None or ctx._is_mounted:  # pyright: ignore[reportPrivateUsage]
            return ()
        return session_rules(ctx.connection_state, ctx._channel)  # pyright: ignore[reportPrivateUsage]

    def _is_hidden(self, ctx: ServerContext, kind: ComponentKind, name: str) -> bool:
        """Return True if something with this name or URI exists and is disabled."""
        if kind == "resource":
            resource = self.resource_at(name)
            if resource is None:
                return False
            uri, item = resource
            own: ComponentKind = "template" if item.is_template else "resource"
            return not self._shows(self._rules(ctx), own, (item.definition.name, uri), item.tags)
        component = self.component("tools" if kind == "tool" else "prompts", name)
        return component is not None and not self._shows(self._rules(ctx), kind, (name,), component.tags)

    def component(self, kind: NamedList, name: str) -> Component | None:
        """Return the tool or the prompt of this name, also of a mounted app, disabled ones included."""
        own = self._registered(kind).get(name)
        return own or next((inner.component(kind, rest) for inner, rest in self._in_mounted(name, kind)), None)

    def resource_at(self, uri: str) -> tuple[str, ResourceItem] | None:
        """Return the resource that serves a URI, also of a mounted app, with its URI or URI template here."""
        if (match := self._resource(uri)) is not None:
            return match[0].uri, match[0]
        for prefix, inner in self.mounted:
            rest = strip_prefix(prefix, uri)
            if rest is not None and (match_inside := inner.resource_at(rest)) is not None:
                return add_prefix(prefix, match_inside[0]), match_inside[1]
        return None

    def template_at(self, uri_template: str) -> tuple[str, ResourceItem] | None:
        """Return the resource or resource template that is registered with this URI, also of a mounted app."""
        own = self._registered_resources().get(uri_template)
        if own is not None:
            return uri_template, own
        inside = ((inner, strip_prefix(prefix, uri_template)) for prefix, inner in self.mounted)
        return next((match for inner, rest in inside if rest is not None and (match := inner.template_at(rest))), None)

    def has_resource(self, uri: str) -> bool:
        """Return True if a resource has this URI, or a resource template matches it."""
        inside = ((inner, strip_prefix(prefix, uri)) for prefix, inner in self.mounted)
        return self._resource(uri) is not None or any(
            rest is not None and inner.has_resource(rest) for inner, rest in inside
        )

    def _resource(self, uri: str) -> tuple[Any, dict[str, str]] | None:
        """Return the resource of a URI and the values of its variables; exact URIs take precedence over templates."""
        exact = self._registered_resources().get(uri)
        if exact is not None and not exact.is_template:
            return exact, {}
        for resource in self._registered_resources().values():
            if resource.is_template and (values := resource.template.match(uri)) is not None:
                return resource, values
        return None

    def _in_mounted(self, name: str, kind: NamedList) -> Iterator[tuple[Self, str]]:
        """Yield the mounted app that has this item, and the name of the item in that app."""
        for prefix, inner in self.mounted:
            rest = strip_name_prefix(prefix, name)
            if rest is not None and inner.component(kind, rest) is not None:
                yield inner, rest
