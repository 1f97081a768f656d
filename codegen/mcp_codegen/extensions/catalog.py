"""A folder of schemas goes in, its extensions come out, each mounted on its revision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ..catalog import SchemaCatalog
from ..errors import SchemaError
from ..importer.normalize import Schema
from ..importer.pins import digest
from ..json_types import is_object
from ..model.docs import Docs, read_docs
from .manifest import Manifest, read_manifest
from .mount import Mounted, mount


def extensions(schemas: SchemaCatalog, revision: str) -> Iterator[tuple[Mounted, str]]:
    """The extensions of `schema/extensions/` that are mounted on this revision, each with the sha256 of its schema."""
    for path in sorted(schemas.root.glob("extensions/*/manifest.toml")):
        manifest = read_manifest(path)
        schemas.known(manifest.base)
        if manifest.base == revision:
            data, own = read_own(path.parent / "schema.json")
            yield mounted_on(schemas, manifest, own), digest(data)


def mounted_on(schemas: SchemaCatalog, manifest: Manifest, own: Schema) -> Mounted:
    """An extension on its revision, with the sentences of both. Raises SchemaError for what contradicts the core."""
    core, _ = schemas.normalized(schemas.known(manifest.base))
    mine, docs = read_docs(schemas.root / "extensions" / manifest.name / "docs.toml"), schemas.docs
    both = Docs(docs.types | mine.types, docs.properties | mine.properties)
    try:
        kept: Schema = own if manifest.closed == "closed" else json.loads(json.dumps(own), object_hook=_opened)
        return mount(manifest, kept, core, schemas.revision(manifest.base), schemas.overlay, both)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as fault:
        # As for a revision: whatever the schema or the manifest breaks, it gets one clear line.
        what = f"{manifest.name}: the schema or the manifest is not of the form read here: {fault!r}"
        raise SchemaError(what) from fault


def _opened(found: Schema) -> Schema:
    """An object of the schema without the word that it has no other properties."""
    return {key: value for key, value in found.items() if key != "additionalProperties" or value is not False}


def read_own(path: Path) -> tuple[bytes, Schema]:
    """Our edition of an extension's schema, as bytes and as what they say."""
    try:
        data = path.read_bytes()
        schema = json.loads(data)
    except (OSError, ValueError, RecursionError) as fault:
        raise SchemaError(f"{path}: cannot be read as the schema of an extension: {fault}") from fault
    if not is_object(schema) or not is_object(schema.get("$defs")):
        raise SchemaError(f"{path}: has no definitions under $defs")
    return data, schema
