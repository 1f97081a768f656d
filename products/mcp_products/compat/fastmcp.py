"""`AppConfig` of FastMCP: the views of tools and resources, which the extension `apps` has in `_meta.ui`."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Self, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from mcp_products.app.components.kinds import KINDS, ComponentKind
from mcp_products.app.components.visibility import Texts
from mcp_products.app.decorators import Registrations
from mcp_products.app.providers.provider import Provider
from mcp_products.app.transforms.transform import Namespace, Transform, TransformAdapter
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.usage.rules import shown

from .forms.form import FORM

_log: Final = logging.getLogger("mcp_runtime.compat.fastmcp")

_Folder = str | os.PathLike[str]
_OF_PROVIDER: Final = (
    *("tool", "resource", "prompt", "add_tool", "add_resource", "add_prompt"),
    *("remove_tool", "remove_resource", "remove_prompt", "get_tool", "get_resource", "enable", "disable"),
)


class ViewModel(BaseModel):
    """A model whose properties have the names of the extension in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class ResourceCSP(ViewModel):
    """The origins that a view may connect to, and load from."""

    connect_domains: list[str] | None = None
    resource_domains: list[str] | None = None
    frame_domains: list[str] | None = None
    base_uri_domains: list[str] | None = None


class ResourcePermissions(ViewModel):
    """The permissions that a view requests; `{}` requests one."""

    camera: dict[str, Any] | None = None
    microphone: dict[str, Any] | None = None
    geolocation: dict[str, Any] | None = None
    clipboard_write: dict[str, Any] | None = None


class AppConfig(ViewModel):
    """The view of a tool (`resource_uri`, `visibility`), or how hosts show a resource that is one."""

    resource_uri: str | None = None
    visibility: list[Literal["app", "model"]] | None = None
    csp: ResourceCSP | None = None
    permissions: ResourcePermissions | None = None
    domain: str | None = None
    prefers_border: bool | None = None


def with_view(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a decorator with `app=AppConfig(…)` as `meta`. Raises LocalError for another value."""
    settings = dict(settings)
    app = settings.pop("app", None)
    if app is None or app is False:
        return settings
    if not isinstance(app, AppConfig) and not is_object(app):
        raise LocalError(f"{kind}(): app must be AppConfig(resource_uri=…); {shown(app)} is not")
    view = app if isinstance(app, AppConfig) else AppConfig.model_validate(app)
    if kind == "resource" and (view.resource_uri or view.visibility):
        raise LocalError("resource(): resource_uri and visibility of AppConfig are those of tools: leave them out")
    meta: dict[str, Any] = dict(settings.get("meta") or {})
    settings["meta"] = {**meta, "ui": view.model_dump(by_alias=True, exclude_none=True)}
    return settings


# Keywords of methods of FastMCP that `App` has under other names.


class FastMCPKeywords:
    """The part of a server with the methods of FastMCP whose keywords differ."""

    @property
    def local_provider(self) -> Any:
        """The provider of what the server itself has: the server."""
        return self

    def mount(self, app: Any = None, prefix: str = "", *, namespace: str | None = None, server: Any = None) -> None:
        """Add all that another server has, as `App.mount` does; FastMCP names the parameters `server`, `namespace`.

        Raises TypeError for both names of one parameter.
        """
        if server is not None and app is not None:
            raise TypeError("mount() got app and server, which are the same: write mount(server, …)")
        if namespace is not None and prefix:
            raise TypeError("mount() got prefix and namespace, which are the same: write namespace=…")
        parent: Any = super()
        parent.mount(server if app is None else app, namespace or prefix)

    def enable(self, *, keys: Collection[str] | None = None, only: bool = False, **criteria: Unpack[Criteria]) -> Self:
        """Enable what matches; `keys` are such as "tool:name" and "resource:uri"."""
        return self._change("enable", keys, {**criteria, "only": only} if only else {**criteria})

    def disable(self, *, keys: Collection[str] | None = None, **criteria: Unpack[Criteria]) -> Self:
        """Disable what matches; `keys` are such as "tool:name" and "resource:uri"."""
        return self._change("disable", keys, {**criteria})

    def _change(self, method: str, keys: Collection[str] | None, criteria: dict[str, Any]) -> Self:
        parent: Any = super()
        change = getattr(parent, method)
        if keys is None:
            change(**criteria)
            return self
        if isinstance(keys, str) or criteria.keys() - {"only"}:
            raise TypeError(f'{method}(): keys={shown(keys)} is a set of its own, such as keys={{"tool:erase"}}')
        for key in keys:
            kind, _, name = key.partition(":")
            if kind not in KINDS or not name:
                raise LocalError(f"{method}(): the key {key!r} is none: write 'tool:name' or 'resource:uri'")
            change(names={name.removesuffix("@")}, components={kind}, **criteria)
            criteria = {}  # Those after the first one are enabled as well.
        return self


# Providers of FastMCP: of tools that several servers share, of another server, and of folders of skills.


class FastMCPProvider(Provider):
    """A provider of all that another server has."""

    def __init__(self, server: Any) -> None:
        """Create a provider. Raises LocalError for something that is not a server."""
        if not isinstance(server, Registrations):
            raise LocalError(f"FastMCPProvider() needs a FastMCP object, not {shown(server)}")
        self.server = server
        self._prefix = ""

    def add_transform(self, transform: Any) -> None:
        """Add a `Namespace`. Raises LocalError for other transforms, which an app has."""
        if not isinstance(transform, Namespace):
            raise LocalError(
                f"add_transform(): a provider takes only Namespace(…), not {shown(transform)}: add it to the server"
            )
        self._prefix = f"{transform.prefix}_{self._prefix}" if self._prefix else transform.prefix

    def attach(self, app: Any, prefix: str) -> None:
        """Mount the server in an app."""
        app.mount(self.server, "_".join(part for part in (prefix, self._prefix) if part))


class LocalProvider(FastMCPProvider):
    """Tools, resources and prompts that several servers share: `@provider.tool`, `FastMCP(providers=[provider])`.

    What a provider has disabled, a server cannot enable.
    """

    def __init__(self) -> None:
        """Create an empty provider."""
        super().__init__(FORM.compat.FastMCP("LocalProvider"))

    def __getattr__(self, name: str) -> Any:
        if name in _OF_PROVIDER:
            return getattr(self.server, name)
        raise AttributeError(f"LocalProvider has no {name!r}; it has {', '.join(_OF_PROVIDER)}")


class SkillsDirectoryProvider(Provider):
    """The skills in one folder or in several, the first of which takes precedence: `app.skills(folder)`."""

    def __init__(self, roots: _Folder | Iterable[_Folder], *, reload: bool = False) -> None:
        """Create a provider. Folders that do not exist are left out, and logged.

        Args:
            roots: The folders.
            reload: Has no effect: the files of skills are read at each request.
        """
        self._roots = [Path(roots)] if isinstance(roots, (str, os.PathLike)) else [Path(root) for root in roots]

    def attach(self, app: Any, prefix: str) -> None:
        """Publish the skills."""
        for root in self._roots:
            if root.is_dir():
                app.skills(root, under=prefix)
            else:
                _log.warning("%s: there is no folder %r", type(self).__name__, str(root))


class ClaudeSkillsProvider(SkillsDirectoryProvider):
    """The skills in `~/.claude/skills`."""

    def __init__(self, *, reload: bool = False) -> None:
        """Create a provider; `reload` has no effect."""
        super().__init__(Path.home() / ".claude" / "skills", reload=reload)


# `get_tracer` of FastMCP: the tracer of OpenTelemetry for spans inside of handlers.


def get_tracer(version: str | None = None) -> Any:
    """Return a tracer of OpenTelemetry. Raises LocalError if OpenTelemetry is not installed."""
    try:
        trace = import_module("opentelemetry.trace")
    except ModuleNotFoundError:
        raise LocalError("get_tracer() needs OpenTelemetry: pip install opentelemetry-api") from None
    return trace.get_tracer("mcp_generated", version)


# What `Client` of FastMCP connects to besides servers and URLs.


def needs_proxy(target: Any) -> bool:
    """Return True for the path of a server file, and for a configuration of servers."""
    if isinstance(target, str):
        return target.endswith((".py", ".js", ".mjs", ".jar")) and not target.startswith(("http://", "https://"))
    return isinstance(target, (Mapping, PathLike))


# `Visibility` of FastMCP as a transform of an app.


class Criteria(TypedDict, total=False):
    """What a component must match; `App.enable` describes the keywords."""

    names: Texts | None
    tags: Texts | None
    components: Collection[ComponentKind] | None


class VisibilityKeywords(Criteria, total=False):
    """The keywords of `Visibility`; `keys` are such as "tool:name" and "resource:uri"."""

    keys: Collection[str] | None
    only: bool


class Visibility(Transform):
    """Enable or disable what matches, as `app.enable` and `app.disable` do."""

    def __init__(self, enabled: bool, **criteria: Unpack[VisibilityKeywords]) -> None:
        """Create the transform; the keywords are those of `FastMCP.enable`, which checks them."""
        self._enabled = enabled
        self._criteria = criteria

    def adapter(self, app: Any) -> TransformAdapter:
        """Add the rule to an app."""
        change = app.enable if self._enabled else app.disable
        change(**self._criteria)
        return super().adapter(app)
