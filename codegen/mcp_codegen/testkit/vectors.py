"""Test vectors: instances of all messages of a revision, each with the verdict of the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ..importer.schema_references import Schema
from ..json_types import Json
from ..model.ir import Revision
from .instances import InstanceGenerator
from .messages import MessageFactory

_TRIES: Final = 50  # Mutations to try for each invalid instance.


def vectors(revision: Revision, normalized: Schema, seed: int, count: int) -> dict[str, Any]:
    """Return `count` valid and `count` invalid instances of every message and every result."""
    validator = MessageFactory(revision, normalized, seed)
    generator = InstanceGenerator(normalized["$defs"], seed)
    result: list[dict[str, Any]] = []
    for part in _parts(revision):
        name = part["type"]
        valid = _different((generator.valid(name) for _ in range(count * _TRIES)), count)
        mutants = (generator.mutated(valid[index % len(valid)]) for index in range(count * _TRIES))
        invalid = _different(
            (mutant for mutant in mutants if validator.first_violation(name, mutant) is not None), count
        )
        result += [part | {"valid": True, "instance": instance} for instance in valid]
        result += [part | {"valid": False, "instance": instance} for instance in invalid]
    return {"revision": revision.id, "sha256": revision.sha256, "seed": seed, "vectors": result}


def _parts(revision: Revision) -> Iterator[dict[str, str]]:
    for row in revision.methods:
        origin = {"method": row.method, "from": row.direction.partition("_")[0]}
        yield {**origin, "part": "notification" if row.kind == "notification" else "request", "type": row.type}
        if row.result is not None:
            yield {**origin, "part": "result", "type": row.result}


def _different(instances: Iterator[Json], limit: int) -> list[Json]:
    """Return the first `limit` instances that differ from each other."""
    distinct: dict[str, Json] = {}
    for instance in instances:
        distinct.setdefault(json.dumps(instance, sort_keys=True), instance)
        if len(distinct) == limit:
            break
    return list(distinct.values())
