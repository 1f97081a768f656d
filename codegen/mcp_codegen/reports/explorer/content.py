"""Revisions go in, oldest first; what the page shows of them comes out, as JSON.

A type is written as a list of texts and of `{"ref": name}`. What several revisions have in common is said once: a
revision names its types by their place in `records`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from ...diff.changes import DIFF_RULES, DiffChange
from ...diff.compare import compare, show
from ...model.ir import Array, Field, Map, Method, Object, Ref, Revision, Type, Union

Written = list[Any]

_SIDES: Final[Mapping[str, str]] = {"client_to_server": "client", "server_to_client": "server"}


def content(revisions: Sequence[Revision]) -> dict[str, Any]:
    """All that the page holds: methods, types, and the changes of each pair of revisions."""
    records: dict[str, int] = {}
    return {
        "revisions": [_revision(each, records) for each in revisions],
        "records": [json.loads(text) for text in records],
        "methods": _methods(revisions),
        "rules": {name: rule.text for name, rule in DIFF_RULES.items()},
        "changes": {
            f"{older.id} {newer.id}": [_change(each) for each in compare(older, newer)]
            for older, newer in combinations(revisions, 2)
        },
    }


def _revision(revision: Revision, records: dict[str, int]) -> dict[str, Any]:
    types = {
        name: records.setdefault(json.dumps(_record(name, revision)), len(records)) for name in sorted(revision.types)
    }
    return {"id": revision.id, "lifecycle": revision.lifecycle.style, "types": types}


def _record(name: str, revision: Revision) -> dict[str, Any]:
    each = revision.types[name]
    said: dict[str, Any] = {"doc": each.doc, "deprecated": each.deprecated}
    if isinstance(each, Object):
        return said | {"extends": list(each.extends), "fields": [_field(field) for field in each.fields]}
    return said | {"type": list(_written(each.type))}


def _field(field: Field) -> dict[str, Any]:
    return {
        "name": field.wire,
        "type": list(_written(field.type)),
        "required": field.required,
        "doc": field.doc,
        "deprecated": field.deprecated,
    }


def _written(type: Type) -> Iterator[str | dict[str, str]]:
    """A type in the manner of schema.ts, with the names of other types apart."""
    match type:
        case Ref(name):
            yield {"ref": name}
        case Array(items, max_items):
            wide = isinstance(items, Union)
            yield from ["("] if wide else []
            yield from _written(items)
            yield (")[]" if wide else "[]") + (f" (≤ {max_items})" if max_items is not None else "")
        case Map(values):
            yield "{ [key]: "
            yield from _written(values)
            yield " }"
        case Union(arms):
            for at, arm in enumerate(arms):
                yield from [" | "] if at else []
                yield from _written(arm)
        case _:
            yield show(type)


def _methods(revisions: Sequence[Revision]) -> list[dict[str, Any]]:
    """Each method of each side, in the order of the oldest revision that has it, with what each revision says of it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for revision in revisions:
        for row in revision.methods:
            of = found.setdefault((row.direction, row.method), {"method": row.method, "in": {}})
            of |= {"from": _SIDES[row.direction], "kind": row.kind.replace("_", " "), "doc": row.doc}
            of["in"][revision.id] = _row(row)
    return list(found.values())


def _row(row: Method) -> dict[str, Any]:
    return {
        "message": row.type,
        "params": row.params,
        "optional": row.params is not None and not row.params_required,
        "result": row.result,
        "interim": [interim.type for interim in row.interim],
        "capability": row.capability,
        "deprecated": row.deprecated,
    }


def _change(change: DiffChange) -> list[str]:
    sides = [str(change.client), str(change.server)]
    return [change.rule, change.at, change.before, change.after, *sides, change.removable]
