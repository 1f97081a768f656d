"""The two notations of whole protocols: the meta model of LSP, and OpenRPC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..errors import SchemaError, is_list, is_object
from ..importer.references import REF, Schema
from ..model.names import pascal
from .document import (
    DIRECTIONS,
    Direction,
    ProtocolDocument,
    ProtocolMessage,
    definition_name,
    document_schema,
    marks,
    require_object,
)
from .json_schema import SchemaReader

_BASES: Final[dict[str, Schema]] = {
    "URI": {"type": "string", "format": "uri"},
    "DocumentUri": {"type": "string", "format": "uri"},
    "RegExp": {"type": "string", "format": "regex"},
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "decimal": {"type": "number"},
    "integer": {"$ref": REF + "Integer"},
    "uinteger": {"$ref": REF + "UInteger"},
}
# The bounded base types are definitions, so that lists and unions of them have the bounds too.
_BOUNDED: Final[Schema] = {
    "Integer": {"x-doc": "A signed integer of 32 bits.", "type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "UInteger": {"x-doc": "An unsigned integer of 31 bits.", "type": "integer", "minimum": 0, "maximum": 2**31 - 1},
}
_DIRECTIONS: Final[dict[str, tuple[Direction, ...]]] = {
    "clientToServer": DIRECTIONS[:1],
    "serverToClient": DIRECTIONS[1:],
    "both": DIRECTIONS,
}
# The JSON values of any form: the aliases refer to each other, and say no more than this.
_ANY: Final[dict[str, Schema]] = {
    "LSPAny": {},
    "LSPObject": {"type": "object", "additionalProperties": True},
    "LSPArray": {"type": "array", "items": {}},
}
_DESCRIPTORS: Final = "#/components/contentDescriptors/"


def read_meta_model(document: Schema, name: str) -> ProtocolDocument:
    """Return what a meta model describes. Raises SchemaError for a form that cannot be read."""
    return _MetaModelReader(document, name).read()


class _MetaModelReader:
    """The reader of one meta model."""

    def __init__(self, document: Schema, name: str) -> None:
        self._name = name
        self._document = document
        self._structures = {item["name"]: item for item in self._list("structures")}
        self._definitions: Schema = dict(_BOUNDED)

    def read(self) -> ProtocolDocument:
        for name, item in self._structures.items():
            self._definitions[name] = marks(item) | self._structure(item)
        for item in self._list("enumerations"):
            self._definitions[item["name"]] = marks(item) | _enumeration(item)
        for item in self._list("typeAliases"):
            body = _ANY.get(item["name"]) or (
                self._type(item["type"], item["name"]) if item["name"] not in _ANY else {}
            )
            self._definitions[item["name"]] = marks(item) | body
        messages = [
            message
            for kind in ("requests", "notifications")
            for item in self._list(kind)
            for message in self._messages(item, is_request=kind == "requests")
        ]
        version = str(self._document.get("metaData", {}).get("version", ""))
        return ProtocolDocument(document_schema(self._name, self._definitions), tuple(messages), version)

    def _list(self, key: str) -> list[Schema]:
        items = self._document.get(key)
        if not is_list(items):
            raise SchemaError(f"{self._name}: the document has no list `{key}`; pass the metaModel.json of LSP")
        return [require_object(item, f"{self._name}: an item of `{key}`") for item in items]

    def _messages(self, item: Schema, is_request: bool) -> Iterator[ProtocolMessage]:
        """Yield one message for each direction of a request or a notification."""
        method = item["method"]
        params, result = item.get("params"), item.get("result")
        if is_list(params):
            raise SchemaError(f"{self._name}: {method} has params by position; only an object is supported", at=method)
        described = marks(item)
        for direction in _DIRECTIONS[item["messageDirection"]]:
            yield ProtocolMessage(
                "request" if is_request else "notification",
                direction,
                method,
                self._named(params, definition_name(method, "Params")),
                self._named(result, definition_name(method, "Result")),
                described.get("x-doc", ""),
                bool(item.get("deprecated")),
                str(item.get("since", "")),
                str(item.get("serverCapability" if direction == DIRECTIONS[0] else "clientCapability", "")),
            )

    def _named(self, written: Any, name: str) -> str | None:
        """Return the definition of the params or of the result of a message, and define it if it has no name."""
        if written is None or written == {"kind": "base", "name": "null"}:
            return None
        if written["kind"] == "reference":
            return str(written["name"])
        self._definitions.setdefault(name, self._type(written, name))
        return name

    def _structure(self, item: Schema) -> Schema:
        """Return an object with the properties that it inherits first."""
        bases = [base["name"] for base in (*item.get("extends", ()), *item.get("mixins", ()))]
        properties: Schema = {}
        required: list[str] = []
        for base in bases:
            if base not in self._structures:
                raise SchemaError(f"{self._name}: {item['name']} extends {base}, which is not a structure", at=base)
            inherited = self._structure(self._structures[base])
            properties |= inherited["properties"]
            required += inherited.get("required", ())
        for own in item["properties"]:
            name = own["name"]
            properties[name] = marks(own) | self._type(own["type"], f"{item['name']}{pascal(name)}")
            required = [other for other in required if other != name]
            required += [] if own.get("optional") else [name]
        body: Schema = {"x-extends": bases} if bases else {}
        return {**body, "type": "object", "properties": properties} | ({"required": required} if required else {})

    def _type(self, written: Schema, at: str) -> Schema:
        match written["kind"]:
            case "base" if written["name"] in _BASES:
                return dict(_BASES[written["name"]])
            case "reference":
                return {"$ref": REF + written["name"]}
            case "array":
                return {"type": "array", "items": self._type(written["element"], at)}
            case "map":
                return {"type": "object", "additionalProperties": self._type(written["value"], at)}
            case "or":
                return self._union([self._type(item, at) for item in written["items"]])
            case "and":
                return {"allOf": [self._type(item, at) for item in written["items"]]}
            case "tuple":
                items = [self._type(item, at) for item in written["items"]]
                sizes = {"minItems": len(items), "maxItems": len(items)}
                self._definitions[f"{at}Tuple"] = {"type": "array", "items": self._union(items), **sizes}
                return {"$ref": REF + f"{at}Tuple"}
            case "literal":
                return self._structure({"name": at, "properties": written["value"]["properties"]})
            case "stringLiteral" | "integerLiteral" | "booleanLiteral":
                kind = written["kind"].removesuffix("Literal")
                return {"type": kind, "const": written["value"]}
            case kind:
                raise SchemaError(
                    f"{self._name}: {at} has a type of the kind {kind!r} ({written.get('name', '')}), which is not "
                    "supported; write one of the meta model",
                    at=at,
                )

    def _union(self, arms: list[Schema]) -> Schema:
        distinct: list[Schema] = []
        for arm in arms:
            if arm not in distinct:
                distinct.append(arm)
        constants = [arm["const"] for arm in distinct if "const" in arm]
        if len(constants) == len(distinct) > 1:
            return {"type": distinct[0]["type"], "enum": constants}
        return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _enumeration(item: Schema) -> Schema:
    values = [value["value"] for value in item["values"]]
    kind = "string" if item["type"]["name"] == "string" else "integer"
    if not item.get("supportsCustomValues"):
        return {"type": kind, "enum": values}
    return {"type": kind} | ({"x-known": values} if kind == "string" else {})


# The front end for OpenRPC documents (https://spec.open-rpc.org).
#
# A method without a result is a notification. The client sends all methods. Params go by name; those of a method with
# `paramStructure: by-position` go in a list, and those with `either`, the default, as the manifest says. They come
# either way.


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
