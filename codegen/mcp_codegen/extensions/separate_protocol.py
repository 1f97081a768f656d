"""An extension with sides goes in, a conversation of its own comes out: messages, and how it opens.

The two sides stand where client and server stand in the core, with what they declare in the place of their
capabilities; messages of the core have a part in it only where the manifest names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ..errors import SchemaError
from ..importer.normalize import REF, Schema
from ..model.capabilities import CAPABILITIES, declared_path
from ..model.docs import Docs
from ..model.ir import Lifecycle, Method, Object, Plain, Ref, Revision
from ..model.methods import ROLES, derive_methods
from ..model.names import snake
from ..model.overlay import Overlay, OverlayRow
from ..model.types import Named, read_types
from .flatten import Flattener
from .manifest import Manifest

_OF_TYPES: Final = ("name", "default")
_WHO: Final = "Implementation"  # What a side calls itself.


def separate_protocol(
    manifest: Manifest, own: Schema, core: Schema, base: Revision, rows: Overlay, docs: Docs
) -> Revision:
    """The conversation as a revision, whose id is the manifest's version. Raises SchemaError."""
    definitions = _merged(manifest, own, core["$defs"])
    types = read_types({**core, "$defs": definitions}, base.id, rows, docs)
    sides = {side: said.get("capabilities", "") for side, said in manifest.sides.items()}
    lacking = [each for each in sides.values() if not isinstance(types.get(each), Object)]
    unnamed = [side for side, said in manifest.sides.items() if not said.get("name", "").isidentifier()]
    if sides.keys() != CAPABILITIES.keys() or lacking or unnamed or not manifest.version:
        what = "a version, and a client and a server, each with a name and a type of capabilities that there is"
        raise SchemaError(f"{manifest.name}: where its manifest has sides, it has to have {what}", rule="manifest")
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


def _merged(manifest: Manifest, own: Schema, core: Schema) -> Schema:
    """The definitions of both, with the roles of the manifest in the place of the core's."""
    flat = Flattener(core | own["$defs"], set(own["$defs"]), manifest).definitions()
    if clash := flat.keys() & core.keys():
        raise SchemaError(f"{manifest.name}: {min(clash)} is a type of {manifest.base} too", rule="conflict")
    merged = {**core, **flat}
    for role in ROLES:
        names = manifest.roles.get(role, [])
        if missing := [name for name in names if name not in merged]:
            what = f"the message {missing[0]!r}, which there is not"
            raise SchemaError(f"{manifest.name}: its manifest has {what}", rule="manifest")
        merged.pop(role, None)
        if names:
            merged[role] = {"anyOf": [{"$ref": REF + name} for name in names]}
    if unknown := manifest.roles.keys() - ROLES.keys():
        raise SchemaError(f"{manifest.name}: its manifest has the role {min(unknown)!r}, which there is not")
    return merged


def _derived(manifest: Manifest, types: Named, rows: Overlay) -> tuple[Method, ...]:
    """The rows by the rules of the core, with nothing that has to be declared yet."""
    named = {name for names in manifest.roles.values() for name in names}
    known = {name: each for name, each in types.items() if name in named or not _method(each)}
    known |= {name: Object(name, ()) for name in CAPABILITIES.values()}
    free = [OverlayRow("capability", method, "", None, ()) for name in named if (method := _method(types[name]))]
    kept = [row for row in rows.rows if row.table in _OF_TYPES]
    return derive_methods(known, manifest.base, Overlay((*kept, *free), rows.like))


def _method(each: object) -> str:
    field = each.field("method") if isinstance(each, Object) else None
    return str(field.constant) if field is not None and field.constant is not None else ""


def _with_capability(row: Method, manifest: Manifest, types: Named) -> Method:
    """The row with what one of the sides has to have declared: the sender of a notification, the receiver of a request;
    for a notification that only its receiver can want, the receiver too."""
    ends = ["client", "server"] if row.direction == "client_to_server" else ["server", "client"]
    name = row.name.removeprefix(f"{snake(manifest.prefix)}_")
    for side in ends if row.kind == "notification" else ends[1:]:
        path = manifest.capabilities.get(side, {}).get(row.type, "")
        if path:
            declaring = {CAPABILITIES[side]: types[manifest.sides[side]["capabilities"]]}
            if len(declared_path({**types, **declaring}, side, path.split("."))) != path.count(".") + 2:
                what = f"{row.type} would need {path!r}, which {manifest.sides[side]['capabilities']} does not have"
                raise SchemaError(f"{manifest.name}: {what}", rule="capability", at=row.type)
            return replace(row, name=name, capability=f"{side}.{path}")
    return replace(row, name=name)


def _lifecycle(manifest: Manifest, methods: tuple[Method, ...], types: Named) -> Lifecycle:
    """A handshake, with the methods of the messages that the manifest gives a role."""
    known = {row.type: row for row in methods}
    if unknown := [name for name in manifest.lifecycle.values() if name not in known]:
        raise SchemaError(f"{manifest.name}: its lifecycle names {unknown[0]!r}, which none of its sides sends")
    if "initialize_request" not in manifest.lifecycle:
        raise SchemaError(f"{manifest.name}: its lifecycle does not say which message opens a conversation")
    opening = known[manifest.lifecycle["initialize_request"]]
    asked, given = types[opening.params or ""], types[opening.result or ""]
    assert isinstance(asked, Object) and isinstance(given, Object), "the rules give messages object types"
    fields: dict[str, str | tuple[str, ...]] = {}
    for side, each in (("client", asked), ("server", given)):
        kinds = {
            _said(manifest.sides[side]["capabilities"], each): f"{side}_capabilities",
            _said(_WHO, each): f"{side}_info",
        }
        if "" in kinds:
            raise SchemaError(f"{manifest.name}: {each.name} does not say who the {side} is, and what it declares")
        fields |= {kind: wire for wire, kind in kinds.items()}
    version = [field.wire for field in asked.fields if isinstance(field.type, Plain) and given.field(field.wire)]
    if len(version) != 1:
        raise SchemaError(f"{manifest.name}: {asked.name} and {given.name} do not share one string, the version")
    fields["version"] = version[0]
    fields["required_objects"] = tuple(_further(given, set(map(str, fields.values()))))
    return Lifecycle("handshake", {role: known[name].method for role, name in manifest.lifecycle.items()}, fields)


def _said(name: str, each: Object) -> str:
    """The property that is of this type; empty where none is."""
    return next((field.wire for field in each.fields if field.type == Ref(name)), "")


def _further(given: Object, known: set[str]) -> Iterator[str]:
    return (field.wire for field in given.fields if field.required and field.wire not in known)
