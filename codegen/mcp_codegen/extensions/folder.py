"""A folder of schemas goes in, its extensions come out, each mounted on its revision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..docs import Docs, read_docs
from ..errors import SchemaError
from ..jsontypes import is_object
from ..pins import digest
from ..schemas import Schemas
from .manifest import read_manifest
from .mount import Mounted, mount


def extensions(schemas: Schemas, revision: str) -> Iterator[tuple[Mounted, str]]:
    """The extensions of `schema/extensions/` that are mounted on this revision, each with the sha256 of its schema."""
    for path in sorted(schemas.root.glob("extensions/*/manifest.toml")):
        manifest = read_manifest(path)
        schemas.known(manifest.base)
        if manifest.base == revision:
            data, own = _read(path.parent / "schema.json")
            core, _ = schemas.edition(revision)
            mine, docs = read_docs(path.parent / "docs.toml"), schemas.docs
            both = Docs(docs.types | mine.types, docs.properties | mine.properties)
            try:
                mounted = mount(manifest, own, core, schemas.revision(revision), schemas.overlay, both)
            except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as fault:
                # As for a revision: whatever the schema breaks, it gets one clear line.
                raise SchemaError(f"{manifest.name}: the schema is not of the form read here: {fault!r}") from fault
            yield mounted, digest(data)


def _read(path: Path) -> tuple[bytes, dict[str, Any]]:
    try:
        data = path.read_bytes()
        schema = json.loads(data)
    except (OSError, ValueError, RecursionError) as fault:
        raise SchemaError(f"{path}: cannot be read as the schema of an extension: {fault}") from fault
    if not is_object(schema) or not is_object(schema.get("$defs")):
        raise SchemaError(f"{path}: has no definitions under $defs")
    return data, schema
