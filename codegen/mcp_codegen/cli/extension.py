"""The commands `extension import`, `verify` and `list`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from ..catalog import SchemaCatalog
from ..errors import CodegenError, SchemaError, is_object
from ..extensions.manifest import Manifest, check_name, read_manifest, written_extension
from ..extensions.mount import MountedExtension, mount_on_base, read_extension_schema
from ..extensions.schemas import dereferenced_schema, extension_schema
from ..importer.importer import commit_of, differences
from ..importer.references import Schema, schema_text, without_texts
from ..model.types import without_covered_texts
from ..output import plain, write_folder
from ..paths import digest, read_toml
from ..servers.probe import own_methods
from ..testkit.processes import joined_command
from .options import DIFFERENT, Place, open_schemas, report_errors, schema_option

_FROM: Final = Place(exists=True)
_from_option: Final = click.option(
    "--from",
    "source",
    type=_FROM,
    required=True,
    metavar="PATH",
    help="A checkout of the extension's repository, its unpacked package, or its schema file.",
)


@click.group(short_help="Import schemas of extensions.")
def extension() -> None:
    """Import the schema of an extension, or check if it has changed.

    Begin with schema/extensions/NAME/manifest.toml, which has what the schema of an extension does not state.
    """


@extension.command("import", short_help="Import the schema of an extension.")
@click.argument("name")
@_from_option
@click.option("--commit", metavar="SHA", help="The commit or the version of the file. Default: that of PATH.")
@schema_option
@report_errors
def import_extension(name: str, source: Path, commit: str | None, schema: Path | None) -> None:
    """Import the schema of the extension NAME.

    The normalized schema is written if it can be mounted without a contradiction.
    """
    schemas = open_schemas(schema)
    manifest = _manifest(schemas, name)
    path = _file(source, manifest)
    normalized = _normalized(path, manifest, schemas)
    mounted = mount_on_base(schemas, manifest, normalized)
    version = commit or _version(source)
    if not version:
        raise CodegenError(f"{source}: has no commit or version; pass it with --commit")
    folder = schemas.root / "extensions" / name
    pins = _pins(manifest, version, {manifest.schema: digest(path.read_bytes())})
    text = schema_text(without_covered_texts(normalized, mounted.revision.types))
    changed = write_folder(folder, {folder / "schema.json": text, folder / "pins.toml": pins})
    click.echo(f"{name}: {_summary(mounted, normalized)}; {'written' if changed else 'unchanged'}")
    where = f" --schema {joined_command([str(schema)])}" if schema is not None else ""
    click.echo(f"to generate it: mcp-codegen --revision {manifest.base}{where}")


@extension.command("from-app", short_help="Write the extension of an app's own methods.")
@click.argument("name")
@click.argument("server", type=_FROM)
@click.option(
    "--identifier", metavar="ID", help="The key of the extension in capabilities. Default: of the first method."
)
@click.option("--to", "folder", type=Place(), default=".", help="Where to write the folder NAME.")
@report_errors
def write_extension(name: str, server: Path, identifier: str | None, folder: Path) -> None:
    """Write the manifest and the schema of an extension NAME: the methods of the app in the file SERVER.

    They are those with @app.method. The file is run in a process of its own.
    """
    check_name(name)
    described = own_methods(server)
    key = identifier or next((method["method"] for method in described["methods"]), name)
    manifest, schema = written_extension(described, key)
    target = folder / name
    text = json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
    write_folder(target, {target / "manifest.toml": manifest, target / "schema.json": text})
    click.echo(f"{name}: {len(described['methods'])} methods; written to {target}")
    click.echo(f"to generate it: copy manifest.toml to schema/extensions/{name}, then")
    click.echo(f"  mcp-codegen extension import {name} --from {target} --commit VERSION")


@extension.command("verify", short_help="Check if an extension has changed.")
@click.argument("name")
@_from_option
@schema_option
@report_errors
def verify_extension(name: str, source: Path, schema: Path | None) -> None:
    """Check if the extension NAME has changed.

    The normalized schema is compared with the published one. Exit code 1 if they differ.
    """
    schemas = open_schemas(schema)
    manifest = _manifest(schemas, name)
    folder = schemas.root / "extensions" / name
    _, normalized = read_extension_schema(folder / "schema.json")
    lines: list[str] = []
    files = _pinned(folder / "pins.toml")
    for file, sha256 in files.items():
        path = source if source.is_file() else source / file
        if not path.is_file():
            raise CodegenError(f"{path}: does not exist, and {name} was made from it; pass the folder that has it")
        if file == manifest.schema:
            current = _normalized(path, manifest, schemas)
            lines += differences(without_texts(normalized["$defs"]), without_texts(current["$defs"]))
        if not lines and digest(path.read_bytes()) != sha256:
            lines.append(
                f"{file}: the bytes differ from the pinned sha256"
                + ", the structure is the same" * (file == manifest.schema)
            )
    verdict = click.style("changed", fg="red") if lines else click.style("equal", fg="green")
    click.echo(f"{name}: {verdict}, {len(normalized['$defs'])} definitions")
    for line in lines:
        click.echo(f"  {plain(line)}")
    if lines:
        raise SystemExit(DIFFERENT)


@extension.command("list", short_help="List the extensions.")
@schema_option
@report_errors
def list_extensions(schema: Path | None) -> None:
    """List the extensions: the revision they are mounted on, and what they add."""
    schemas = open_schemas(schema)
    for path in sorted(schemas.root.glob("extensions/*/manifest.toml")):
        manifest = read_manifest(path)
        _, normalized = read_extension_schema(path.parent / "schema.json")
        mounted = mount_on_base(schemas, manifest, normalized)
        click.echo(f"{click.style(manifest.name, bold=True)} ({manifest.identifier}): {_summary(mounted, normalized)}")


def _manifest(schemas: SchemaCatalog, name: str) -> Manifest:
    path = schemas.root / "extensions" / check_name(name) / "manifest.toml"
    if not path.is_file():
        names = ", ".join(item.parent.name for item in sorted(schemas.root.glob("extensions/*/manifest.toml")))
        raise CodegenError(
            f"{path}: does not exist; write the manifest first, at least `identifier` and `base`, the revision "
            f"it is mounted on (existing extensions: {names or 'none'})"
        )
    manifest = read_manifest(path)
    schemas.require_revision(manifest.base)
    return manifest


def _file(source: Path, manifest: Manifest) -> Path:
    path = source if source.is_file() else source / manifest.schema
    if not path.is_file():
        raise CodegenError(
            f"{path}: does not exist, but is the `schema` of the manifest of {manifest.name}; correct one of them"
        )
    return path


def _normalized(path: Path, manifest: Manifest, schemas: SchemaCatalog) -> Schema:
    """Return the normalized schema of a schema.ts, or of a schema.json in which every reference is written out."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ts":
            return extension_schema(text, manifest.name)
        published = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: cannot be read as the schema of an extension: {error}") from error
    if not is_object(published):
        raise SchemaError(f"{path}: must be a JSON object, not {type(published).__name__}")

    return dereferenced_schema(published, manifest.name, schemas.normalized(manifest.base)[0])


def _version(source: Path) -> str:
    """Return the commit of a checkout, or the version of a package."""
    package = source / "package.json"
    if package.is_file():
        try:
            return str(json.loads(package.read_text(encoding="utf-8")).get("version", ""))
        except (OSError, ValueError, AttributeError) as error:
            raise CodegenError(f"{package}: cannot be read: {error}") from error
    return commit_of(source if source.is_dir() else source.parent)


def _pins(manifest: Manifest, version: str, sha256: dict[str, str]) -> str:
    values = [("source", manifest.source), ("commit", version)]
    lines = [
        f"# The sources of the normalized schema of {manifest.name}.",
        *(f"{key} = {json.dumps(value)}" for key, value in values),
    ]
    return (
        "\n".join(
            [*lines, "", "[sha256]", *(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in sha256.items())]
        )
        + "\n"
    )


def _pinned(path: Path) -> dict[str, str]:
    pins = read_toml(path, " as pins", SchemaError).get("sha256")
    if not is_object(pins) or not pins:
        raise SchemaError(f"{path}: needs [sha256] with at least one file; import the extension again")
    return {str(name): str(sha256) for name, sha256 in pins.items()}


def _summary(mounted: MountedExtension, normalized: Schema) -> str:
    base_methods = {row.method for row in mounted.base.methods}
    rows = (
        mounted.revision.methods
        if mounted.manifest.sides
        else [row for row in mounted.revision.methods if row.method not in base_methods]
    )
    messages = (
        f"{len(rows)} message{'s' * (len(rows) != 1)} between {mounted.revision.client} and {mounted.revision.server}"
        if rows
        else "types only"
    )
    definitions = f"{len(normalized['$defs'])} definitions, {len(normalized.get('x-imports', ()))} of the core by name"
    return f"{definitions}; on {mounted.base.id}, {messages}"
