"""Small schemas of our own, whole enough to generate a package from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp_codegen.catalog import SchemaCatalog

Schema = dict[str, Any]

OVERLAY = """
[[lifecycle]]
style = "handshake"
roles = { initialize_request = "hello", initialized = "notifications/there", ping_request = "alive", \
cancelled = "notifications/never", \
progress = "notifications/so_far", log = "notifications/said", set_level = "level" }
reason = "a test"

[[http]]
style = "handshake"
use = { streamable = true, version_header = true, priming_event = false, \
resource_metadata = true, name_params = {}, statuses = {} }
reason = "a test"
"""
MESSAGES = {
    "HelloRequest": "hello",
    "AliveRequest": "alive",
    "LevelRequest": "level",
    "ThereNotification": "notifications/there",
    "NeverNotification": "notifications/never",
    "SoFarNotification": "notifications/so_far",
    "SaidNotification": "notifications/said",
}


def message(method: str, params: Schema | None = None) -> Schema:
    properties: Schema = {"method": {"type": "string", "const": method}}
    required = ["method"]
    if params is not None:
        properties["params"] = params
        required.append("params")
    return {"type": "object", "properties": properties, "required": required}


def record(properties: Schema, *required: str, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def skeleton(**definitions: Schema) -> Schema:
    """A schema with a handshake, and these definitions; a `…Request` among them is one the client sends."""
    capabilities = record({"tools": record({"listChanged": {"type": "boolean"}})})
    defs: Schema = {
        "EmptyResult": record({}),
        "ClientCapabilities": record({"roots": record({"listChanged": {"type": "boolean"}})}),
        "ServerCapabilities": capabilities,
        "HelloResult": record({"capabilities": {"$ref": "#/$defs/ServerCapabilities"}}),
        **{name: message(method) for name, method in MESSAGES.items()},
        **definitions,
    }
    requests = [name for name in defs if name.endswith("Request")]
    notifications = [name for name in defs if name.endswith("Notification")]
    defs["ClientRequest"] = union(*requests)
    defs["ServerRequest"] = union("AliveRequest")
    defs["ClientNotification"] = union(*notifications)
    defs["ServerNotification"] = union(*notifications)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "x-constants": {}, "$defs": defs}


def union(*names: str) -> Schema:
    return {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}


def no_capability(*methods: str) -> str:
    """Overlay rows that say so."""
    return "".join(
        f"\n[[capability]]\nmethod = {json.dumps(method)}\nuse = ''\nreason = 'a test'\n" for method in methods
    )


def folder(root: Path, schema: Schema, overlay: str = "", revision: str = "1", docs: str = "") -> SchemaCatalog:
    """A folder of schemas with one revision in it."""
    place = root / revision
    place.mkdir(parents=True, exist_ok=True)
    (place / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
    digests = '"schema.ts" = "0"\n"schema.json" = "0"'
    pins = f'revision = "{revision}"\nfollows = ""\nsource = "test"\ncommit = "0"\n\n[sha256]\n{digests}\n'
    (place / "pins.toml").write_text(pins, encoding="utf-8")
    (root / "overlay.toml").write_text(OVERLAY + no_capability(*MESSAGES.values()) + overlay, encoding="utf-8")
    (root / "docs.toml").write_text(docs, encoding="utf-8")
    return SchemaCatalog(root)


def talking(**definitions: Schema) -> Schema:
    """The skeleton with the params that a conversation needs, and with these definitions."""
    text: Schema = {"type": "string"}
    party = {"$ref": "#/$defs/Implementation"}
    schema = skeleton(Implementation=record({"name": text, "version": text}, "name", "version"), **definitions)
    client, server = ({"$ref": f"#/$defs/{side}Capabilities"} for side in ("Client", "Server"))
    opening = {"protocolVersion": text, "capabilities": client, "clientInfo": party}
    answer = {"protocolVersion": text, "capabilities": server, "serverInfo": party, "instructions": text}
    params = {
        "HelloRequest": record(opening, *opening),
        "LevelRequest": record({"level": text}, "level"),
        "NeverNotification": record({"requestId": text, "reason": text}, "requestId"),
        "SoFarNotification": record(
            {
                "progressToken": {"anyOf": [text, {"type": "integer"}]},
                "progress": {"type": "integer"},
                "total": {"type": "integer"},
                "message": text,
            },
            "progressToken",
            "progress",
        ),
        "SaidNotification": record({"level": text, "data": text}, "level", "data"),
    }
    schema["$defs"] |= {name: message(MESSAGES[name], fields) for name, fields in params.items()}
    schema["$defs"]["HelloResult"] = record(answer, "protocolVersion", "capabilities", "serverInfo")
    return schema
