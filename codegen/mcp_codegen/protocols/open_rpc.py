"""The front end for OpenRPC documents (https://spec.open-rpc.org).

A method without a result is a notification. The client sends all methods; params go by name.
"""

from __future__ import annotations

from typing import Any, Final

from ..errors import SchemaError
from ..importer.schema_references import Schema
from ..json_types import is_list, is_object
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


def read_open_rpc(document: Schema, name: str) -> ProtocolDocument:
    """Return what an OpenRPC document describes. Raises SchemaError for a form that cannot be read."""
    methods = document.get("methods")
    if not is_list(methods) or "openrpc" not in document:
        raise SchemaError(f"{name}: the document has no `openrpc` and no list `methods`; pass an OpenRPC document")
    components = document.get("components", {})
    reader = SchemaReader(dict(components.get("schemas", {})), name)
    definitions = reader.read()
    descriptors = components.get("contentDescriptors", {})
    messages: list[ProtocolMessage] = []
    for item in methods:
        method = require_object(item, f"{name}: an item of `methods`")
        if method.get("paramStructure") == "by-position":
            raise SchemaError(
                f"{name}: {method['name']} takes params by position; only params by name are supported: "
                'set paramStructure to "by-name" or "either"',
                at=method["name"],
            )
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
            )
        )
    version = str(document.get("info", {}).get("version", ""))
    return ProtocolDocument(document_schema(name, definitions), tuple(messages), version)


def _descriptor(written: Any, descriptors: Schema, name: str) -> Schema:
    """Return a content descriptor, also one that is referred to."""
    if is_object(written) and "$ref" in written:
        key = str(written["$ref"]).removeprefix(_DESCRIPTORS)
        if key not in descriptors:
            raise SchemaError(f"{name}: {written['$ref']} is not defined under components; define it", at=key)
        written = descriptors[key]
    return require_object(written, f"{name}: a content descriptor")


def _params(reader: SchemaReader, method: str, params: list[Schema]) -> str | None:
    if not params:
        return None
    properties = {item["name"]: marks(item) | require_object(item["schema"], method) for item in params}
    required = [item["name"] for item in params if item.get("required")]
    key = definition_name(method, "Params")
    reader.define(key, {"type": "object", "properties": properties, "required": required})
    return key


def _result(reader: SchemaReader, method: str, schema: Any) -> str | None:
    if is_object(schema) and schema.get("type") == "null":
        return None
    reference = str(schema.get("$ref", "")) if is_object(schema) else ""
    if reference:
        return reference.rpartition("/")[2]
    key = definition_name(method, "Result")
    reader.define(key, schema)
    return key
