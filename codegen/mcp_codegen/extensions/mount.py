"""The mounting of an extension on a revision: one revision with both.

The schema of an extension declares its messages as intersections (`JSONRPCRequest & { … }`). They get the shape of the
core protocol here: one object with all properties, named params, metadata in every request. A contradiction to the core
protocol is an error; an equal definition is that of the core protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..catalog import SchemaCatalog
from ..errors import SchemaError, is_object
from ..importer.references import REF, Schema
from ..model.ir import CapabilityRequirement, InterimResult, Lifecycle, Method, Object, Plain, Ref, Revision
from ..model.lifecycle import CAPABILITIES, declared_path
from ..model.methods import ROLES, derive_methods
from ..model.names import snake
from ..model.overlay import Docs, Overlay, OverlayRow, read_docs
from ..model.types import NamedTypes, read_types
from ..paths import digest
from .manifest import Flattener, Manifest, read_manifest

# An extension that is a separate protocol, with its own messages and its own initialization.
#
# Its two sides take the places of client and server in the core protocol, and their types those of the capabilities.
# Messages of the core protocol are only part of it if the manifest names them.

_OF_TYPES: Final = ("name", "default", "essential")
_INFO_TYPE: Final = "Implementation"  # The type of the name and version of a side.


def separate_protocol(
    manifest: Manifest, schema: Schema, core: Schema, base: Revision, rows: Overlay, docs: Docs
) -> Revision:
    """Return the protocol as a revision, whose id is the version of the manifest. Raises SchemaError."""
    definitions = _merged_with_core(manifest, schema, core["$defs"])
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


def _merged_with_core(manifest: Manifest, schema: Schema, core: Schema) -> Schema:
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


@dataclass(frozen=True, slots=True)
class MountedExtension:
    """`revision` is the base with the extension; `added_types` are the names of the types that the extension adds."""

    manifest: Manifest
    base: Revision
    revision: Revision
    added_types: frozenset[str]


def mount(
    manifest: Manifest, schema: Schema, core: Schema, base: Revision, overlay_rows: Overlay, docs: Docs
) -> MountedExtension:
    """Return the extension mounted on its base. Raises SchemaError for a contradiction to the core protocol, or a
    missing name."""
    if manifest.sides:
        revision = separate_protocol(manifest, schema, core, base, overlay_rows, docs)
        return MountedExtension(manifest, base, revision, frozenset(revision.types.keys() - base.types.keys()))
    definitions = _merged(manifest, schema, core["$defs"])
    methods = {definitions[name]["properties"]["method"]["const"]: name for name in _messages(manifest, definitions)}
    if clash := methods.keys() & {row.method for row in base.methods}:
        raise SchemaError(
            f"{manifest.name}: the method {min(clash)!r} is in {base.id} already; rename it", rule="conflict"
        )
    types = read_types({**core, "$defs": definitions}, base.id, overlay_rows, docs)
    capability_rows = [_capability(method, name, manifest, types) for method, name in methods.items()]
    extended = Overlay((*overlay_rows.rows, *capability_rows), overlay_rows.like)
    if manifest.settings and manifest.settings not in types:
        raise SchemaError(
            (
                f"{manifest.name}: its settings type {manifest.settings} is not defined; correct `settings` in "
                "its manifest"
            ),
            rule="manifest",
        )
    added = frozenset(types.keys() - base.types.keys())
    rows = tuple(_mounted(row, manifest, types, methods) for row in derive_methods(types, base.id, extended))
    headers = {method: manifest.headers[name] for method, name in methods.items() if name in manifest.headers}
    http = replace(base.http, name_params={**base.http.name_params, **headers})
    revision = replace(base, types=types, methods=rows, http=http)
    return MountedExtension(manifest, base, revision, added)


def _merged(manifest: Manifest, schema: Schema, core: Schema) -> Schema:
    """Return the definitions of both, with the messages of the extension in the role unions of the core protocol."""
    flat = Flattener(core | schema["$defs"], set(schema["$defs"]), manifest)
    if unknown := set(schema.get("x-imports", ())) - core.keys():
        raise SchemaError(
            f"{manifest.name}: it imports {min(unknown)}, which {manifest.base} does not define; correct "
            "`base` or the import"
        )
    merged = dict(core)
    for name, body in flat.definitions().items():
        if name in core and not _alike(core[name], body):
            raise SchemaError(
                f"{manifest.name}: {name} is a different type in {manifest.base}; rename it", rule="conflict", at=name
            )
        merged.setdefault(name, body)
    for name in (*manifest.results, *manifest.headers, *manifest.declared, *manifest.filters, *manifest.open):
        if name not in (core if name in manifest.results else schema["$defs"]):
            raise SchemaError(
                f"{manifest.name}: its manifest names {name}, which is not defined; correct the manifest",
                rule="manifest",
            )
    for role, names in manifest.roles.items():
        missing = [name for name in names if name not in schema["$defs"]]
        if role not in ROLES or missing:
            unknown_name = f"the message {missing[0]!r}" if missing else f"the role {role!r}"
            raise SchemaError(
                f"{manifest.name}: its manifest has {unknown_name}, which is not defined; correct [roles]",
                rule="manifest",
            )
        arms = merged.get(role, {"anyOf": []})
        others = {key: value for key, value in arms.items() if key not in ("anyOf", "$ref")}
        present = arms.get("anyOf") or [{"$ref": arms["$ref"]}] * ("$ref" in arms)  # One message is not a union.
        merged[role] = {**others, "anyOf": [*present, *({"$ref": REF + name} for name in names)]}
    return merged


def _alike(one: Schema, other: Schema) -> bool:
    """Return True if two definitions have the same property names and required names."""
    same = one.get("properties", {}).keys() == other.get("properties", {}).keys()
    return same and set(one.get("required", ())) == set(other.get("required", ()))


def _messages(manifest: Manifest, definitions: Schema) -> list[str]:
    names = [name for names in manifest.roles.values() for name in names]
    for name in names:
        if not isinstance(definitions[name].get("properties", {}).get("method", {}).get("const"), str):
            raise SchemaError(
                f"{manifest.name}: {name} has no constant `method` property; correct the schema or [roles]",
                rule="message",
                at=name,
            )
    return names


def _capability(method: str, name: str, manifest: Manifest, types: NamedTypes) -> OverlayRow:
    """Return the overlay row by which the extension, or a setting of it, must be declared before this message: by
    the receiver of a request, by the sender of a notification."""
    kind, direction = next(ROLES[role] for role, names in manifest.roles.items() if name in names)
    sender, receiver = ("client", "server") if direction == "client_to_server" else ("server", "client")
    side = sender if kind == "notification" else receiver
    derived = declared_path(types, side, [part for part in method.split("/") if part != "notifications"])
    use = f"{side}.extensions.{manifest.identifier}"
    if setting := manifest.declared.get(name):
        settings = types.get(manifest.settings)
        if not isinstance(settings, Object) or settings.field(setting) is None:
            raise SchemaError(
                f"{manifest.name}: {setting!r}, which {name} needs, is not one of its settings; correct [declared]",
                rule="manifest",
            )
        use += f"#{setting}"
    return OverlayRow("capability", method, use, ".".join(derived) or None, (), "the manifest of the extension")


def _mounted(row: Method, manifest: Manifest, types: NamedTypes, methods: dict[str, str]) -> Method:
    """Return the row with the additions of the manifest: the required declaration of the client, the filter, the
    interim results."""
    is_client_request = row.method in methods and row.kind == "request" and row.direction == "client_to_server"
    if is_client_request and row.params and manifest.clients_declare:
        requirement = CapabilityRequirement(row.params, f"client.extensions.{manifest.identifier}")
        return replace(row, requirements=(*row.requirements, requirement))
    if row.method in methods and (filter := manifest.filters.get(row.type)):
        params = types.get(row.params or "")
        if row.kind != "notification" or not isinstance(params, Object) or params.field(filter[1]) is None:
            raise SchemaError(
                (
                    f"{manifest.name}: {row.type} is not a notification with {filter[1]!r} in its params; "
                    "correct [filters]"
                ),
                rule="manifest",
            )
        return replace(row, listed=(filter[0], filter[1]))
    interim = tuple(_interim_result(name, row, manifest, types) for name in manifest.results.get(row.type, ()))
    return replace(row, interim=(*row.interim, *interim)) if interim else row


def _interim_result(name: str, row: Method, manifest: Manifest, types: NamedTypes) -> InterimResult:
    """Return the interim result, identified by a constant that the result does not have."""
    type, result = types.get(name), types.get(row.result or "")
    if isinstance(type, Object) and isinstance(result, Object):
        for field in type.fields:
            result_field = result.field(field.wire)
            if isinstance(field.constant, str) and result_field is not None and result_field.constant != field.constant:
                return InterimResult(name, field.wire, field.constant)
    raise SchemaError(
        (
            f"{manifest.name}: no constant tells {name} apart from {row.result}; give it a property with a "
            "different constant"
        ),
        rule="interim",
        at=name,
    )


def mounted_extensions(schemas: SchemaCatalog, revision: str) -> Iterator[tuple[MountedExtension, str]]:
    """Yield the extensions of `schema/extensions/` that are mounted on this revision, each with the sha256 of its
    schema."""
    for path in sorted(schemas.root.glob("extensions/*/manifest.toml")):
        manifest = read_manifest(path)
        schemas.require_revision(manifest.base)
        if manifest.base == revision:
            data, schema = read_extension_schema(path.parent / "schema.json")
            yield mount_on_base(schemas, manifest, schema), digest(data)


def mount_on_base(schemas: SchemaCatalog, manifest: Manifest, schema: Schema) -> MountedExtension:
    """Return an extension mounted on its revision, with the docs of both. Raises SchemaError if it contradicts the
    core protocol."""
    core, _ = schemas.normalized(schemas.require_revision(manifest.base))
    extension_docs, core_docs = read_docs(schemas.root / "extensions" / manifest.name / "docs.toml"), schemas.docs
    docs = Docs(core_docs.types | extension_docs.types, core_docs.properties | extension_docs.properties)
    try:
        mounted_schema: Schema = (
            schema if manifest.closed == "closed" else json.loads(json.dumps(schema), object_hook=_without_closed)
        )
        return mount(manifest, mounted_schema, core, schemas.revision(manifest.base), schemas.overlay, docs)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        # As for a revision: any error that the schema or the manifest causes becomes one clear line.
        text = (
            f"{manifest.name}: the schema or the manifest has a form that mcp-codegen cannot read: "
            f"{error!r}; correct it and import it again"
        )
        raise SchemaError(text) from error


def _without_closed(schema: Schema) -> Schema:
    """Return an object of the schema without `additionalProperties: false`."""
    return {key: value for key, value in schema.items() if key != "additionalProperties" or value is not False}


def read_extension_schema(path: Path) -> tuple[bytes, Schema]:
    """Return the normalized schema of an extension: its bytes and the parsed JSON."""
    try:
        data = path.read_bytes()
        schema = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(
            f"{path}: cannot be read as the schema of an extension: {error}; import it with `mcp-codegen "
            "extension import`"
        ) from error
    if not is_object(schema) or not is_object(schema.get("$defs")):
        raise SchemaError(
            f"{path}: has no definitions under $defs; import it again with `mcp-codegen extension import`"
        )
    return data, schema
