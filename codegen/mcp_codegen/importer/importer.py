"""The import of a revision: official schema.ts and schema.json are proven to agree and become the normalized schema.

The proof: the output of the official tool is computed from the normalized schema, and compared with the published one
definition by definition. So reading schema.ts lost nothing and added nothing. Descriptions and order are ignored."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import jsonschema
from jsonschema import Draft202012Validator

from ..errors import Finding, SchemaError, is_list, is_object
from ..output import read_file
from ..paths import Pins, digest
from .normalize import normalize
from .references import REF, Schema, circular, objects, references, schema_text, without_texts
from .syntax import DOC, MARKS
from .typescript import parse

SOURCE: Final = "https://github.com/modelcontextprotocol/modelcontextprotocol"
_FILES: Final = ("schema.ts", "schema.json")
_REMEDY: Final = "correct one of the two files"
_MAX_BYTES: Final = 16 << 20  # The official files have less than one MiB.

_ANNOTATIONS: Final = (
    *MARKS,
    DOC,
    "x-extends",
    "x-omits",
    "x-open",
    "x-known",
    "x-inline",
    "x-constant",
    "x-category",
    "x-internal",
    "deprecated",
)
_SCHEMAS: Final = 1_000  # Schemas that are written, counted wherever they are repeated.
_REPEATED: Final = 10  # So many more for each schema that is not repeated; the official ones have 1 to 2.


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


# The structure of an official schema.json, computed from the normalized schema and compared with the published one.


def as_official(normalized: Schema) -> Schema:
    """Return the definitions as the official schema.json has them, in canonical order. Raises SchemaError if types are
    inside of each other, or repeat each other, beyond the limit."""
    definitions: Schema = normalized["$defs"]
    form = _OfficialForm(definitions)
    try:
        return {name: canonical(form.of(schema)) for name, schema in definitions.items()}
    except RecursionError:
        raise SchemaError("types are inside of each other beyond the limit; name the inner ones") from None


def generic_names(normalized: Schema) -> list[str]:
    """Return the names that only the official schema.json defines: generic aliases, and their parameters."""
    generic: dict[str, list[str]] = normalized.get("x-generic", {})
    return [name for alias, parameters in generic.items() for name in (alias, *parameters)]


def published(official: Schema, omitted: Collection[str] = ()) -> Schema:
    """Return the definitions of an official schema.json (of any dialect), but those with `omitted` names, without
    descriptions and titles, in canonical order."""
    text = json.dumps(official.get("$defs") or official.get("definitions") or {})
    definitions: Schema = json.loads(text.replace("#/definitions/", REF))
    records = {REF + quote(name, safe): definitions[name] for name in definitions if "<" in name for safe in ("", name)}
    return {
        name: canonical(_with_records(without_prose(schema), records))
        for name, schema in definitions.items()
        if "<" not in name and name not in omitted
    }


def _with_records(schema: Any, records: Schema) -> Any:
    """Return a schema with the definitions of `Record<K, V>` at their places, which some versions of the official tool
    name by their type."""
    if is_object(schema):
        target = records.get(str(schema.get("$ref")))
        if target is not None:
            return without_prose(target)
        return {key: _with_records(value, records) for key, value in schema.items()}
    return [_with_records(item, records) for item in schema] if is_list(schema) else schema


def canonical(schema: Any, key: str = "") -> Any:
    """Return the schema with keys, and lists whose order has no meaning, sorted."""
    if is_object(schema):
        return {name: canonical(schema[name], name) for name in sorted(schema)}
    if is_list(schema):
        items = [canonical(item) for item in schema]
        return sorted(items, key=json.dumps) if key in ("required", "enum", "anyOf", "type") else items
    return schema


def differences(normalized: Schema, official: Schema) -> list[str]:
    """Return one line for each definition that only one side has or that differs, with the first place of
    difference."""
    lines = [f"{name}: only in the normalized schema" for name in sorted(normalized.keys() - official.keys())]
    lines += [f"{name}: missing from the normalized schema" for name in sorted(official.keys() - normalized.keys())]
    for name in sorted(normalized.keys() & official.keys()):
        alias = str(normalized[name].get("$ref")).removeprefix(REF) if is_object(normalized[name]) else ""
        # The official tool writes an alias of a single message as a copy of that message.
        if official[name] not in (normalized[name], normalized.get(alias, normalized[name])):
            lines.append(_first_difference(normalized[name], official[name], name))
    return lines


def _first_difference(normalized: Any, official: Any, at: str) -> str:
    if is_object(normalized) and is_object(official) and normalized.keys() == official.keys():
        return next(
            _first_difference(normalized[key], official[key], f"{at}.{key}")
            for key in normalized
            if normalized[key] != official[key]
        )
    if is_list(normalized) and is_list(official) and len(normalized) == len(official):
        return next(
            _first_difference(item, official_item, f"{at}.{index}")
            for index, (item, official_item) in enumerate(zip(normalized, official, strict=True))
            if item != official_item
        )
    return f"{at}: the normalized schema has {_short(normalized)}, the official schema has {_short(official)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else text[:157] + "…"


def without_prose(schema: Any) -> Any:
    """Return the schema without descriptions, titles and tags; a property with such a name stays."""
    if is_object(schema):
        return {
            key: without_prose(value)
            for key, value in schema.items()
            if not (key in ("description", "title", *MARKS) and isinstance(value, str))
        }
    return [without_prose(item) for item in schema] if is_list(schema) else schema


class _OfficialForm:
    """Schemas as the official tool writes them: it repeats aliases, and the arms of unions, wherever they are used."""

    def __init__(self, definitions: Schema) -> None:
        self._definitions = definitions
        self._remaining = _SCHEMAS + _REPEATED * sum(1 for _ in objects(definitions))
        erased = {name: references(schema) for name, schema in definitions.items() if _is_erased(schema)}
        self._recursive = circular(erased)

    def of(self, schema: Schema) -> Schema:
        """Return a schema as the official tool writes it."""
        official = schema.get("x-official")
        if is_object(official):
            return self.of(official)
        schema = self._distributed(schema)
        if "enum" in schema:
            further = {key: value for key, value in _bare(schema).items() if key not in ("type", "enum")}
            return _enumeration(schema["enum"]) | further
        written = {key: value for key, value in schema.items() if key not in (*_ANNOTATIONS, "anyOf")}
        reduced = {key: self._reduce_key(key, value) for key, value in written.items()}
        if "anyOf" in schema:
            return self._reduce_union(schema["anyOf"]) | reduced
        if reduced == {"type": "object", "additionalProperties": True}:
            reduced["properties"] = {}  # The official tool writes this for `object`.
        name = str(reduced.get("$ref")).removeprefix(REF)
        target = self._definitions.get(name)
        if target is not None and _is_erased(target) and name not in self._recursive:
            return self.of(target) | {key: reduced[key] for key in reduced if key != "$ref"}
        return reduced

    def _count(self) -> None:
        """Raise SchemaError if types repeat each other so often that writing them might never end."""
        self._remaining -= 1
        if self._remaining < 0:
            raise SchemaError(
                "aliases and unions repeat each other beyond the limit; write the inner ones as interfaces"
            )

    def _distributed(self, schema: Schema) -> Schema:
        """Return `A & (B | C)` as `A & B | A & C`, and `A & (B & C)` as `A & B & C`, as the official tool writes them.

        Any other schema is returned as it is.
        """
        self._count()
        if "allOf" not in schema:
            return schema
        parts = self._parts(schema["allOf"])
        schema = {**schema, "allOf": parts}
        for place, part in enumerate(parts):
            arms = self._arms(part)
            if arms:
                rest = {key: value for key, value in schema.items() if key != "allOf"}
                variants = ([*parts[:place], arm, *parts[place + 1 :]] for arm in arms)
                return rest | {"anyOf": [self._distributed({"allOf": variant}) for variant in variants]}
        return schema

    def _parts(self, written: list[Schema]) -> list[Schema]:
        """Return the parts of an intersection, also those of its parts with a name."""
        parts: list[Schema] = []
        for part in written:
            self._count()
            target = self._definitions.get(str(part.get("$ref")).removeprefix(REF), {})
            parts += self._parts(target["allOf"]) if "allOf" in target else [part]
        return parts

    def _arms(self, schema: Schema) -> list[Schema]:
        """Return the arms of a union, also of one with a name; nothing for another type."""
        while "$ref" in schema:
            self._count()
            schema = self._definitions.get(str(schema["$ref"]).removeprefix(REF), {})
        schema = self._distributed(schema)
        return [inner for arm in schema.get("anyOf", ()) for inner in self._arms(arm) or [arm]]

    def _reduce_key(self, key: str, value: Any) -> Any:
        match key:
            case "properties" | "patternProperties":
                return {name: self.of(schema) for name, schema in value.items()}
            case "items" | "additionalProperties" | "additionalItems" if is_object(value):
                return self.of(value)
            case "items" | "allOf":
                return [self.of(schema) for schema in value]
            case _:
                return value

    def _reduce_union(self, arms: list[Schema]) -> Schema:
        """Return the union as the official tool writes it: flat, without duplicates, and without null.

        The values are in one arm, and the plain types in another one.
        """
        arms = [arm for arm in arms if arm.get("x-official") is not False]
        if len(arms) == 1:
            return self.of(arms[0])
        distinct = {json.dumps(schema, sort_keys=True): schema for arm in arms for schema in self._flatten(arm)}
        flat = [*distinct.values()]
        kinds = [schema["type"] for schema in flat if _is_plain(schema)]
        literals = [value for schema in flat for value in _values(schema) if _kind(value) not in kinds]
        if _is_boolean(literals):
            kinds, literals = [*kinds, "boolean"], []
        rest = [schema for schema in flat if not _is_plain(schema) and not _values(schema)]
        rest += [_enumeration(literals)] if literals else []
        rest += [{"type": kinds if len(kinds) > 1 else kinds[0]}] if kinds else []
        return rest[0] if len(rest) == 1 else {"anyOf": rest}

    def _flatten(self, arm: Schema) -> list[Schema]:
        target = self._distributed(self._definitions.get(str(arm.get("$ref")).removeprefix(REF), arm))
        if "anyOf" in target:
            return [
                schema
                for inner in target["anyOf"]
                if inner.get("x-official") is not False
                for schema in self._flatten(inner)
            ]
        if is_list(target.get("type")) and "enum" not in target:
            return [{"type": kind} for kind in target["type"]]
        if values := _values(_bare(target)):
            return [{"const": value, "type": _kind(value)} for value in values]
        return [self.of(arm)]


def _is_erased(target: Schema) -> bool:
    """Return True for an alias of a plain type, an array or another name: the official tool inlines these at each
    use."""
    if "$ref" in target or "x-inline" in target:
        return True
    return target.get("type") in ("string", "integer", "boolean", "array") and "enum" not in target


def _enumeration(literals: list[Any]) -> Schema:
    """Return values as the official tool writes them: with a type if all have the same one; `integer` is `number`."""
    if _is_boolean(literals):
        return {"type": "boolean"}
    kinds = {_kind(value) for value in literals}
    kind = kinds.pop() if len(kinds) == 1 else None
    written: Schema = {"enum": literals} if len(literals) > 1 else {"const": literals[0]}
    return written if kind is None else {**written, "type": "number" if kind == "integer" else kind}


def _is_plain(schema: Schema) -> bool:
    return schema.keys() == {"type"} and schema["type"] != "object"


def _values(schema: Schema) -> list[Any]:
    """Return the values of a constant or of several."""
    if not schema.keys() <= {"type", "const", "enum"}:
        return []
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _is_boolean(literals: list[Any]) -> bool:
    """Return True for `true` and `false` together."""
    return len(literals) == 2 and all(isinstance(value, bool) for value in literals)


def _kind(value: Any) -> str:
    return "string" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "integer"


def _bare(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key not in (*_ANNOTATIONS, "description")}
