"""A seed goes in, tools with awkward schemas come out: each odd thing once on its own, then mixed at random."""

from __future__ import annotations

import keyword
import random
from typing import Any

Json = dict[str, Any]

DIALECTS = ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
HOSTILE = [
    'x"""\nimport os\nos.system("true")\n"""',
    "x'); import os  #",
    "\\",
    "{{ 7 * 7 }}{% for a in b %}",
    "line\nline\r\u2028line",
    "\u202ereversed",
    "\x00\x1b[31m",
    "mcp-token-0",
    "__class__",
    "",
    " ",
    "ünï→çødé",
    "x" * 5000,
]
NAMES = [
    *keyword.kwlist,
    *keyword.softkwlist,
    *("self", "options", "list", "dict", "str", "int", "float", "bool", "object", "None", "arguments", "more", "name"),
    *("model_config", "model_dump", "schema", "json", "copy", "Any", "Literal", "Options", "ResultT", "structured"),
    *("a-b", "a_b", "a b", "aB", "AB", "9lives", "$ref", "_hidden", "__init__", "x.y/z", "@type"),
    *HOSTILE,
]
SIMPLE: list[Json] = [
    {"type": "string"},
    {"type": "string", "format": "date-time", "default": "2026-01-01"},
    {"type": "string", "format": "uri", "pattern": "^https://"},
    {"type": "integer", "minimum": 1, "exclusiveMaximum": 10, "default": 3},
    {"type": "number", "default": 1.5, "multipleOf": 0.5},
    {"type": "number", "default": 1e400},
    {"type": "boolean", "default": True},
    {"type": "null"},
    {"type": ["string", "null"]},
    {"type": ["integer", "string", "array"], "items": {"type": "string"}},
    {"enum": ["a", "b", 'c"""', 1, True, None]},
    {"enum": [1.5, 2]},
    {"enum": []},
    {"const": "only"},
    {"const": None},
    {"type": "array"},
    {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
    {"type": "array", "prefixItems": [{"type": "string"}], "items": False, "default": ["x"]},
    {"type": "object"},
    {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}},
    {"type": "object", "additionalProperties": False},
    {"type": "object", "patternProperties": {"^x-": {"type": "string"}}},
    {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]},
    {"oneOf": [{"type": "string"}, {"type": "null"}], "default": None},
    {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": True}}]},
    {"not": {"type": "string"}},
    {"if": {"type": "string"}, "then": {"minLength": 1}},
    {"$ref": "https://example.com/elsewhere.json"},
    {"$ref": "#/nowhere"},
    {"$ref": "#"},
    {},
    {"type": "sometype"},
    {"type": 7},
    {"default": "no type"},
    {"description": 7, "title": ["x"], "type": "string", "default": 7},
]


def tool(name: str, schema: object, output: object = None, description: str = "") -> Json:
    definition: Json = {"name": name, "inputSchema": schema, "description": description}
    return definition if output is None else definition | {"outputSchema": output}


def awkward_tools(seed: int, mixed: int = 60) -> list[Json]:
    """More than 300 tools, no two with the same name."""
    rnd = random.Random(seed)
    tools = [tool(name or "empty", {"type": "object"}) for name in dict.fromkeys(NAMES) if name]
    tools += [tool(f"property {at}", _object({name: {"type": "string"}})) for at, name in enumerate(NAMES)]
    tools += [tool(f"simple {at}", _object({"x": schema}), _object({"x": schema})) for at, schema in enumerate(SIMPLE)]
    tools += [tool(f"needed {at}", _object({"x": schema}, "x"), schema) for at, schema in enumerate(SIMPLE)]
    tools += whole()
    return [*tools, *(tool(f"mixed {at}", _mixed(rnd, 0), _mixed(rnd, 0)) for at in range(mixed))]


def whole() -> list[Json]:
    """Schemas that are odd as a whole."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}}}
    tree = {"type": "array", "items": {"$ref": "#/definitions/tree"}}
    bomb: Json = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(60)}
    deep: Json = {"type": "string"}
    lists: Json = {"type": "string"}
    for _ in range(95):
        deep, lists = _object({"in": deep}), {"type": "array", "items": lists}
    a_or_b = [_object({"a": {"type": "string"}}, "a"), _object({"b": {"type": "string"}}, "b")]
    return [
        tool(
            "recursive",
            _object({"node": {"$ref": "#/$defs/node"}}) | {"$defs": {"node": node}},
            node | {"$defs": {"node": node}},
        ),
        tool("recursive list", _object({"t": {"$ref": "#/definitions/tree"}}) | {"definitions": {"tree": tree}}),
        tool("itself", {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}}),
        tool("all of itself", {"allOf": [{"$ref": "#"}], "properties": {"a": {"$ref": "#"}}}),
        tool("bomb", _object({"x": {"$ref": "#/$defs/d0"}}) | {"$defs": bomb}),
        tool("deep", deep, deep),
        tool("deep lists", _object({"x": lists}), _object({"x": lists})),
        tool("either", {"type": "object", "oneOf": a_or_b}),
        tool("either on top", {"anyOf": a_or_b}),
        tool("many", _object({f"p{at}": {"type": "string"} for at in range(300)})),
        tool("open", _object({"a": {"type": "string"}}) | {"additionalProperties": {"type": "integer"}}),
        tool("open to all", _object({"more": {"type": "string"}}) | {"additionalProperties": True}),
        tool("closed", {"type": "object", "additionalProperties": False}),
        tool("a list", {"type": "array"}),
        tool("true", True),
        tool("none", None),
        {"name": "without a schema"},
        tool("megabyte", _object({"x": {"type": "string", "description": "a" * 1_000_000}}), None, "b c " * 250_000),
        *(
            tool(f"said {at}", _object({"x": {"type": "string", "description": text}}), None, text)
            for at, text in enumerate(HOSTILE)
        ),
        *(
            tool(f"dialect {at}", {"$schema": dialect} | _object({"x": {"type": "string"}}))
            for at, dialect in enumerate(DIALECTS)
        ),
    ]


def _object(properties: Json, *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def _mixed(rnd: random.Random, depth: int) -> Json:
    """An object of random properties, some of them objects of such."""
    properties: Json = {}
    for name in rnd.sample(NAMES, rnd.randint(0, 6)):
        deeper = depth < 3 and rnd.random() < 0.3
        schema = _mixed(rnd, depth + 1) if deeper else dict(rnd.choice(SIMPLE))
        properties[name] = schema | {"description": rnd.choice(HOSTILE)} if rnd.random() < 0.5 else schema
    return _object(properties, *[name for name in properties if rnd.random() < 0.4])
