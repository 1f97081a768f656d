"""An extension and the revision it is mounted on go in, a revision with both comes out.

An extension's schema writes its messages as intersections (`JSONRPCRequest & { … }`). Here they get the shape that
the core gives its own: one object with all properties, params under a name of their own, metadata in every request.
Whatever contradicts the core is an error; a definition that the core has as well, and alike, is the core's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import SchemaError
from ..importer.normalize import REF, Schema
from ..model.capabilities import declared_path
from ..model.docs import Docs
from ..model.ir import CapabilityRequirement, InterimResult, Method, Object, Revision
from ..model.methods import ROLES, derive_methods
from ..model.overlay import Overlay, OverlayRow
from ..model.types import Named, read_types
from .flatten import Flattener
from .manifest import Manifest
from .separate_protocol import separate_protocol


@dataclass(frozen=True, slots=True)
class Mounted:
    """`revision` is the base with the extension; `own` are the names of the types that the extension adds."""

    manifest: Manifest
    base: Revision
    revision: Revision
    own: frozenset[str]


def mount(manifest: Manifest, own: Schema, core: Schema, base: Revision, rows: Overlay, docs: Docs) -> Mounted:
    """Raises SchemaError for what contradicts the core, or is not there."""
    if manifest.sides:
        revision = separate_protocol(manifest, own, core, base, rows, docs)
        return Mounted(manifest, base, revision, frozenset(revision.types.keys() - base.types.keys()))
    definitions = _merged(manifest, own, core["$defs"])
    methods = {definitions[name]["properties"]["method"]["const"]: name for name in _messages(manifest, definitions)}
    if clash := methods.keys() & {row.method for row in base.methods}:
        raise SchemaError(f"{manifest.name}: the method {min(clash)!r} is one of {base.id} already", rule="conflict")
    types = read_types({**core, "$defs": definitions}, base.id, rows, docs)
    further = [_capability(method, name, manifest, types) for method, name in methods.items()]
    overlay = Overlay((*rows.rows, *further), rows.like)
    if manifest.settings and manifest.settings not in types:
        raise SchemaError(f"{manifest.name}: its settings type {manifest.settings} is not defined", rule="manifest")
    added = frozenset(types.keys() - base.types.keys())
    found = tuple(_mounted(row, manifest, types, methods) for row in derive_methods(types, base.id, overlay))
    headers = {method: manifest.headers[name] for method, name in methods.items() if name in manifest.headers}
    http = replace(base.http, name_params={**base.http.name_params, **headers})
    revision = replace(base, types=types, methods=found, http=http)
    return Mounted(manifest, base, revision, added)


def _merged(manifest: Manifest, own: Schema, core: Schema) -> Schema:
    """The definitions of both, with the messages of the extension among those of the core."""
    flat = Flattener(core | own["$defs"], set(own["$defs"]), manifest)
    if unknown := set(own.get("x-imports", ())) - core.keys():
        raise SchemaError(f"{manifest.name}: it imports {min(unknown)}, which {manifest.base} does not define")
    merged = dict(core)
    for name, body in flat.definitions().items():
        if name in core and not _alike(core[name], body):
            raise SchemaError(f"{manifest.name}: {name} is another type in {manifest.base}", rule="conflict", at=name)
        merged.setdefault(name, body)
    for name in (*manifest.results, *manifest.headers, *manifest.declared, *manifest.filters, *manifest.open):
        if name not in (core if name in manifest.results else own["$defs"]):
            raise SchemaError(f"{manifest.name}: its manifest names {name}, which there is not", rule="manifest")
    for role, names in manifest.roles.items():
        missing = [name for name in names if name not in own["$defs"]]
        if role not in ROLES or missing:
            what = f"the message {missing[0]!r}" if missing else f"the role {role!r}"
            raise SchemaError(f"{manifest.name}: its manifest has {what}, which there is not", rule="manifest")
        arms = merged.get(role, {"anyOf": []})
        present = arms["anyOf"] if "anyOf" in arms else [arms]
        merged[role] = {**arms, "anyOf": [*present, *({"$ref": REF + name} for name in names)]}
    return merged


def _alike(one: Schema, other: Schema) -> bool:
    """Whether two definitions have the same properties, whatever else they say of them."""
    same = one.get("properties", {}).keys() == other.get("properties", {}).keys()
    return same and set(one.get("required", ())) == set(other.get("required", ()))


def _messages(manifest: Manifest, definitions: Schema) -> list[str]:
    names = [name for names in manifest.roles.values() for name in names]
    for name in names:
        if not isinstance(definitions[name].get("properties", {}).get("method", {}).get("const"), str):
            raise SchemaError(f"{manifest.name}: {name} has no constant method", rule="message", at=name)
    return names


def _capability(method: str, name: str, manifest: Manifest, types: Named) -> OverlayRow:
    """Who has to declare the extension before this message, be it with a setting: the receiver of a request, the sender
    of a notification."""
    kind, direction = next(ROLES[role] for role, names in manifest.roles.items() if name in names)
    sender, receiver = ("client", "server") if direction == "client_to_server" else ("server", "client")
    side = sender if kind == "notification" else receiver
    derived = declared_path(types, side, [each for each in method.split("/") if each != "notifications"])
    use = f"{side}.extensions.{manifest.identifier}"
    if setting := manifest.declared.get(name):
        settings = types.get(manifest.settings)
        if not isinstance(settings, Object) or settings.field(setting) is None:
            raise SchemaError(f"{manifest.name}: {setting!r}, which {name} needs, is no setting of it", rule="manifest")
        use += f"#{setting}"
    return OverlayRow("capability", method, use, ".".join(derived) or None, (), "the manifest of the extension")


def _mounted(row: Method, manifest: Manifest, types: Named, methods: dict[str, str]) -> Method:
    """The row with what the manifest adds: the client's declaration as a gate, and further results."""
    asks = row.method in methods and row.kind == "request" and row.direction == "client_to_server"
    if asks and row.params and manifest.clients_declare:
        gate = CapabilityRequirement(row.params, f"client.extensions.{manifest.identifier}")
        return replace(row, requirements=(*row.requirements, gate))
    if row.method in methods and (listed := manifest.filters.get(row.type)):
        params = types.get(row.params or "")
        if row.kind != "notification" or not isinstance(params, Object) or params.field(listed[1]) is None:
            raise SchemaError(f"{manifest.name}: {row.type} is not listed by {listed[1]!r}", rule="manifest")
        return replace(row, listed=(listed[0], listed[1]))
    told = tuple(_told(name, row, manifest, types) for name in manifest.results.get(row.type, ()))
    return replace(row, interim=(*row.interim, *told)) if told else row


def _told(name: str, row: Method, manifest: Manifest, types: Named) -> InterimResult:
    """The constant by which a further result tells itself apart from the others."""
    each, result = types.get(name), types.get(row.result or "")
    if isinstance(each, Object) and isinstance(result, Object):
        for field in each.fields:
            above = result.field(field.wire)
            if isinstance(field.constant, str) and above is not None and above.constant != field.constant:
                return InterimResult(name, field.wire, field.constant)
    raise SchemaError(f"{manifest.name}: nothing tells {name} apart from {row.result}", rule="interim", at=name)
