"""The deprecated parts of a revision, with the day from which each may be removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..model.ir import Revision
from .changes import removable_from


@dataclass(frozen=True, slots=True)
class Deprecation:
    """Something deprecated: the revision that deprecated it, and the day from which it may be removed."""

    at: str
    since: str
    removable: str


def deprecations(history: Sequence[Revision]) -> list[Deprecation]:
    """Return what is deprecated in the last of these revisions, since the first revision from which on it always
    was."""
    *earlier, newest = history
    deprecated: list[Deprecation] = []
    before = [_deprecated(revision) for revision in earlier]
    for at in _deprecated(newest):
        since = newest.id
        for revision, names in zip(reversed(earlier), reversed(before), strict=True):
            if at not in names:
                break
            since = revision.id
        deprecated.append(Deprecation(at, since, removable_from(since)))
    return deprecated


def _deprecated(revision: Revision) -> list[str]:
    """Return the deprecated methods, the deprecated types, and the deprecated fields of other types."""
    names = [row.method for row in revision.methods if row.deprecated]
    names += [name for name, type in revision.types.items() if type.deprecated]
    for type in revision.objects():
        if not type.deprecated:
            names += [f"{type.name}.{field.wire}" for field in revision.own_fields(type) if field.deprecated]
    return list(dict.fromkeys(names))
