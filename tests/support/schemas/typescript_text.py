"""A normalized schema goes in, the schema.ts and schema.json of the same definitions come out."""

from __future__ import annotations

import json
from typing import Any

from mcp_codegen.importer.importer import as_official
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse

Schema = dict[str, Any]


def as_typescript(schema: Schema) -> str:
    """The text of schema.ts: an interface for each object, a type for each union."""
    return "".join(
        (
            f"export interface {name} {_type(definition)}\n"
            if "properties" in definition
            # A union.
            else f"export type {name} = {_type(definition)};\n"
        )
        for name, definition in schema["$defs"].items()
    )


def official_files(schema: Schema) -> dict[str, str]:
    """The two files of a release."""
    text = as_typescript(schema)
    definitions = as_official(normalize(parse(text, "schema.ts"), "any"))
    return {"schema.ts": text, "schema.json": json.dumps({"$defs": definitions}, indent=1)}


def _comment(schema: Schema) -> str:
    return f"  /** {schema['x-doc']} */\n" if "x-doc" in schema else ""


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": reference}:
            return str(reference).rpartition("/")[2]
        case {"anyOf": arms}:
            return " | ".join(_type(arm) for arm in arms)
        case {"const": value}:
            return json.dumps(value)
        case {"properties": properties}:
            required = schema.get("required", ())
            members = [
                f"{_comment(at)}  {name}{'?' * (name not in required)}: {_type(at)};\n"
                for name, at in properties.items()
            ]
            return "{\n" + "".join(members) + "}"
        case _:
            return str(schema["type"]).replace("integer", "number")
