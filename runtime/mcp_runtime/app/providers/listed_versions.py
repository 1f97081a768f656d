"""The versions and the tags of what providers list: FastMCP's servers name them in `_meta`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...errors import JSONRPCError
from ...protocol.jsonrpc import INVALID_PARAMS
from ...protocol.models import is_list, is_object
from ..components.catalog import VersionRange
from ..components.versions import (
    NAMESPACE,
    is_requested,
    requested_version,
    version_key,
    with_requested_version,
    with_versions,
)


def listed_tags(definition: Any) -> frozenset[str]:
    """Return the tags of a definition."""
    return frozenset(_texts(definition, "tags"))


def in_ranges(definitions: Iterable[Any], ranges: Sequence[VersionRange]) -> list[Any]:
    """Return the definitions whose version is in all ranges, without the other versions in their `_meta`.

    A definition describes one version: if that is out of range, the definition is left out, whatever other versions it
    names.
    """
    accepted: list[Any] = []
    for definition in definitions:
        if not _is_accepted(requested_version(definition), ranges):
            continue
        versions = _texts(definition, "versions")
        rest = [version for version in versions if _is_accepted(version, ranges)]
        accepted.append(definition if rest == versions else with_versions(definition, rest))
    return accepted


def highest_versions(definitions: Sequence[Any], key: str) -> list[Any]:
    """Return one definition for each name or URI: the highest version, with all versions in its `_meta`.

    Without versions it is the first one.
    """
    by_id: dict[str, list[Any]] = {}
    for definition in definitions:
        by_id.setdefault(getattr(definition, key), []).append(definition)
    return [same[0] if len(same) == 1 else _highest(same) for same in by_id.values()]


def in_listed_version(params: Any, definitions: Sequence[Any], unknown: str, data: Any) -> Any:
    """Return params that name the version that a request gets: the one it names, else the highest.

    Args:
        params: The params of the request.
        definitions: The definitions of what it is for. Without versions, the params remain as they are.
        unknown: The message for a version that is not listed.
        data: The data of that error.

    Raises JSONRPCError (invalid params) for a version that is not listed.
    """
    versions = _listed(definitions)
    if not versions:
        return params
    requested = requested_version(params)
    for version in versions:
        if is_requested(version, requested):
            return with_requested_version(params, version)
    raise JSONRPCError(INVALID_PARAMS, f"{unknown} in the version {requested!r}", data)


def _highest(definitions: Sequence[Any]) -> Any:
    versioned = [item for item in definitions if requested_version(item) is not None]
    if not versioned:
        return definitions[0]
    highest = max(versioned, key=lambda item: version_key(requested_version(item) or ""))
    return with_versions(highest, _listed(versioned))


def _listed(definitions: Iterable[Any]) -> list[str]:
    """Return the versions of definitions of one name, the highest first."""
    versions: dict[Any, str] = {}
    for definition in definitions:
        own = requested_version(definition)
        for version in [*([] if own is None else [own]), *_texts(definition, "versions")]:
            versions.setdefault(version_key(version), version)
    return [versions[key] for key in sorted(versions, reverse=True)]


def _is_accepted(version: str | None, ranges: Sequence[VersionRange]) -> bool:
    return all(allowed.accepts(version) for allowed in ranges)


def _texts(definition: Any, field: str) -> list[str]:
    """Return a list of texts in FastMCP's part of `_meta`."""
    meta: Any = definition.meta or {}
    namespace: Any = meta.get(NAMESPACE)
    values: Any = namespace.get(field) if is_object(namespace) else None
    return [value for value in values if isinstance(value, str)] if is_list(values) else []
