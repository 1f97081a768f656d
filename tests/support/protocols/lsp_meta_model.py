"""Print a meta model of the Language Server Protocol that is made of the types of the package lsprotocol.

No registry of packages has the metaModel.json that lsprotocol was made from; MCP_META_MODEL may name it instead. What
is lost on the way: inheritance, the names of aliases, and the bounds of integers.
"""

from __future__ import annotations

import collections.abc
import enum
import json
import re
import sys
import types as python_types
import typing

import attrs
from lsprotocol import types as lsp

BASES = {str: "string", int: "integer", float: "decimal", bool: "boolean", type(None): "null"}


def camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name.rstrip("_"))


def union(items: list[typing.Any]) -> dict[str, typing.Any]:
    return items[0] if len(items) == 1 else {"kind": "or", "items": items}


def written(hint: typing.Any) -> dict[str, typing.Any]:
    """Return a type as the meta model writes it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in BASES:
        return {"kind": "base", "name": BASES[hint]}
    if origin in (typing.Union, python_types.UnionType):
        return union([written(argument) for argument in arguments])
    if origin is collections.abc.Sequence:
        return {"kind": "array", "element": written(arguments[0])}
    if origin is tuple:
        return {"kind": "tuple", "items": [written(argument) for argument in arguments]}
    if origin is collections.abc.Mapping:
        return {"kind": "map", "key": written(arguments[0]), "value": written(arguments[1])}
    if origin is typing.Literal:
        return union([{"kind": "stringLiteral", "value": value} for value in arguments])
    if isinstance(hint, type) and (attrs.has(hint) or issubclass(hint, enum.Enum)):
        return {"kind": "reference", "name": hint.__name__}
    if hint in (typing.Any, object) or hint is lsp.LSPObject:
        return {"kind": "reference", "name": "LSPAny"}
    raise TypeError(f"{hint!r} is not a type of the protocol")


def structure(cls: type) -> dict[str, typing.Any]:
    hints = typing.get_type_hints(cls, vars(lsp))
    properties: list[dict[str, typing.Any]] = []
    for field in attrs.fields(cls):
        name, hint = camel(field.name), hints[field.name]
        is_required = field.default is attrs.NOTHING or lsp.is_special_property(cls, field.name)
        if not is_required and type(None) in typing.get_args(hint):
            arms = [written(item) for item in typing.get_args(hint) if item is not type(None)]
            properties.append({"name": name, "type": union(arms), "optional": True})
        else:
            optional = {} if is_required else {"optional": True}
            properties.append({"name": name, "type": written(hint), **optional})
    return {"name": cls.__name__, "documentation": cls.__doc__ or "", "properties": properties}


def enumeration(cls: type[enum.Enum]) -> dict[str, typing.Any]:
    kind = "string" if issubclass(cls, str) else "integer"
    values = [{"name": item.name, "value": item.value} for item in cls]
    # lsprotocol does not say which of them are open.
    return {
        "name": cls.__name__,
        "type": {"kind": "base", "name": kind},
        "values": values,
        "supportsCustomValues": True,
    }


def message(method: str, request: type, response: type | None) -> dict[str, typing.Any]:
    hints = typing.get_type_hints(request, vars(lsp))
    item: dict[str, typing.Any] = {"method": method, "messageDirection": lsp.message_direction(method)}
    if hints.get("params") not in (None, type(None)) and type(None) not in typing.get_args(hints["params"]):
        item["params"] = written(hints["params"])
    if response is not None:
        item["result"] = written(typing.get_type_hints(response, vars(lsp)).get("result", type(None)))
    return item


def main() -> None:
    envelopes = {cls for row in lsp.METHOD_TO_TYPES.values() for cls in row[:2] if cls is not None}
    classes = [
        cls for cls in lsp.ALL_TYPES_MAP.values() if isinstance(cls, type) and cls not in (*envelopes, lsp.LSPObject)
    ]
    rows = [(method, request, response) for method, (request, response, *_) in lsp.METHOD_TO_TYPES.items()]
    meta_model = {
        "metaData": {"version": lsp.__lsp_version__},
        "requests": [message(*row) for row in rows if row[2] is not None],
        "notifications": [message(*row) for row in rows if row[2] is None],
        "structures": [structure(cls) for cls in classes if attrs.has(cls)],
        "enumerations": [enumeration(cls) for cls in classes if issubclass(cls, enum.Enum)],
        "typeAliases": [{"name": "LSPAny", "type": {"kind": "base", "name": "string"}}],
    }
    json.dump(meta_model, sys.stdout)


main()
