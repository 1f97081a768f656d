"""Revisions go in, oldest first; what is deprecated in the newest comes out, with the day from which it may go."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.ir import Revision
from .changes import removable_from
from .report import Deprecation


def deprecations(history: Sequence[Revision]) -> list[Deprecation]:
    """What is deprecated in the last of these revisions, since the first after which it always was."""
    *earlier, newest = history
    found: list[Deprecation] = []
    before = [_deprecated(each) for each in earlier]
    for at in _deprecated(newest):
        since = newest.id
        for revision, names in zip(reversed(earlier), reversed(before)):
            if at not in names:
                break
            since = revision.id
        found.append(Deprecation(at, since, removable_from(since)))
    return found


def _deprecated(revision: Revision) -> list[str]:
    """Methods by name, types, and the fields of types that are not deprecated as a whole."""
    found = [row.method for row in revision.methods if row.deprecated]
    found += [name for name, each in revision.types.items() if each.deprecated]
    for each in revision.objects():
        if not each.deprecated:
            found += [f"{each.name}.{field.wire}" for field in revision.own_fields(each) if field.deprecated]
    return list(dict.fromkeys(found))
