"""The import of a revision: official schema.ts and schema.json are proven to agree and become the normalized schema."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jsonschema
from jsonschema import Draft202012Validator

from ..errors import Finding, SchemaError, is_object
from ..output import read_file
from ..paths import Pins, digest
from .normalize import normalize
from .official import as_official, differences, generic_names, published
from .references import Schema, schema_text, without_texts
from .typescript import parse

SOURCE: Final = "https://github.com/modelcontextprotocol/modelcontextprotocol"
_FILES: Final = ("schema.ts", "schema.json")
_REMEDY: Final = "correct one of the two files"
_MAX_BYTES: Final = 16 << 20  # The official files have less than one MiB.


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of one import: the text of the normalized schema, its pins, and how many definitions agree."""

    schema: str
    pins: Pins
    definitions: int


def import_revision(folder: Path, revision: str, follows: str, commit: str, like: str = "") -> ImportResult:
    """Import the official files in `folder`. Raises SchemaError if schema.ts and schema.json disagree."""
    try:
        return _import(folder, revision, follows, commit, like)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        # The files are untrusted input: any error that they cause here becomes one clear line.
        raise SchemaError(
            f"{folder}: has a form that mcp-codegen cannot read: {error!r}; compare schema.ts and schema.json with "
            "those of a release"
        ) from error


def _import(folder: Path, revision: str, follows: str, commit: str, like: str) -> ImportResult:
    files = {name: _read(folder / name) for name in _FILES}
    normalized = normalize_folder(folder, revision)
    official = published(_json(files["schema.json"], folder / "schema.json"), generic_names(normalized))
    if lines := differences(as_official(normalized), official):
        findings = [
            Finding("agreement", line.split(":")[0], f"schema.ts and schema.json disagree: {line}; {_REMEDY}")
            for line in lines
        ]
        first = findings[0]
        raise SchemaError(f"{revision}: {first.text}", rule="agreement", at=first.at, more=findings[1:])
    try:
        Draft202012Validator.check_schema(normalized)
    except jsonschema.SchemaError as error:
        place = ".".join(map(str, list(error.absolute_path)[1:]))
        text = f"{revision}: schema.ts does not give valid JSON Schema: {place}: {error.message}"
        raise SchemaError(f"{text}; correct its tags and types", at=place) from error
    pins = Pins(revision, follows, SOURCE, commit, {name: digest(data) for name, data in files.items()}, like)
    return ImportResult(schema_text(normalized), pins, len(official))


def normalize_folder(folder: Path, revision: str) -> Schema:
    """Return the normalized schema of the schema.ts in a folder."""
    path = folder / "schema.ts"
    try:
        text = _read(path).decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: is not UTF-8; save it as UTF-8") from error
    return normalize(parse(text, str(path)), revision)


def read_schema_folder(folder: Path, revision: str) -> Schema:
    """Return the normalized schema of a folder: made from its schema.ts, or read from its schema.json if that is
    already normalized."""
    if (folder / "schema.ts").is_file():
        return normalize_folder(folder, revision)
    path = folder / "schema.json"
    schema = _json(_read(path), path)
    if "x-constants" not in schema:
        raise SchemaError(
            f"{folder}: has no schema.ts, and its schema.json is not a normalized schema; add the schema.ts"
        )
    return schema


def verify_revision(folder: Path, normalized: Schema, revision: str, pins: Pins) -> list[str]:
    """Return one line for each difference between a normalized schema and the official files of a folder.

    schema.json is compared structurally. If schema.ts is there too, it is normalized again, and what only schema.ts
    contains (inheritance, constants, deprecations, …) is compared as well.
    """
    official = _read(folder / "schema.json")
    lines = differences(
        as_official(normalized), published(_json(official, folder / "schema.json"), generic_names(normalized))
    )
    if (folder / "schema.ts").exists() and not lines:
        current = normalize_folder(folder, revision)
        lines = differences(without_texts(normalized["$defs"]), without_texts(current["$defs"]))
        lines += differences(normalized["x-constants"], current["x-constants"])
    for name in _FILES:
        path = folder / name
        if path.exists() and digest(_read(path)) != pins.sha256[name] and not lines:
            lines.append(f"{name}: the bytes differ from the pinned sha256, the structure is the same")
    return lines


def find_folder(root: Path, revision: str) -> Path:
    """Return the folder of a revision: in a checkout of the specification, in its schema/ folder, or `root` itself."""
    for folder in (root / "schema" / revision, root / revision, root):
        if (folder / "schema.json").is_file():
            return folder
    raise SchemaError(
        f"{root}: has no schema.json for {revision}: looked in schema/{revision}, {revision} and the "
        "folder itself; pass a checkout of the specification"
    )


def commit_of(root: Path) -> str:
    """Return the commit of a checkout, or an empty string if `root` is not one."""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _read(path: Path) -> bytes:
    try:
        return read_file(path, _MAX_BYTES)
    except OSError as error:
        raise SchemaError(f"{path}: cannot be read: {error.strerror}; pass a folder with the official files") from error


def _json(data: bytes, path: Path) -> Schema:
    try:
        schema = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: is not JSON: {error}; correct the file", at=path.name) from error
    if not is_object(schema):
        raise SchemaError(f"{path}: must be a JSON object, not {type(schema).__name__}; correct the file", at=path.name)
    return schema
