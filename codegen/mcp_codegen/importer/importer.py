"""Official schema.ts and schema.json go in, our edition and its pins come out, or a message that says where they disagree."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jsonschema
from jsonschema import Draft202012Validator

from ..errors import Finding, SchemaError
from ..json_types import is_object
from .normalize import Schema, normalize
from .official import as_official, differences, published
from .pins import Pins, digest
from .typescript import parse

SOURCE: Final = "https://github.com/modelcontextprotocol/modelcontextprotocol"
_FILES: Final = ("schema.ts", "schema.json")


@dataclass(frozen=True, slots=True)
class Imported:
    """What one import gives: the text of both files to write, and how many definitions were proven to agree."""

    schema: str
    pins: str
    definitions: int


def import_revision(folder: Path, revision: str, follows: str, commit: str, like: str = "") -> Imported:
    """Read the official files in `folder`. Raises SchemaError where schema.ts and schema.json disagree."""
    files = {name: _read(folder / name) for name in _FILES}
    ours = edition_of(folder, revision)
    theirs = published(_json(files["schema.json"], folder / "schema.json"))
    if lines := differences(as_official(ours), theirs):
        found = [
            Finding("agreement", line.split(":")[0], f"schema.ts and schema.json disagree: {line}") for line in lines
        ]
        first = found[0]
        raise SchemaError(f"{revision}: {first.text}", rule="agreement", at=first.at, more=found[1:])
    try:
        Draft202012Validator.check_schema(ours)
    except jsonschema.SchemaError as fault:
        raise SchemaError(f"{revision}: what schema.ts says is not JSON Schema: {fault.message}") from fault
    pins = Pins(revision, follows, SOURCE, commit, {name: digest(data) for name, data in files.items()}, like)
    return Imported(edition_text(ours), pins.text(), len(theirs))


def edition_of(folder: Path, revision: str) -> Schema:
    """Our edition of the schema.ts in a folder."""
    path = folder / "schema.ts"
    try:
        text = _read(path).decode()
    except UnicodeDecodeError as fault:
        raise SchemaError(f"{path}: is not UTF-8") from fault
    return normalize(parse(text, str(path)), revision)


def edition_in(folder: Path, revision: str) -> Schema:
    """The edition of a folder: made from its schema.ts, or read from its schema.json where that is an edition already."""
    if (folder / "schema.ts").is_file():
        return edition_of(folder, revision)
    path = folder / "schema.json"
    schema = _json(_read(path), path)
    if "x-constants" not in schema:
        raise SchemaError(f"{folder}: has no schema.ts, and its schema.json is not an edition of ours")
    return schema


def edition_text(schema: Schema) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def verify_revision(folder: Path, ours: Schema, revision: str, pins: Pins) -> list[str]:
    """What moved between our edition and the official files of a folder: nothing, or a line for each difference.

    schema.json is compared structure by structure; where schema.ts is there too, it is read again and what only it
    says (inheritance, constants, deprecations, …) is compared as well.
    """
    official = _read(folder / "schema.json")
    lines = differences(as_official(ours), published(_json(official, folder / "schema.json")))
    if (folder / "schema.ts").exists() and not lines:
        again = edition_of(folder, revision)
        lines = differences(ours["$defs"], again["$defs"])
        lines += differences(ours["x-constants"], again["x-constants"])
    for name in _FILES:
        path = folder / name
        if path.exists() and digest(_read(path)) != pins.sha256[name] and not lines:
            lines.append(f"{name}: other bytes than the pinned ones, with the same structure")
    return lines


def find_folder(root: Path, revision: str) -> Path:
    """The folder of a revision in a checkout of the specification, or in its schema/ folder, or `root` itself."""
    for folder in (root / "schema" / revision, root / revision, root):
        if (folder / "schema.json").is_file():
            return folder
    raise SchemaError(f"{root}: has no schema.json for {revision}, neither in schema/{revision} nor in {revision}")


def commit_of(root: Path) -> str:
    """The commit a checkout is at; empty where `root` is not one."""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise SchemaError(f"{path}: cannot be read: {fault.strerror}") from fault


def _json(data: bytes, path: Path) -> Schema:
    try:
        schema = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise SchemaError(f"{path}: is not JSON: {fault}") from fault
    if not is_object(schema):
        raise SchemaError(f"{path}: is not a schema but {type(schema).__name__}")
    return schema
