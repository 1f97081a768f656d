"""An extension that is a separate protocol, with its own messages and its own initialization.

Its two sides take the places of client and server in the core protocol, and their types those of the capabilities.
Messages of the core protocol are only part of it if the manifest names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ..errors import SchemaError
from ..importer.schema_references import REF, Schema
from ..model.capabilities import CAPABILITIES, declared_path
from ..model.docs import Docs
from ..model.ir import Lifecycle, Method, Object, Plain, Ref, Revision
from ..model.methods import ROLES, derive_methods
from ..model.names import snake
from ..model.overlay import Overlay, OverlayRow
from ..model.types import NamedTypes, read_types
from .flatten import Flattener
from .manifest import Manifest

_OF_TYPES: Final = ("name", "default", "essential")
_INFO_TYPE: Final = "Implementation"  # The type of the name and version of a side.


def separate_protocol(
    manifest: Manifest, schema: Schema, core: Schema, base: Revision, rows: Overlay, docs: Docs
) -> Revision:
    """Return the protocol as a revision, whose id is the version of the manifest. Raises SchemaError."""
    definitions = _merged(manifest, schema, core["$defs"])
    types = read_types({**core, "$defs": definitions}, base.id, rows, docs)
    capabilities = {side: keys.get("capabilities", "") for side, keys in manifest.sides.items()}
    undefined = [name for name in capabilities.values() if not isinstance(types.get(name), Object)]
    unnamed = [side for side, keys in manifest.sides.items() if not keys.get("name", "").isidentifier()]
    if capabilities.keys() != CAPABILITIES.keys() or undefined or unnamed or not manifest.version:
        needs = "`version`, [sides.client] and [sides.server], each with `name` and a defined type as `capabilities`"
        raise SchemaError(f"{manifest.name}: a manifest with [sides] needs {needs}", rule="manifest")
    methods = tuple(_with_capability(row, manifest, types) for row in _derived(manifest, types, rows))
    return replace(
        base,
        id=manifest.version,
        types=types,
        methods=methods,
        lifecycle=_lifecycle(manifest, methods, types),
        http=replace(base.http, streamable=False, name_params={}, tool_schemas="", tool_call=""),
        client=manifest.sides["client"]["name"],
        server=manifest.sides["server"]["name"],
    )


def _merged(manifest: Manifest, schema: Schema, core: Schema) -> Schema:
    """Return the definitions of both, with the roles of the manifest instead of those of the core protocol."""
    flat = Flattener(core | schema["$defs"], set(schema["$defs"]), manifest).definitions()
    if clash := flat.keys() & core.keys():
        raise SchemaError(
            f"{manifest.name}: {min(clash)} is also a type of {manifest.base}; rename it", rule="conflict"
        )
    merged = {**core, **flat}
    for role in ROLES:
        names = manifest.roles.get(role, [])
        if missing := [name for name in names if name not in merged]:
            text = f"the message {missing[0]!r}, which is not defined; correct [roles]"
            raise SchemaError(f"{manifest.name}: its manifest has {text}", rule="manifest")
        merged.pop(role, None)
        if names:
            merged[role] = {"anyOf": [{"$ref": REF + name} for name in names]}
    if unknown := manifest.roles.keys() - ROLES.keys():
        raise SchemaError(
            f"{manifest.name}: its manifest has the role {min(unknown)!r}, which does not exist; correct [roles]"
        )
    return merged


def _derived(manifest: Manifest, types: NamedTypes, rows: Overlay) -> tuple[Method, ...]:
    """Return the rows by the rules of the core protocol, without capabilities."""
    named = {name for names in manifest.roles.values() for name in names}
    visible = {name: type for name, type in types.items() if name in named or not _method(type)}
    visible |= {name: Object(name, ()) for name in CAPABILITIES.values()}
    free_rows = [OverlayRow("capability", method, "", None, ()) for name in named if (method := _method(types[name]))]
    type_rows = [row for row in rows.rows if row.table in _OF_TYPES]
    return derive_methods(visible, manifest.base, Overlay((*type_rows, *free_rows), rows.like))


def _method(type: object) -> str:
    """Return the method of a message type, or an empty string."""
    field = type.field("method") if isinstance(type, Object) else None
    return str(field.constant) if field is not None and field.constant is not None else ""


def _with_capability(row: Method, manifest: Manifest, types: NamedTypes) -> Method:
    """Return the row with the capability that a side must declare: the sender of a notification, the receiver of a
    request. A notification may need one of its receiver instead."""
    sides = ["client", "server"] if row.direction == "client_to_server" else ["server", "client"]
    name = row.name.removeprefix(f"{snake(manifest.prefix)}_")
    for side in sides if row.kind == "notification" else sides[1:]:
        path = manifest.capabilities.get(side, {}).get(row.type, "")
        if path:
            declaring = {CAPABILITIES[side]: types[manifest.sides[side]["capabilities"]]}
            if len(declared_path({**types, **declaring}, side, path.split("."))) != path.count(".") + 2:
                text = (
                    f"{row.type} needs {path!r}, which {manifest.sides[side]['capabilities']} does not have; correct "
                    f"[capabilities.{side}]"
                )
                raise SchemaError(f"{manifest.name}: {text}", rule="capability", at=row.type)
            return replace(row, name=name, capability=f"{side}.{path}")
    return replace(row, name=name)


def _lifecycle(manifest: Manifest, methods: tuple[Method, ...], types: NamedTypes) -> Lifecycle:
    """Return a handshake lifecycle with the methods of the messages under [lifecycle]."""
    rows = {row.type: row for row in methods}
    if unknown := [name for name in manifest.lifecycle.values() if name not in rows]:
        raise SchemaError(
            f"{manifest.name}: its [lifecycle] names {unknown[0]!r}, which neither side sends; correct the manifest"
        )
    if "initialize_request" not in manifest.lifecycle:
        raise SchemaError(
            f"{manifest.name}: its [lifecycle] needs `initialize_request`, the request that initializes the connection"
        )
    request = rows[manifest.lifecycle["initialize_request"]]
    params, result = types[request.params or ""], types[request.result or ""]
    assert isinstance(params, Object) and isinstance(result, Object), "messages have object types"
    fields: dict[str, str | tuple[str, ...]] = {}
    for side, type in (("client", params), ("server", result)):
        kinds = {
            _property_of_type(manifest.sides[side]["capabilities"], type): f"{side}_capabilities",
            _property_of_type(_INFO_TYPE, type): f"{side}_info",
        }
        if "" in kinds:
            raise SchemaError(
                f"{manifest.name}: {type.name} needs a property of type {_INFO_TYPE} and one with the "
                f"capabilities of the {side}"
            )
        fields |= {kind: wire for wire, kind in kinds.items()}
    version = [field.wire for field in params.fields if isinstance(field.type, Plain) and result.field(field.wire)]
    if len(version) != 1:
        raise SchemaError(
            f"{manifest.name}: {params.name} and {result.name} must share exactly one string property, the "
            "protocol version"
        )
    fields["version"] = version[0]
    fields["required_objects"] = tuple(_required_properties(result, set(map(str, fields.values()))))
    return Lifecycle("handshake", {role: rows[name].method for role, name in manifest.lifecycle.items()}, fields)


def _property_of_type(name: str, holder: Object) -> str:
    """Return the wire name of the property of this type, or an empty string."""
    return next((field.wire for field in holder.fields if field.type == Ref(name)), "")


def _required_properties(result: Object, handled: set[str]) -> Iterator[str]:
    """Yield the required properties of the result that are not handled yet."""
    return (field.wire for field in result.fields if field.required and field.wire not in handled)
