"""Drafts as the specification's repository would have them: the newest release with a change, as schema.ts and
schema.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.project import ROOT
from support.schemas.drafts import NEWEST

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.importer.importer import as_official
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse

Schema = dict[str, Any]
_TEXT_TAGS = ("format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def draft_files(*changes: Callable[[Schema], object], base: str = NEWEST) -> dict[str, str]:
    """The two official files of a draft: a release with these changes of its normalized schema."""
    schema: Schema = json.loads(json.dumps(SchemaCatalog(ROOT / "schema").normalized(base)[0]))
    for change in changes:
        change(schema)
    text = as_schema_ts(schema)
    definitions = as_official(normalize(parse(text, "schema.ts"), "draft"))
    return {"schema.ts": text, "schema.json": json.dumps({"$defs": definitions}, indent=1)}


def as_schema_ts(schema: Schema) -> str:
    """The text of a schema.ts that is read as this normalized schema."""
    constants = [f"export const {name} = {json.dumps(value)};\n" for name, value in schema["x-constants"].items()]
    return "".join([*constants, *(_declaration(name, at) for name, at in schema["$defs"].items())])


def _declaration(name: str, schema: Schema) -> str:
    is_interface = schema.get("type") == "object" and not _is_open_map(schema)
    own = {} if is_interface else schema
    tags = [*_flags(schema), *_tags(own)]
    if "x-category" in schema:
        tags.append(f"@category `{schema['x-category']}`")
    if not is_interface:
        return f"{_comment(tags)}export type {name} = {_type(schema)};\n"
    bases = list(schema.get("x-extends", ()))
    if omitted := schema.get("x-omits"):
        bases[0] = f"Omit<{bases[0]}, {' | '.join(map(json.dumps, omitted))}>"
    extends = f" extends {', '.join(bases)}" if bases else ""
    return f"{_comment(tags)}export interface {name}{extends} {_type(schema)}\n"


def _flags(schema: Schema) -> list[str]:
    return [f"@{tag}" for tag, key in (("internal", "x-internal"), ("deprecated", "deprecated")) if schema.get(key)]


def _tags(schema: Schema) -> list[str]:
    tags = [f"@{tag} {schema[tag]}" for tag in _TEXT_TAGS if tag in schema]
    is_union = any(arm.get("type") == "number" and "x-official" not in arm for arm in schema.get("anyOf", ()))
    if schema.get("type") == "number" or is_union:
        tags.append("@TJS-type number")
    if any(arm == {"type": "null"} for arm in schema.get("anyOf", ())):
        tags.append("@nullable")
    return tags


def _comment(tags: list[str]) -> str:
    return "/**\n" + "".join(f" * {tag}\n" for tag in tags) + " */\n" if tags else ""


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": reference}:
            return str(reference).rpartition("/")[2]
        case {"anyOf": arms}:
            return " | ".join(_type(arm) for arm in arms)
        case {"allOf": parts}:
            return " & ".join(_type(part) for part in parts)
        case {"x-constant": constant}:
            return f"typeof {constant}"
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"x-known": values}:
            return " | ".join([*map(json.dumps, values), "string"])
        case {"type": "array", "items": items}:
            return f"({_type(items)})[]"
        case {"type": "object"}:
            return _object(schema)
        case {"type": [*kinds]}:
            return " | ".join(map(_keyword, kinds))
        case {"type": kind}:
            return _keyword(kind)
        case _:
            return "unknown"


def _is_open_map(schema: Schema) -> bool:
    return "properties" not in schema and "x-open" in schema


def _keyword(kind: str) -> str:
    return {"integer": "number"}.get(kind, kind)


def _object(schema: Schema) -> str:
    if _is_open_map(schema):
        return "Record<string, unknown>"
    required = schema.get("required", ())
    members = [
        f"{_comment([*_flags(at), *_tags(at)])}  {json.dumps(name)}{'?' * (name not in required)}: {_type(at)};\n"
        for name, at in schema.get("properties", {}).items()
    ]
    if "additionalProperties" in schema:
        members.append(f"  [key: string]: {_type(schema['additionalProperties'])};\n")
    return "{\n" + "".join(members) + "}"
