"""The mounting of an extension on a revision: one revision with both.

The schema of an extension declares its messages as intersections (`JSONRPCRequest & { … }`). They get the shape of the
core protocol here: one object with all properties, named params, metadata in every request. A contradiction to the core
protocol is an error; an equal definition is that of the core protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import SchemaError
from ..importer.schema_references import REF, Schema
from ..model.capabilities import declared_path
from ..model.docs import Docs
from ..model.ir import CapabilityRequirement, InterimResult, Method, Object, Revision
from ..model.methods import ROLES, derive_methods
from ..model.overlay import Overlay, OverlayRow
from ..model.types import NamedTypes, read_types
from .flatten import Flattener
from .manifest import Manifest
from .separate_protocol import separate_protocol


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
        present = arms.get("anyOf", [arms])
        merged[role] = {**arms, "anyOf": [*present, *({"$ref": REF + name} for name in names)]}
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
