"""The front end for OpenRPC documents (https://spec.open-rpc.org).

A method without a result is a notification. The client sends all methods. Params go by name; those of a method with
`paramStructure: by-position` go in a list, and those with `either`, the default, as the manifest says. They come either
way.
"""

from __future__ import annotations

from typing import Any, Final

from ..errors import SchemaError, is_list, is_object
from ..importer.references import Schema
from .document import (
    DIRECTIONS,
    ProtocolDocument,
    ProtocolMessage,
    definition_name,
    document_schema,
    marks,
    require_object,
)
from .json_schema import SchemaReader

_DESCRIPTORS: Final = "#/components/contentDescriptors/"


def read_open_rpc(document: Schema, name: str, structure: str = "by-name") -> ProtocolDocument:
    """Return what an OpenRPC document describes. Raises SchemaError for a form that cannot be read.

    `structure` is how params go where the document leaves that open: "by-name" or "by-position".
    """
    methods = document.get("methods")
    if not is_list(methods) or "openrpc" not in document:
        raise SchemaError(f"{name}: the document has no `openrpc` and no list `methods`; pass an OpenRPC document")
    components = document.get("components", {})
    reader = SchemaReader(components.get("schemas", {}), name, document)
    definitions = reader.read()
    descriptors = components.get("contentDescriptors", {})
    messages: list[ProtocolMessage] = []
    for item in methods:
        method = require_object(_resolved(item, document, name), f"{name}: an item of `methods`")
        params = [_descriptor(written, descriptors, name) for written in method.get("params", ())]
        result = _descriptor(method["result"], descriptors, name) if "result" in method else None
        described = marks(method)
        messages.append(
            ProtocolMessage(
                "notification" if result is None else "request",
                DIRECTIONS[0],
                method["name"],
                _params(reader, method["name"], params),
                None if result is None else _result(reader, method["name"], result["schema"]),
                described.get("x-doc", ""),
                bool(method.get("deprecated")),
                positions=_positions(method, params),
                sends_list=_sends_list(method, params, structure, name),
            )
        )
    version = str(document.get("info", {}).get("version", ""))
    return ProtocolDocument(document_schema(name, definitions), tuple(messages), version)


def _resolved(item: Any, document: Schema, name: str) -> Any:
    """Return what an item of a list refers to in the document, or the item. Raises SchemaError for nothing."""
    if not is_object(item) or "$ref" not in item:
        return item
    value: Any = document
    for token in str(item["$ref"]).removeprefix("#").split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if not is_object(value) or key not in value:
            raise SchemaError(f"{name}: {item['$ref']} is not defined in the document; define it", at=str(item["$ref"]))
        value = value[key]
    return value


def _descriptor(written: Any, descriptors: Schema, name: str) -> Schema:
    """Return a content descriptor, also one that is referred to."""
    if is_object(written) and "$ref" in written:
        key = str(written["$ref"]).removeprefix(_DESCRIPTORS)
        if key not in descriptors:
            raise SchemaError(f"{name}: {written['$ref']} is not defined under components; define it", at=key)
        written = descriptors[key]
    return require_object(written, f"{name}: a content descriptor")


def _positions(method: Schema, params: list[Schema]) -> tuple[str, ...]:
    """Return the names of params that may go by position."""
    return () if method.get("paramStructure") == "by-name" else tuple(str(item["name"]) for item in params)


def _sends_list(method: Schema, params: list[Schema], structure: str, name: str) -> bool:
    """Return True if params are sent in a list. Raises SchemaError for a required one after an optional one there."""
    written = str(method.get("paramStructure", "either"))
    if written not in ("by-name", "by-position", "either"):
        text = f"{name}: {method['name']} has paramStructure {written!r}; write by-name, by-position or either"
        raise SchemaError(text, at=method["name"])
    if not params or (structure if written == "either" else written) != "by-position":
        return False
    required = [bool(item.get("required")) for item in params]
    if sorted(required, reverse=True) != required:
        text = f"{name}: {method['name']} has a required param after an optional one; put the required ones first"
        raise SchemaError(text, at=method["name"])
    return True


def _params(reader: SchemaReader, method: str, params: list[Schema]) -> str | None:
    if not params:
        return None
    properties = {item["name"]: _described(item, method) for item in params}
    required = [item["name"] for item in params if item.get("required")]
    key = definition_name(method, "Params")
    reader.define(key, {"type": "object", "properties": properties, "required": required})
    return key


def _described(item: Schema, method: str) -> Any:
    """Return the schema of a param with its description."""
    schema = item["schema"]
    if isinstance(schema, bool):
        return schema
    described = {key: item[key] for key in ("description", "summary", "deprecated") if key in item}
    written = require_object(schema, method)
    # Beside a reference, descriptions say nothing.
    return described | written if "$ref" not in written else written | described


def _result(reader: SchemaReader, method: str, schema: Any) -> str | None:
    if is_object(schema) and schema.get("type") == "null":
        return None
    if is_object(schema) and "$ref" in schema:
        return reader.named(schema, definition_name(method, "Result"))
    key = definition_name(method, "Result")
    reader.define(key, schema)
    return key
