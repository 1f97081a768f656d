"""The command `extension`: a published schema goes in and becomes our edition of it, or is compared with the one there is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Final

import click

from ..catalog import SchemaCatalog
from ..errors import CodegenError, SchemaError
from ..extensions.catalog import mounted_on, read_own
from ..extensions.manifest import Manifest, read_manifest
from ..extensions.mount import Mounted
from ..importer.normalize import Schema
from ..importer.official import differences
from ..importer.pins import digest
from ..json_types import is_object
from ..output import write_files
from .options import DIFFERENT, open_schemas, report_errors, schema_option

_FROM: Final = click.Path(path_type=Path, exists=True)
_from_option: Final = click.option(
    "--from",
    "source",
    type=_FROM,
    required=True,
    metavar="PATH",
    help="A checkout of the extension's repository, an unpacked package of it, or its schema file alone.",
)


@click.group(short_help="Bring in schemas of extensions.")
def extension() -> None:
    """Schemas of extensions: bring one in, or see whether it has moved.

    Begin with schema/extensions/NAME/manifest.toml, which says what no schema of an extension does.
    """


@extension.command("import", short_help="Bring in the schema of an extension.")
@click.argument("name")
@_from_option
@click.option("--commit", metavar="SHA", help="The commit or the version of the file. Default: what PATH says it is.")
@schema_option
@report_errors
def import_extension(name: str, source: Path, commit: str | None, schema: Path | None) -> None:
    """Bring in the schema of the extension NAME.

    Our edition of it is written once it is mounted without a contradiction.
    """
    schemas = open_schemas(schema)
    manifest = _manifest(schemas, name)
    path = _file(source, manifest)
    own = _edition(path, manifest, schemas)
    made = mounted_on(schemas, manifest, own)
    version = commit or _version(source)
    if not version:
        raise CodegenError(f"{source}: does not say of which version it is, so say it with --commit")
    folder = schemas.root / "extensions" / name
    pins = _pins(manifest, version, {manifest.schema: digest(path.read_bytes())})
    text = json.dumps(own, indent=1, ensure_ascii=False) + "\n"
    changed = write_files({folder / "schema.json": text, folder / "pins.toml": pins})
    click.echo(f"{name}: {_summary(made, own)}; {'written' if changed else 'unchanged'}")
    click.echo(f"to generate it: mcp-codegen --revision {manifest.base}")


@extension.command("verify", short_help="See whether an extension has moved.")
@click.argument("name")
@_from_option
@schema_option
@report_errors
def verify_extension(name: str, source: Path, schema: Path | None) -> None:
    """Say whether the extension NAME has moved.

    Our edition is compared with what is published now. Exit code 1 if they differ.
    """
    schemas = open_schemas(schema)
    manifest = _manifest(schemas, name)
    folder = schemas.root / "extensions" / name
    _, ours = read_own(folder / "schema.json")
    lines: list[str] = []
    files = _pinned(folder / "pins.toml")
    for file, sha256 in files.items():
        path = source if source.is_file() else source / file
        if not path.is_file():
            raise CodegenError(f"{path}: is not there, and {name} was made from it")
        if file == manifest.schema:
            lines += differences(ours["$defs"], _edition(path, manifest, schemas)["$defs"])
        if not lines and digest(path.read_bytes()) != sha256:
            lines.append(f"{file}: other bytes than the pinned ones" + ", same" * (file == manifest.schema))
    verdict = click.style("moved", fg="red") if lines else click.style("equal", fg="green")
    click.echo(f"{name}: {verdict}, {len(ours['$defs'])} definitions")
    for line in lines:
        click.echo(f"  {line}")
    if lines:
        raise SystemExit(DIFFERENT)


@extension.command("list", short_help="Show the extensions there are.")
@schema_option
@report_errors
def list_extensions(schema: Path | None) -> None:
    """Show the extensions: what they are mounted on, and what they add."""
    schemas = open_schemas(schema)
    for path in sorted(schemas.root.glob("extensions/*/manifest.toml")):
        manifest = read_manifest(path)
        _, own = read_own(path.parent / "schema.json")
        made = mounted_on(schemas, manifest, own)
        click.echo(f"{click.style(manifest.name, bold=True)} ({manifest.identifier}): {_summary(made, own)}")


def _manifest(schemas: SchemaCatalog, name: str) -> Manifest:
    path = schemas.root / "extensions" / name / "manifest.toml"
    if not path.is_file():
        known = ", ".join(each.parent.name for each in sorted(schemas.root.glob("extensions/*/manifest.toml")))
        raise CodegenError(
            f"{path}: is not there; an extension begins with a manifest, at least its identifier and base, the revision "
            f"it is mounted on (there are {known or 'none yet'})"
        )
    manifest = read_manifest(path)
    schemas.known(manifest.base)
    return manifest


def _file(source: Path, manifest: Manifest) -> Path:
    path = source if source.is_file() else source / manifest.schema
    if not path.is_file():
        raise CodegenError(f"{path}: is not there; the manifest of {manifest.name} says that its schema is")
    return path


def _edition(path: Path, manifest: Manifest, schemas: SchemaCatalog) -> Schema:
    """Our edition of a schema.ts, or of a schema.json in which every reference is written out."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ts":
            from ..extensions.importer import extension_schema  # Loads tree-sitter.

            return extension_schema(text, manifest.name)
        published = json.loads(text)
    except (OSError, ValueError, RecursionError) as fault:
        raise SchemaError(f"{path}: cannot be read as the schema of an extension: {fault}") from fault
    if not is_object(published):
        raise SchemaError(f"{path}: is not a schema but {type(published).__name__}")
    from ..extensions.dereference import dereferenced_schema

    return dereferenced_schema(published, manifest.name, schemas.normalized(manifest.base)[0])


def _version(source: Path) -> str:
    """The commit that a checkout is at, or the version of a package."""
    from ..importer.importer import commit_of

    package = source / "package.json"
    if package.is_file():
        try:
            return str(json.loads(package.read_text(encoding="utf-8")).get("version", ""))
        except (OSError, ValueError, AttributeError) as fault:
            raise CodegenError(f"{package}: cannot be read: {fault}") from fault
    return commit_of(source if source.is_dir() else source.parent)


def _pins(manifest: Manifest, version: str, sha256: dict[str, str]) -> str:
    said = [("source", manifest.source), ("commit", version)]
    lines = [
        f"# What our edition of {manifest.name} was made from.",
        *(f"{key} = {json.dumps(of)}" for key, of in said),
    ]
    return (
        "\n".join([*lines, "", "[sha256]", *(f"{json.dumps(key)} = {json.dumps(of)}" for key, of in sha256.items())])
        + "\n"
    )


def _pinned(path: Path) -> dict[str, str]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("sha256")
    except (OSError, ValueError) as fault:
        raise SchemaError(f"{path}: cannot be read as pins: {fault}") from fault
    if not is_object(found) or not found:
        raise SchemaError(f"{path}: pins no file")
    return {str(name): str(sha256) for name, sha256 in found.items()}


def _summary(made: Mounted, own: Schema) -> str:
    base = {row.method for row in made.base.methods}
    rows = (
        made.revision.methods
        if made.manifest.sides
        else [row for row in made.revision.methods if row.method not in base]
    )
    talk = (
        f"{len(rows)} message{'s' * (len(rows) != 1)} between {made.revision.client} and {made.revision.server}"
        if rows
        else "documents alone"
    )
    imported = f"{len(own['$defs'])} definitions, {len(own.get('x-imports', ()))} of the core by name"
    return f"{imported}; on {made.base.id}, {talk}"
