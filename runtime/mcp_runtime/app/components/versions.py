"""Versions of tools, resources and prompts: their order, and the version that a request names in its `_meta`."""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

from ...protocol.models import is_object

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


class Versioned(Protocol):
    """A tool, a resource or a prompt."""

    definition: Any
    version: str | None


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


def insert_version(versions: list[Any], item: Versioned) -> None:
    """Insert an item into a list of versions, the highest first; it replaces an equal version."""
    assert item.version is not None, "only what has a version stands in such a list"
    key = version_key(item.version)
    versions[:] = [other for other in versions if version_key(other.version) != key]
    versions.append(item)
    versions.sort(key=lambda other: version_key(other.version), reverse=True)


def is_requested(version: str | None, requested: str | None) -> bool:
    """Return True if a request that names `requested` is about `version`; what has no version is always meant."""
    return version is None or requested is None or version_key(version) == version_key(requested)
