"""A revision goes in; instances of all its messages come out, each with the verdict that the schema gives it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ..importer.normalize import Schema
from ..model.ir import Revision
from .instances import Instances, Json
from .messages import Messages

_TRIES: Final = 50  # Mutations that are tried for each invalid instance that is wanted.


def vectors(revision: Revision, edition: Schema, seed: int, each: int) -> dict[str, Any]:
    """For every message, and for every result, so many valid and so many invalid instances."""
    judge = Messages(revision, edition, seed)
    made = Instances(edition["$defs"], seed)
    found: list[dict[str, Any]] = []
    for part in _parts(revision):
        name = part["type"]
        valid = _different((made.valid(name) for _ in range(each * _TRIES)), each)
        mutants = (made.mutated(valid[at % len(valid)]) for at in range(each * _TRIES))
        invalid = _different((mutant for mutant in mutants if judge.first_violation(name, mutant) is not None), each)
        found += [part | {"valid": True, "instance": instance} for instance in valid]
        found += [part | {"valid": False, "instance": instance} for instance in invalid]
    return {"revision": revision.id, "sha256": revision.sha256, "seed": seed, "vectors": found}


def _parts(revision: Revision) -> Iterator[dict[str, str]]:
    for row in revision.methods:
        of = {"method": row.method, "from": row.direction.partition("_")[0]}
        yield {**of, "part": "notification" if row.kind == "notification" else "request", "type": row.type}
        if row.result is not None:
            yield {**of, "part": "result", "type": row.result}


def _different(instances: Iterator[Json], most: int) -> list[Json]:
    """The first instances that differ from each other, as JSON."""
    found: dict[str, Json] = {}
    for instance in instances:
        found.setdefault(json.dumps(instance, sort_keys=True), instance)
        if len(found) == most:
            break
    return list(found.values())
