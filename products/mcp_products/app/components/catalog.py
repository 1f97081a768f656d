"""The catalog of an app: which tools, resources and prompts there are and which are enabled, mounted apps included."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.uris import uri_key, uri_key_with_fragment
from mcp_runtime.server.context import ServerContext

from .kinds import KINDS, RESOURCE, TEMPLATE, ComponentKind, Kind, ListKind
from .named_things import NamedThing, things_named
from .uris import URITemplate, Value, add_prefix
from .visibility import VisibilityRule, is_enabled, session_rules

# Versions of tools, resources and prompts: their order, and the version that a request names in its `_meta`.

# The namespace of FastMCP in `_meta`, whose clients name versions there.
NAMESPACE: Final = "fastmcp"

_PEP_440: Final = re.compile(
    r"v*(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_number>\d*))?"
    r"(?:-(?P<implicit_post>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.ASCII,
)
_STAGES: Final = {"a": 1, "alpha": 1, "b": 2, "beta": 2}  # All others are release candidates.
_CANDIDATE: Final = 3
_RELEASED: Final = 4

VersionKey = tuple[Any, ...]


def version_key(version: str) -> VersionKey:
    """Return what versions are compared by.

    Those of PEP 440 come first, in its order; a leading `v` says nothing. All others, such as dates, are compared as
    text. See https://peps.python.org/pep-0440/#summary-of-permitted-suffixes-and-relative-ordering
    """
    match = _PEP_440.fullmatch(version.strip().lower())
    if match is None:
        return (1, version)
    release = [int(number) for number in match["release"].split(".")]
    while release and not release[-1]:
        release.pop()
    is_post = match["implicit_post"] is not None or match["post"] is not None
    post = int(match["implicit_post"] or match["post_number"] or 0) if is_post else -1
    if match["pre"] is not None:
        stage = (_STAGES.get(match["pre"], _CANDIDATE), int(match["pre_number"] or 0))
    else:
        # A development release without anything else comes before all pre-releases.
        stage = (0 if match["dev"] is not None and not is_post else _RELEASED, 0)
    dev = (0, int(match["dev_number"] or 0)) if match["dev"] is not None else (1, 0)
    parts = re.split("[-_.]", match["local"]) if match["local"] else []
    local = tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)
    return (0, int(match["epoch"] or 0), tuple(release), stage, post, dev, local)


def requested_version(params: Any) -> str | None:
    """Return the version that a request names in its `_meta`, as FastMCP's clients do; None if it names none.

    Args:
        params: The params of the request, or a definition.
    """
    meta: Any = getattr(params, "meta", None)
    fields: Any = meta if is_object(meta) else getattr(meta, "model_extra", None) or {}
    namespace: Any = fields.get(NAMESPACE)
    version: Any = namespace.get("version") if is_object(namespace) else None
    return version if isinstance(version, str) and version else None


def with_requested_version(params: Any, version: str) -> Any:
    """Return params that name a version."""
    meta: Any = params.meta
    update = {NAMESPACE: {"version": version}}
    changed: Any = {**(meta or {}), **update} if meta is None or is_object(meta) else meta.model_copy(update=update)
    return params.model_copy(update={"meta": changed})


def with_versions(definition: Any, versions: list[str]) -> Any:
    """Return a definition whose `_meta` has all versions that a client can get."""
    meta: Any = definition.meta or {}
    namespace = meta.get(NAMESPACE)
    own: dict[str, Any] = dict(namespace) if is_object(namespace) else {}
    return definition.model_copy(update={"meta": {**meta, NAMESPACE: {**own, "versions": versions}}})


def is_requested(version: str | None, requested: str | None) -> bool:
    """Return True if a request that names `requested` is about `version`; what has no version is always meant."""
    return version is None or requested is None or version_key(version) == version_key(requested)


class Component(Protocol):
    """A tool, a prompt, a resource or a resource template of an app."""

    definition: Any
    scopes: tuple[str, ...]
    tags: frozenset[str]
    version: str | None


class ResourceItem(Component, Protocol):
    """A resource or a resource template of an app."""

    uri: str
    key: str
    is_template: bool

    @property
    def template(self) -> URITemplate: ...


class VersionRange(Protocol):
    """A range of versions that an app is restricted to."""

    def accepts(self, version: str | None) -> bool: ...


class VersionCandidate(NamedTuple):
    """A version of a component that a request can mean."""

    item: Any
    kind: ComponentKind
    names: tuple[str, ...]
    """Its names here, for rules of visibility."""


class Catalog:
    """What an app has, with what is mounted in it; `visibility` are the rules that enable and disable it.

    `versions` has the versions of what has several, by list and name, the highest first. The dicts of the app have the
    highest version.
    """

    def __init__(self) -> None:
        self.mounted: list[tuple[str, Self]] = []
        self.visibility: list[VisibilityRule] = []
        self.versions: dict[tuple[str, str], list[Any]] = {}
        self.version_ranges: list[VersionRange] = []

    def registered(self, kind: ListKind) -> dict[str, Any]:
        """Return what this app itself has in a list, by its names or URIs."""
        registered: dict[str, Any] = vars(self)[kind]
        return registered

    def all(self, kind: Kind, session: Sequence[VisibilityRule] = ()) -> Iterator[Any]:
        """Yield the definitions of what is enabled here and in mounted apps; the first one if a name occurs twice."""
        return _highest(self._enabled(kind, session), kind.key)

    def _enabled(self, kind: Kind, session: Sequence[VisibilityRule] = ()) -> Iterator[tuple[Any, Component]]:
        """Yield the definitions and the components that are enabled, with all of their versions."""
        sources: dict[str, object] = {}
        for source, definition, item in self._listed(kind):
            id: str = getattr(definition, kind.key)
            is_first = sources.setdefault(id, source) is source
            if is_first and self._shows(session, kind.name, (definition.name, id), item):
                yield definition, item

    def _listed(self, kind: Kind) -> Iterator[tuple[object, Any, Component]]:
        for id, item in self.registered(kind.list).items():
            if _kind_of(item, kind) is kind:
                yield from ((self, version.definition, version) for version in self._versions_of(kind.list, id, item))
        for prefix, inner in self.mounted:
            for definition, item in inner._enabled(kind):
                yield inner, kind.outside(prefix, definition), item

    def _versions_of(self, kind: str, name: str, item: Any) -> Sequence[Any]:
        """Return all versions of a component of this app, the highest first; the component itself if it has none."""
        return (item,) if item.version is None else self.versions.get((kind, name), (item,))

    def with_version(self, kind: ListKind, name: str, item: Any) -> Any:
        """Add a version of a component of this app in the place of an equal one, and return the highest version."""
        key = version_key(item.version)
        others = [other for other in self.versions.get((kind, name), ()) if version_key(other.version) != key]
        versions = sorted([*others, item], key=lambda other: version_key(other.version), reverse=True)
        self.versions[kind, name] = versions
        return versions[0]

    def without_version(self, kind: ListKind, name: str, version: str | None) -> Sequence[Any]:
        """Remove a version of a component of this app, or all of them, and return the others.

        Raises LocalError if it does not have the version.
        """
        removed = self.version_named(kind, name, version)
        versions = [
            other for other in self.versions.pop((kind, name), ()) if version is not None and other is not removed
        ]
        if versions:
            self.versions[kind, name] = versions
        return versions

    def has_item(self, item: Any) -> bool:
        """Return True if a resource is one of this app itself."""
        return self.registered("resources").get(item.uri) is item

    def version_named(self, kind: ListKind, name: str, version: str | None) -> Any:
        """Return a component of this app by its registered name, the highest version without `version`.

        Raises LocalError if it does not have the version.
        """
        item = self.registered(kind)[name]
        if version is None:
            return item
        versions = self._versions_of(kind, name, item)
        if item.version is not None:
            for other in versions:
                if is_requested(other.version, version):
                    return other
        existing = ", ".join(repr(other.version) for other in versions) if item.version else "none: leave it out"
        raise LocalError(f"version={version!r}: there is no such version of {name!r}; the versions are {existing}")

    def _shows(
        self, session: Sequence[VisibilityRule], kind: ComponentKind, names: Sequence[str], item: Component
    ) -> bool:
        """Return True if a component is enabled: by the rules of the session, else by those of this app."""
        if self.version_ranges and not all(allowed.accepts(item.version) for allowed in self.version_ranges):
            return False
        if not self.visibility and not session:
            return True
        return is_enabled(session, kind, names, item.tags, is_enabled(self.visibility, kind, names, item.tags))

    def rules_of(self, ctx: ServerContext) -> Sequence[VisibilityRule]:
        """Return the rules of the session, whose names are those of the outermost app."""
        if ctx.connection_state.visibility is None or ctx.is_mounted:
            return ()
        owner: Any = ctx.connection_state
        return session_rules(owner, ctx.channel)

    def selected(self, kind: Kind, name: str, params: Any, session: Sequence[VisibilityRule] = ()) -> tuple[bool, Any]:
        """Return whether there is something with this name or URI, and the version of it that a request gets.

        That is the highest one that is enabled, or that the request names; None if there is none.

        Args:
            kind: Its kind; with `TEMPLATE`, `name` may be a URI template too.
            name: Its name, or a URI that it serves.
            params: The params of the request, or a definition of a list.
            session: The rules of the session.
        """
        candidates = self._candidates(kind, name)
        requested = requested_version(params) if any(one.item.version is not None for one in candidates) else None
        for item, own_kind, names in candidates:
            if is_requested(item.version, requested) and self._shows(session, own_kind, names, item):
                return True, item
        return bool(candidates), None

    def _candidates(self, kind: Kind, name: str) -> list[VersionCandidate]:
        """Return the versions of what has a name, or serves a URI, the highest first; disabled ones included."""
        own = self._own(kind, name)
        if own is not None:
            id, own_kind = name if kind.is_named else own.uri, _kind_of(own, kind).name
            return [
                VersionCandidate(item, own_kind, (id,) if kind.is_named else (item.definition.name, id))
                for item in self._versions_of(kind.list, id, own)
            ]
        for prefix, inner, rest in self.mounted_with(kind, name):
            inside = inner._candidates(kind, rest)
            enabled = inner._enabled_of(inside)
            return [
                one._replace(names=(name,) if kind.is_named else (one.names[0], add_prefix(prefix, one.names[1])))
                for one in inside
                if one.item in enabled
            ]
        return []

    def _enabled_of(self, candidates: list[VersionCandidate]) -> list[Any]:
        """Return the versions that this app enables; all of them if it enables none, since it refuses them itself."""
        shown = [one.item for one in candidates if self._shows((), one.kind, one.names, one.item)]
        return shown or [one.item for one in candidates]

    def hides(self, thing: NamedThing, params: Any, session: Sequence[VisibilityRule] = ()) -> bool:
        """Return True if there is such a thing, and a rule of this app, of a mounted one or of the session disables it.

        Args:
            thing: What a message names.
            params: The params of the message.
            session: The rules of the session.
        """
        if thing.kind == "task":
            return False
        kind = named_kind(thing.kind)
        exists, item = self.selected(kind, thing.id, params, session)
        if exists and item is None:
            return True
        inside = None if self._own(kind, thing.id) is not None else next(self.mounted_with(kind, thing.id), None)
        return inside is not None and inside[1].hides(NamedThing(thing.kind, inside[2]), params)

    def _own(self, kind: Kind, name: str) -> Any:
        """Return what this app itself has with a name, or what serves a URI, disabled or not; None if there is none."""
        if kind.is_named:
            return self.registered(kind.list).get(name)
        match = self._resource(name)
        if match is None and kind is TEMPLATE:
            return self._registered_as(name)
        return match and match[0]

    def mounted_with(self, kind: Kind, name: str) -> Iterator[tuple[str, Self, str]]:
        """Yield the mounted apps that have something with a name or a URI, with their prefixes and its form there."""
        for prefix, inner in self.mounted:
            rest = kind.inside(prefix, name)
            if rest is not None and inner._has(kind, rest):
                yield prefix, inner, rest

    def _has(self, kind: Kind, name: str) -> bool:
        return self._own(kind, name) is not None or any(self.mounted_with(kind, name))

    def resource_at(self, uri: str) -> tuple[str, ResourceItem] | None:
        """Return the resource that serves a URI, also of a mounted app, with its URI or URI template here."""
        if (match := self._resource(uri)) is not None:
            return match[0].uri, match[0]
        for prefix, inner, rest in self.mounted_with(RESOURCE, uri):
            found = inner.resource_at(rest)
            return found and (add_prefix(prefix, found[0]), found[1])
        return None

    def template_at(self, uri_template: str) -> tuple[str, ResourceItem] | None:
        """Return the resource or resource template that is registered with this URI, also of a mounted app."""
        own = self._registered_as(uri_template)
        if own is not None:
            return own.uri, own
        inside = self.mounted_with(TEMPLATE, uri_template)
        return next((match for _, inner, rest in inside if (match := inner.template_at(rest))), None)

    def has_resource(self, uri: str) -> bool:
        """Return True if a resource has this URI, or a resource template matches it."""
        return self._has(RESOURCE, uri)

    def written_uri(self, uri: str) -> str:
        """Return a URI that something here serves, spelled as it is registered: rules and middleware compare that."""
        match = self._resource(uri)
        if match is not None:
            resource = match[0]
            written: str = resource.template.written_as(uri) if resource.is_template else resource.uri
            return written
        for prefix, inner, rest in self.mounted_with(RESOURCE, uri):
            return add_prefix(prefix, inner.written_uri(rest))
        return uri

    def _resource(self, uri: str) -> tuple[Any, dict[str, Value]] | None:
        """Return the resource of a URI and the values of its variables.

        A resource with the URI takes precedence over one with another spelling of it, and that over templates.
        """
        registered = self.registered("resources")
        exact = registered.get(uri)
        if exact is not None and not exact.is_template:
            return exact, {}
        if not registered:
            return None
        exact = self._registered_as(uri, templates=False)
        if exact is not None:
            return exact, {}
        for resource in registered.values():
            if resource.is_template and (values := resource.template.match(uri)) is not None:
                return resource, values
        return None

    def _registered_as(self, uri: str, *, templates: bool = True) -> Any:
        """Return the resource or template that is registered with a URI, in any spelling; None if there is none.

        A fragment names a part of a resource: without one that has it, this is the resource.
        """
        registered = self.registered("resources")
        exact = registered.get(uri)
        if exact is not None and (templates or not exact.is_template):
            return exact
        key = uri_key_with_fragment(uri)
        for form in (key, uri_key(uri)) if "#" in key else (key,):
            for item in registered.values():
                if item.key == form and (templates or not item.is_template):
                    return item
        return None


def named_kind(name: str) -> Kind:
    """Return the kind to look for what a message names: its URI may be that of a resource or of a template."""
    kind = KINDS[name]
    return kind if kind.is_named else TEMPLATE


def _kind_of(item: Any, kind: Kind) -> Kind:
    """Return the kind of a component that was found as one of a kind, which may be a resource or a template."""
    return kind if kind.is_named else TEMPLATE if item.is_template else RESOURCE


def _highest(entries: Iterable[tuple[Any, Component]], field: str) -> Iterator[Any]:
    """Yield the definitions, of several versions the first one with all versions in its `_meta`."""
    listed: list[Any] = []
    versions: dict[str, list[tuple[Any, str]]] = {}
    for definition, item in entries:
        if item.version is None:
            listed.append(definition)
            continue
        name = getattr(definition, field)
        if name not in versions:
            listed.append(name)
        versions.setdefault(name, []).append((definition, item.version))
    for entry in listed:
        if isinstance(entry, str):
            yield with_versions(versions[entry][0][0], [version for _, version in versions[entry]])
        else:
            yield entry


# The OAuth scopes that requests for the components of an app need.


class ScopedCatalog(Catalog):
    """A catalog whose components need OAuth scopes."""

    def required_scopes(self, name: str, params: Any) -> tuple[str, ...]:
        """Return the OAuth scopes that a request needs; `name` is the name of the handler."""
        return tuple(scope for thing in things_named(name, params) for scope in self._scopes_of(thing, params))

    def _scopes_of(self, thing: NamedThing, params: Any) -> tuple[str, ...]:
        """Return the scopes of what a message names. A task has those that its call needed."""
        return () if thing.kind == "task" else self._scopes(named_kind(thing.kind), thing.id, params)

    def _scopes(self, kind: Kind, name: str, params: Any) -> tuple[str, ...]:
        if (self.versions or self.version_ranges) and (item := self.selected(kind, name, params)[1]) is not None:
            return tuple(item.scopes)
        own = self._own(kind, name)
        if own is not None:
            scopes: tuple[str, ...] = own.scopes
            return scopes
        return next((inner._scopes(kind, rest, params) for _, inner, rest in self.mounted_with(kind, name)), ())
