"""The JSON Schema of a revision, made of its intermediate representation: of its types, and of what no type shows.

What no type shows are the messages of a direction, the results of a method, the capabilities that it needs, and the
heads of HTTP messages. With these schemas a validator decides whether a revision accepts a value.
"""

from __future__ import annotations

from typing import Any, Final

from ..model.ir import Alias, Array, Map, Method, Object, Plain, Ref, Revision, Type, Union, Values

Schema = dict[str, Any]

_NOTHING: Final[Schema] = {"not": {}}
_VERSION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
# What HTTP messages of a revision with a feature are like, and those of a revision without it.
_HTTP: Final[dict[str, tuple[Schema, Schema]]] = {
    "streamable": (
        {"properties": {"event": {"const": "message"}}},
        {"properties": {"event": {"const": "endpoint"}}},
    ),
    "version_header": ({"properties": {"headers": {"required": [_VERSION_HEADER]}}}, {}),
    "priming_event": ({}, {"properties": {"data": {"minLength": 1}}}),
    "resource_metadata": (
        {"properties": {"headers": {"properties": {"WWW-Authenticate": {"pattern": "resource_metadata="}}}}},
        {},
    ),
    "tool_headers": ({"properties": {"headers": {"required": ["Mcp-Param-Region"]}}}, {}),
}


def definitions(revision: Revision) -> dict[str, Schema]:
    """Return the schemas of the types, as `$defs`."""
    return {name: _definition(defined) for name, defined in revision.types.items()}


def _definition(defined: Object | Alias) -> Schema:
    if isinstance(defined, Alias):
        return type_schema(defined.type)
    schema: Schema = {
        "type": "object",
        "properties": {field.wire: type_schema(field.type) for field in defined.fields},
        "required": [field.wire for field in defined.fields if field.required],
    }
    return schema | {"additionalProperties": False} if defined.closed else schema


def property_schema(defined: Object | Alias | None, wire: str) -> Schema:
    """Return the schema of objects with what a type says of one property, and of no other."""
    field = defined.field(wire) if isinstance(defined, Object) else None
    if field is not None:
        return {"properties": {wire: type_schema(field.type)}, "required": [wire] if field.required else []}
    return {"properties": {wire: False}} if isinstance(defined, Object) and defined.closed else {}


def type_schema(written: Type) -> Schema:
    """Return the schema of a type, whose references point to `$defs`."""
    match written:
        case Ref(name):
            return {"$ref": f"#/$defs/{name}"}
        case Plain("any"):
            return {}
        case Plain():
            bounds = {
                "minimum": written.minimum,
                "maximum": written.maximum,
                "minLength": written.min_length,
                "maxLength": written.max_length,
                "pattern": written.pattern,
            }
            return {"type": written.kind} | {key: bound for key, bound in bounds.items() if bound is not None}
        case Values(values):
            return {"enum": list(values)}
        case Array(items, maximum, minimum):
            sizes = {"maxItems": maximum, "minItems": minimum}
            sizes = {key: size for key, size in sizes.items() if size is not None}
            return {"type": "array", "items": type_schema(items), **sizes}
        case Map(values):
            return {"type": "object", "additionalProperties": type_schema(values)}
        case Union(arms):
            return {"anyOf": [type_schema(arm) for arm in arms]}


def place_schema(revision: Revision, place: str) -> Schema:
    """Return the schema of what stands at a place that is no type, such as `calls client_to_server`."""
    kind, _, rest = place.partition(" ")
    match kind:
        case "calls":
            return _any_of(_call(row) for row in revision.methods if row.direction == rest)
        case "results":
            return _any_of(
                {"$ref": f"#/$defs/{name}"}
                for row in _rows(revision, rest)
                for name in (row.result, *(interim.type for interim in row.interim))
                if name is not None
            )
        case "capabilities":
            return _any_of(_capability(row.capability) for row in _rows(revision, rest))
        case "constants":
            return {"enum": list(revision.constants.values())}
        case "codes":
            ranges = [{"minimum": code.first, "maximum": code.last} for code in revision.reserved_codes]
            codes: Schema = {"enum": list(revision.constants.values())}
            return {"properties": {"code": {"anyOf": [codes, {"not": _any_of(ranges)}]}}}
        case "text":
            message: Schema = {"type": "object"}
            return {"anyOf": [message, {"type": "array", "items": message}]} if revision.batches else message
        case "unreadable":
            return (
                {"properties": {"id": {"type": "null"}}, "required": ["id"]}
                if revision.null_ids
                else {"not": {"required": ["id"]}}
            )
        case "first":
            opening = revision.lifecycle.roles.get("initialize_request")
            rows = (row for row in revision.methods if row.direction == "client_to_server" and row.kind == "request")
            return _any_of(_call(row) for row in rows if opening in (None, row.method))
        case _:
            return _http(revision, rest)


def _rows(revision: Revision, place: str) -> list[Method]:
    return [row for row in revision.methods if place == f"{row.direction} {row.method}"]


def _any_of(schemas: Any) -> Schema:
    return {"anyOf": list(schemas) or [_NOTHING]}


def _call(row: Method) -> Schema:
    """Return the schema of a message; an input request is part of a result, and has no envelope."""
    properties: Schema = {"method": {"const": row.method}}
    if row.params:
        properties["params"] = {"$ref": f"#/$defs/{row.params}"}
    required = ["method", "params"] if row.params_required else ["method"]
    if row.kind == "input_request":
        return {"properties": {**properties, "jsonrpc": False}, "required": required}
    return {"properties": properties, "required": [*required, "jsonrpc"]}


def _capability(path: str) -> Schema:
    """Return the schema of the capabilities of a side that a method needs."""
    schema: Schema = {}
    for name in reversed(path.split(".")[1:]):
        schema = {"properties": {name: schema}, "required": [name]}
    return schema


def _http(revision: Revision, feature: str) -> Schema:
    if feature.startswith("headers "):
        method = feature.partition(" ")[2]
        required = [METHOD_HEADER, NAME_HEADER] if method in revision.http.name_params else []
        return {"properties": {"headers": {"required": required}}}
    with_it, without = _HTTP[feature]
    has_it = revision.http.tool_schemas if feature == "tool_headers" else getattr(revision.http, feature)
    return with_it if has_it else without
