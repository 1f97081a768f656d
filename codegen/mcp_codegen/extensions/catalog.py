"""The extensions of a schema folder, each mounted on its revision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ..catalog import SchemaCatalog
from ..errors import SchemaError, is_object
from ..importer.references import Schema
from ..model.overlay import Docs, read_docs
from ..paths import digest
from .manifest import Manifest, read_manifest
from .mount import MountedExtension, mount


def mounted_extensions(schemas: SchemaCatalog, revision: str) -> Iterator[tuple[MountedExtension, str]]:
    """Yield the extensions of `schema/extensions/` that are mounted on this revision, each with the sha256 of its
    schema."""
    for path in sorted(schemas.root.glob("extensions/*/manifest.toml")):
        manifest = read_manifest(path)
        schemas.require_revision(manifest.base)
        if manifest.base == revision:
            data, schema = read_extension_schema(path.parent / "schema.json")
            yield mount_on_base(schemas, manifest, schema), digest(data)


def mount_on_base(schemas: SchemaCatalog, manifest: Manifest, schema: Schema) -> MountedExtension:
    """Return an extension mounted on its revision, with the docs of both. Raises SchemaError if it contradicts the
    core protocol."""
    core, _ = schemas.normalized(schemas.require_revision(manifest.base))
    extension_docs, core_docs = read_docs(schemas.root / "extensions" / manifest.name / "docs.toml"), schemas.docs
    docs = Docs(core_docs.types | extension_docs.types, core_docs.properties | extension_docs.properties)
    try:
        mounted_schema: Schema = (
            schema if manifest.closed == "closed" else json.loads(json.dumps(schema), object_hook=_without_closed)
        )
        return mount(manifest, mounted_schema, core, schemas.revision(manifest.base), schemas.overlay, docs)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        # As for a revision: any error that the schema or the manifest causes becomes one clear line.
        text = (
            f"{manifest.name}: the schema or the manifest has a form that mcp-codegen cannot read: "
            f"{error!r}; correct it and import it again"
        )
        raise SchemaError(text) from error


def _without_closed(schema: Schema) -> Schema:
    """Return an object of the schema without `additionalProperties: false`."""
    return {key: value for key, value in schema.items() if key != "additionalProperties" or value is not False}


def read_extension_schema(path: Path) -> tuple[bytes, Schema]:
    """Return the normalized schema of an extension: its bytes and the parsed JSON."""
    try:
        data = path.read_bytes()
        schema = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(
            f"{path}: cannot be read as the schema of an extension: {error}; import it with `mcp-codegen "
            "extension import`"
        ) from error
    if not is_object(schema) or not is_object(schema.get("$defs")):
        raise SchemaError(
            f"{path}: has no definitions under $defs; import it again with `mcp-codegen extension import`"
        )
    return data, schema
