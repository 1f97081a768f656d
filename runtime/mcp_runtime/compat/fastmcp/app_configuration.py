"""`AppConfig` of FastMCP: the views of tools and resources, which the extension `apps` has in `_meta.ui`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from ...errors import LocalError
from ...protocol.models import is_object
from ...usage.rules import shown


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
