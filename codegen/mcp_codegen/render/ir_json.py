"""Dump a revision as JSON for custom templates, and describe that JSON with a JSON Schema from the same classes.

What may be one of several classes says which in `is`: `ref`, `plain`, `values`, `array`, `map`, `union`; `object`,
`alias`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from ..model import ir
from .calls import MethodView, method_views
from .types import link

# Raised whenever anything is renamed, removed or means something else; what is added leaves it.
IR_VERSION: Final = 2

_TAGGED: Final = (ir.Ref, ir.Plain, ir.Values, ir.Array, ir.Map, ir.Union, ir.Object, ir.Alias)
_PLAIN: Final[Mapping[object, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


_ENTRY: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"since": {"type": "string"}, "removed": {"type": ["string", "null"]}},
    "required": ["since", "removed"],
}


def dump(revision: ir.Revision, revisions: Sequence[ir.Revision] = ()) -> dict[str, Any]:
    """Return the revision, and the tables of its calls as templates print them, by the name of the table.

    `history` has, by type: the address of the type in the specification, and the revision that first had it without a
    gap until this one, and the one that removed it; and the same of its properties. `revisions` are all revisions,
    oldest first.
    """
    tables: dict[str, Any] = {} if revision.protocol != "MCP" else _dumped(method_views(revision))
    history = _history(revision, revisions or (revision,))
    return {"ir": IR_VERSION, "revision": _dumped(revision), "tables": tables, "history": history}


def _history(revision: ir.Revision, revisions: Sequence[ir.Revision]) -> dict[str, Any]:
    place = [other.id for other in revisions].index(revision.id)
    before, after = revisions[:place], revisions[place + 1 :]

    def span(name: str, wire: str | None = None) -> dict[str, Any]:
        since = revision.id
        for other in reversed(before):
            if not _has(other, name, wire):
                break
            since = other.id
        return {"since": since, "removed": next((other.id for other in after if not _has(other, name, wire)), None)}

    result: dict[str, Any] = {}
    for name, defined in revision.types.items():
        fields_of = defined.fields if isinstance(defined, ir.Object) else ()
        properties = {field.wire: span(name, field.wire) for field in fields_of}
        result[name] = {"anchor": link(revision, name), **span(name), "fields": properties}
    return result


def _has(revision: ir.Revision, name: str, wire: str | None) -> bool:
    """Return True if a revision has a type, or a property of it."""
    defined = revision.types.get(name)
    return defined is not None and (
        wire is None or (isinstance(defined, ir.Object) and defined.field(wire) is not None)
    )


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of what `dump` gives."""
    definitions: dict[str, Any] = {}
    tables = {"type": "object", "additionalProperties": {"type": "array", "items": _described(MethodView, definitions)}}
    names = {"anchor": {"type": "string"}, "fields": {"type": "object", "additionalProperties": _ENTRY}}
    history = _closed({**names, **_ENTRY["properties"]})
    parts = {
        "ir": {"const": IR_VERSION},
        "revision": _described(ir.Revision, definitions),
        "tables": tables,
        "history": {"type": "object", "additionalProperties": history},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_closed(parts),
        "$defs": dict(sorted(definitions.items())),
    }


def _dumped(value: object) -> Any:
    if is_dataclass(value):
        tag = {"is": type(value).__name__.lower()} if isinstance(value, _TAGGED) else {}
        return tag | {field.name: _dumped(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _dumped(inner) for key, inner in cast("Mapping[object, object]", value).items()}
    return [_dumped(inner) for inner in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _described(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type hint; classes go into the definitions."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (UnionType, Union):
        return {"anyOf": [_described(argument, definitions) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _described(arguments[0], definitions)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _described(arguments[1], definitions)}
    name: str = hint.__name__
    if name not in definitions:
        definitions[name] = {}
        tag = {"is": {"const": name.lower()}} if hint in _TAGGED else {}
        hints = get_type_hints(hint)
        definitions[name] = _closed(tag | {f.name: _described(hints[f.name], definitions) for f in fields(hint)})
    return {"$ref": f"#/$defs/{name}"}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
