"""How an app gets another version of a tool, a resource or a prompt."""

from __future__ import annotations

import logging
from typing import Any, Final

from ...errors import LocalError
from .catalog import Catalog, ListKind
from .versions import insert_version, is_requested

_log: Final = logging.getLogger(__name__)


def add_version(catalog: Catalog, app_name: str, policy: str, kind: ListKind, name: str, item: Any) -> bool:
    """Add a component with a version, or one whose name has versions already; return whether it was added.

    Raises LocalError if a name would have components with and without a version, and for a version that is in use.

    Args:
        catalog: The catalog of the app.
        app_name: The name of the app, for messages.
        policy: What happens with a version that is in use: `on_duplicate` of the app.
        kind: The list of the component.
        name: Its name or URI.
        item: The component.
    """
    registered: dict[str, Any] = vars(catalog)[kind]
    existing, singular = registered.get(name), kind[:-1]
    if existing is not None and item.version is None:
        raise LocalError(f"the app {app_name!r} has versions of {name!r} among its {kind}: add this one with version=…")
    if existing is not None and existing.version is None:
        raise LocalError(
            f"the app {app_name!r} has {name!r} among its {kind} without a version: give both {kind} a version=…"
        )
    versions = catalog.versions.setdefault((kind, name), [])
    if any(is_requested(other.version, item.version) for other in versions):
        if policy == "ignore":
            return False
        in_use = f"the app {app_name!r} has {name!r} among its {kind} in the version {item.version!r} already"
        if policy == "error":
            raise LocalError(f"{in_use}: use another version, or remove_{singular}({name!r}, version={item.version!r})")
        if policy == "warn":
            _log.warning("%s: the new one replaces it", in_use)
    insert_version(versions, item)
    registered[name] = versions[0]
    return True
