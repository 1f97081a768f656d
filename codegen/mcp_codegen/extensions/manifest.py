"""manifest.toml of an extension: facts that its schema does not state, in at most forty lines. That of an app's own
methods is written here.

| key           | meaning                                                                                      |
|---------------|----------------------------------------------------------------------------------------------|
| `identifier`  | its key in the `extensions` that a side declares                                             |
| `base`        | the revision it is mounted on                                                                |
| `source`      | the URL where its schema is published                                                        |
| `schema`      | its file there: a schema.ts, or a schema.json in which every reference is written out        |
| `settings`    | the type of the settings that a side declares under the identifier; empty for any object     |
| `prefix`      | the prefix of the names of its types, which is not part of its method names                  |
| `closed`      | what happens to objects that its schema closes: `open` accepts unknown properties of newer   |
|               | peers, `closed` rejects them                                                                 |
| `[sides]`     | for a protocol of its own: `client` connects, `server` is connected to; each with the        |
|               | `name` of its class and the type of its `capabilities`                                       |
| `version`     | the protocol version that such a protocol negotiates                                         |
| `[lifecycle]` | by role, the messages that initialize the connection, and those the runtime must know        |
| `[capabilities.client]` | by message, the capability that side must declare; `[capabilities.server]` likewise |
| `[roles]`     | by role union of the core protocol, the messages it adds to it                               |
| `[results]`   | by request of the core protocol, the interim results it adds                                 |
| `[headers]`   | by request of its own, the property of the params that a header repeats over HTTP            |
| `[declared]`  | by message of its own, the setting that must be declared for it                              |
| `[filters]`   | by notification of its own, the subscription filter, and the property of the params in it    |
| `[open]`      | by request of its own, the objects in its params that may have any values                    |

`clients_declare = false` means that its requests may come from clients that did not declare it.

An extension without roles only adds types. An extension with sides is a separate protocol: its roles name all its
messages, including those of the core protocol that it uses.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final, Literal, get_args

from ..errors import CodegenError, SchemaError, is_list, is_object
from ..importer.references import REF, Schema

Closed = Literal["open", "closed"]
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_SUFFIXES: Final = {True: ("Request", "ClientRequest"), False: ("Notification", "ClientNotification")}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of one extension; `name` is the name of its folder and of its package."""

    name: str
    identifier: str
    base: str
    source: str = ""
    schema: str = "schema.ts"
    settings: str = ""
    prefix: str = ""
    closed: Closed = "open"
    version: str = ""
    roles: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    results: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    declared: dict[str, str] = field(default_factory=dict[str, str])
    filters: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    open: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    clients_declare: bool = True
    sides: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    lifecycle: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def check_name(name: str) -> str:
    """Return the name of an extension, which is that of its folder and its package. Raises SchemaError for another."""
    if not name.isidentifier() or iskeyword(name):
        raise SchemaError(
            f"{name!r} is not a valid package name; name the folder of an extension as a Python identifier"
        )
    return name


def read_manifest(path: Path) -> Manifest:
    """Return the manifest. Raises SchemaError if it cannot be read, or if its folder name is not a valid package
    name."""
    name = check_name(path.parent.name)
    try:
        manifest = Manifest(name=name, **tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SchemaError(f"{path}: cannot be read as the manifest of an extension: {error}") from error
    if manifest.closed not in get_args(Closed):
        raise SchemaError(f"{path}: closed = {manifest.closed!r} is unknown; set it to {' or '.join(get_args(Closed))}")
    return manifest


# The definitions of an extension, composed ones flattened into one object with all properties.


class Flattener:
    """The definitions of an extension, among those of the core protocol."""

    def __init__(self, definitions: Schema, own: set[str], manifest: Manifest) -> None:
        self._definitions = definitions
        self._own = own
        self._manifest = manifest
        self._requests = {name for role, names in manifest.roles.items() if role.endswith("Request") for name in names}

    def definitions(self) -> Schema:
        """Return the extension's own definitions, including the params of its messages."""
        flat: Schema = {}
        for name in self._definitions:
            if name not in self._own:
                continue
            body = (
                self._object(self._definitions[name])
                if "allOf" in self._definitions[name]
                else dict(self._definitions[name])
            )
            params = body.get("properties", {}).get("params", {})
            if name in self._requests and "properties" in params:
                flat[f"{name}Params"] = self._with_open_objects(name, self._params(params))
                body["properties"] = {**body["properties"], "params": {"$ref": f"{REF}{name}Params"}}
            flat[name] = body
        return flat

    def _params(self, params: Schema) -> Schema:
        """Return the params of a request, with the metadata of every request of the core protocol."""
        common = self._definitions.get("RequestParams", {})
        properties = {**common.get("properties", {}), **params["properties"]}
        required = [*common.get("required", ()), *params.get("required", ())]
        return {"type": "object", "x-extends": ["RequestParams"], "properties": properties, "required": required}

    def _with_open_objects(self, name: str, params: Schema) -> Schema:
        """Return the params, in which the objects under [open] of the manifest may have any values."""
        for property in self._manifest.open.get(name, ()):
            if property not in params["properties"]:
                raise SchemaError(
                    (
                        f"{self._manifest.name}: {name} has no property {property!r} to open; correct [open] in "
                        "its manifest"
                    ),
                    rule="manifest",
                )
            params["properties"][property] = {"type": "object", "additionalProperties": {}}
        return params

    def _object(self, body: Schema) -> Schema:
        """Return an intersection as one object. Of a part that is a union, the properties that all arms require are
        required, and all others optional."""
        properties: Schema = {}
        required: list[str] = []
        extends: list[str] = []
        for part in body["allOf"]:
            schema, base = self._resolved(part)
            if base and "anyOf" not in schema:
                extends.append(base)
            members = self._union(schema) if "anyOf" in schema else schema
            properties |= members.get("properties", {})
            required += [name for name in members.get("required", ()) if name not in required]
        marks = {key: value for key, value in body.items() if key.startswith("x-")}
        return marks | {"type": "object", "x-extends": extends, "properties": properties, "required": required}

    def _resolved(self, part: Schema) -> tuple[Schema, str]:
        """Return the schema that a part refers to, flattened if needed, and its name."""
        name = ""
        while "$ref" in part:
            name = str(part["$ref"]).removeprefix(REF)
            if name not in self._definitions:
                raise SchemaError(
                    f"{self._manifest.name}: it refers to {name}, which is not defined; define it under $defs"
                )
            part = self._definitions[name]
        return (self._object(part) if "allOf" in part else part), name

    def _union(self, union: Schema) -> Schema:
        arms = [self._resolved(arm)[0] for arm in union["anyOf"]]
        forms: dict[str, list[Any]] = {}
        for arm in arms:
            for name, form in arm["properties"].items():
                forms.setdefault(name, [])
                if form not in forms[name]:
                    forms[name].append(form)
        required = [
            name for name in arms[0].get("required", ()) if all(name in arm.get("required", ()) for arm in arms)
        ]
        return {"properties": {name: _one_of(variants) for name, variants in forms.items()}, "required": required}


def _one_of(forms: list[Schema]) -> Schema:
    """Return one schema for a property that has one of these forms."""
    if all("const" in form for form in forms):
        return {"type": forms[0]["type"], "enum": [form["const"] for form in forms]}
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


# The manifest and the schema of an extension, of the methods that an app has beside those of the protocol.


def type_name(method: str) -> str:
    """Return the name of the types of a method without their suffix: `AcmeSearch` of "acme/search"."""
    return "".join(word[:1].upper() + word[1:] for word in _WORD.findall(method))


def written_extension(described: Mapping[str, Any], identifier: str) -> tuple[str, Schema]:
    """Return manifest.toml and schema.json.

    Args:
        described: What `mcp_products.tooling.own_methods` prints.
        identifier: The key under which a side declares the extension.

    Raises CodegenError without a method, for two methods with one name, for a result that is not an object, and for a
    type that contains itself.
    """
    methods: list[dict[str, Any]] = described["methods"]
    if not methods:
        raise CodegenError('the app has no methods of its own: write @app.method("acme/search")')
    vendors = {method["method"].partition("/")[0] for method in methods}
    definitions: Schema = {}
    roles: dict[str, list[str]] = {}
    named: dict[str, str] = {}
    for item in methods:
        suffix, role = _SUFFIXES["result" in item]
        name = type_name(item["method"])
        if name in named:
            raise CodegenError(f"{named[name]} and {item['method']} would both be {name}; rename one")
        if item.get("result", {}).get("type", "object") != "object":
            raise CodegenError(f"{item['method']}: returns no object; return a dict, a model or None")
        named[name] = item["method"]
        roles.setdefault(role, []).append(f"{name}{suffix}")
        constant = {"type": "string", "const": item["method"]}
        definitions[f"{name}{suffix}"] = {
            "type": "object",
            "properties": {"method": constant, "params": inlined(item["params"], item["method"])},
            "required": ["method", "params"],
        }
        if "result" in item:
            definitions[f"{name}Result"] = inlined(item["result"], item["method"])
    lines = [
        f"identifier = {json.dumps(identifier)}",
        f"base = {json.dumps(described['revision'])}",
        'schema = "schema.json"',
        *([f"prefix = {json.dumps(type_name(min(vendors)))}"] if len(vendors) == 1 else []),
        "",
        "[roles]",
        *(f"{role} = {json.dumps(names)}" for role, names in roles.items()),
    ]
    return "\n".join(lines) + "\n", {"$defs": definitions}


def inlined(schema: Schema, method: str) -> Schema:
    """Return a schema in which every reference is written out. Raises CodegenError for one that contains itself."""
    definitions: Mapping[str, Any] = schema.get("$defs", {})

    def read(value: Any, inside: tuple[str, ...]) -> Any:
        if is_list(value):
            return [read(item, inside) for item in value]
        if not is_object(value):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix(REF)
            if name in inside:
                raise CodegenError(
                    f"{method}: the type {name} contains itself: write the schema of the extension by hand"
                )
            return read(
                {**definitions[name], **{key: item for key, item in value.items() if key != "$ref"}}, (*inside, name)
            )
        return {key: read(item, inside) for key, item in value.items() if key != "$defs"}

    read_schema: Schema = read(schema, ())
    return read_schema
