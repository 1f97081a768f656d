"""The manifest and the schema of an extension, of the methods that an app has beside those of the protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ..errors import CodegenError, is_list, is_object
from ..importer.references import REF, Schema

_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_SUFFIXES: Final = {True: ("Request", "ClientRequest"), False: ("Notification", "ClientNotification")}


def type_name(method: str) -> str:
    """Return the name of the types of a method without their suffix: `AcmeSearch` of "acme/search"."""
    return "".join(word[:1].upper() + word[1:] for word in _WORD.findall(method))


def written_extension(described: Mapping[str, Any], identifier: str) -> tuple[str, Schema]:
    """Return manifest.toml and schema.json.

    Args:
        described: What `mcp_products.tooling.own_methods` prints.
        identifier: The key under which a side declares the extension.

    Raises CodegenError without a method, and for a type that contains itself.
    """
    methods: list[dict[str, Any]] = described["methods"]
    if not methods:
        raise CodegenError('the app has no methods of its own: write @app.method("acme/search")')
    vendors = {method["method"].partition("/")[0] for method in methods}
    definitions: Schema = {}
    roles: dict[str, list[str]] = {}
    for item in methods:
        suffix, role = _SUFFIXES["result" in item]
        name = type_name(item["method"])
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
