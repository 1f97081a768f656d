"""One type for each name of the protocol, with the properties of all revisions that a form knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from ..model.ir import Alias, Array, Field, Map, Method, Object, Plain, Ref, Revision, Type, Union
from ..model.names import pascal
from ..model.overlay import Form

MESSAGE_UNIONS: Final = tuple(
    f"{side}{kind}" for kind in ("Request", "Notification", "Result") for side in ("Client", "Server")
)
_CAPABILITIES: Final = ("ClientCapabilities", "ServerCapabilities")
_META: Final = "_meta"
_RESULT_TYPE: Final = "resultType"


def merge(revisions: Sequence[Revision], form: Form) -> Protocol:
    """Return the types of the protocol as all these revisions have them together; the newest one is the last."""
    types = {name: defined for revision in revisions for name, defined in revision.types.items()}
    merged = Protocol(tuple(revisions), form, {})
    for name, newest in types.items():
        defined = merged.object_of(name, newest) if isinstance(newest, Object) else newest
        merged.types[name] = defined
    for first, second in form.texts("copy").items():
        merged.types[second] = replace(merged.types[first], name=second)
    for name, defined in types.items():
        if isinstance(defined, Alias) and isinstance(defined.type, Ref):  # `EmptyResult` is a class of its own.
            target = types.get(defined.type.name)
            if isinstance(target, Object):
                copy = replace(target, name=name, extends=(target.name,), doc=defined.doc)
                merged.types[name] = merged.object_of(name, copy)
    return merged


@dataclass(frozen=True)
class Protocol:
    """The merged types by name, and the messages of all revisions."""

    revisions: tuple[Revision, ...]
    form: Form
    types: dict[str, Object | Alias]

    @cached_property
    def methods(self) -> dict[str, Method]:
        """Return the newest row of each message by the name of its type."""
        return {row.type: row for revision in self.revisions for row in revision.methods}

    def methods_of(self, type: str) -> list[str]:
        """Return the methods that messages of a type have had, oldest first."""
        rows = [row for revision in self.revisions for row in revision.methods if row.type == type]
        return list(dict.fromkeys(row.method for row in rows))

    @cached_property
    def results(self) -> set[str]:
        """Return the results of the requests of clients, in revisions whose results have a type."""
        return {
            row.result
            for revision in self.revisions
            if revision.lifecycle.style == "stateless"
            for row in revision.methods
            if row.kind == "request" and row.direction == "client_to_server" and row.result
        }

    def object_of(self, name: str, newest: Object) -> Object:
        """Return an object with the properties that any revision gives it. One is required if all of them do."""
        versions = [
            defined for revision in self.revisions if isinstance(defined := revision.types.get(name), Object)
        ] or [newest]
        fields = {field.wire: field for version in reversed(versions) for field in version.fields}
        fields |= {field.wire: field for field in newest.fields}
        extends = dict.fromkeys(base for version in reversed([*versions, newest]) for base in version.extends)
        return replace(newest, fields=tuple(self._own(name, versions, fields)), extends=tuple(extends))

    def _own(self, name: str, versions: Sequence[Object], fields: Mapping[str, Field]) -> Iterator[Field]:
        has_type = name in self.results or self.form.row("field", f"{name}.{_RESULT_TYPE}") is not None
        for wire, field in fields.items():
            if self.form.row("undeclared", f"{name}.{wire}") or (wire == _RESULT_TYPE and not has_type):
                continue
            places = [version.field(wire) for version in versions]
            is_required = wire != _META and all(place is not None and place.required for place in places)
            yield replace(field, required=is_required)

    def needs_params(self, row: Method) -> bool:
        """Return True if the params of a message have a property that some revision requires, besides `_meta`."""
        params = [revision.types.get(row.params or "") for revision in self.revisions]
        objects = [defined for defined in params if isinstance(defined, Object)]
        return any(field.required and field.wire != _META for defined in objects for field in defined.fields)

    def is_json(self, type: Type) -> bool:
        """Return True for an object of any properties, and for a JSON Schema."""
        match type:
            case Map(Plain("any")) | Map(Ref("JSONValue")):
                return True
            case Ref(name):
                defined = self.types[name]
                if isinstance(defined, Alias):
                    return self.is_json(defined.type)
                return defined.field("$schema") is not None
            case _:
                return False

    @cached_property
    def capabilities(self) -> CapabilityNames:
        """Return the names of the classes of capabilities. A name begins with its side where both sides differ."""
        found = [entry for side in _CAPABILITIES if side in self.types for entry in self._walk(side, (), side)]
        shapes: dict[str, set[str]] = {}
        for entry in found:
            shapes.setdefault(entry.name, set()).add(entry.shape)
        names = CapabilityNames({}, {})
        for entry in found:
            side = entry.side.removesuffix("Capabilities") if len(shapes[entry.name]) > 1 else ""
            if entry.object:
                names.of_types[entry.object] = side + entry.name
            else:
                names.of_empty_objects[entry.owner, entry.wire] = side + entry.name
        return names

    def _walk(self, owner: str, path: tuple[str, ...], side: str) -> Iterator[_Capability]:
        defined = self.types[owner]
        for field in defined.fields if isinstance(defined, Object) else ():
            steps = (*path, field.wire)
            name = "".join(map(pascal, (*(step for step in steps[:-1] if step != "requests"), steps[-1])))
            if self.is_json(field.type):
                yield _Capability(f"{name}Capability", side, owner, field.wire, "", "")
            elif isinstance(field.type, Ref):
                yield _Capability(
                    f"{name}Capability", side, owner, field.wire, field.type.name, self._shape(field.type.name)
                )
                yield from self._walk(field.type.name, steps, side)

    def _shape(self, name: str) -> str:
        defined = self.types[name]
        fields = defined.fields if isinstance(defined, Object) else ()
        parts = (
            f"{field.wire}:{self._shape(field.type.name) if isinstance(field.type, Ref) else ''}" for field in fields
        )
        return f"{{{' '.join(sorted(parts))}}}"

    def references(self, type: Type) -> Iterator[str]:
        """Yield the names of the types in a type, without those of objects of any properties."""
        match type:
            case _ if self.is_json(type):
                return
            case Ref(name):
                yield name
            case Array(items):
                yield from self.references(items)
            case Map(values):
                yield from self.references(values)
            case Union(arms):
                for arm in arms:
                    yield from self.references(arm)
            case _:
                return

    def reached(self) -> dict[str, None]:
        """Return the names of the types that messages, errors and the rows of the form need, bases included."""
        waiting = [*self.form.places("also"), *self.form.texts("copy").values(), "JSONRPCMessage"]
        waiting += [*self._message_types(), *self._error_data()]
        reached: dict[str, None] = {}
        while waiting:
            name = waiting.pop()
            if name in reached or name not in self.types:
                continue
            reached[name] = None
            defined = self.types[name]
            if isinstance(defined, Alias):
                waiting += self.references(defined.type)
                continue
            waiting += defined.extends
            for field in defined.fields:
                if field.wire != _META and name not in self.methods:
                    waiting += self.references(field.type)
        return reached

    def _message_types(self) -> Iterator[str]:
        for revision in self.revisions:
            for row in revision.methods:
                yield from filter(None, (row.type, row.params, row.result))
                yield from (interim.type for interim in row.interim)

    def _error_data(self) -> Iterator[str]:
        """Yield the types of the data of errors."""
        for defined in self.types.values():
            data = defined.field("data") if isinstance(defined, Object) and "Error" in defined.extends else None
            if data is not None and isinstance(data.type, Ref):
                yield data.type.name

    def message_union(self, name: str) -> list[str]:
        """Return the messages of a union: those of the last handshake first, then others, interim results last."""
        order = sorted(self.revisions, key=lambda revision: revision.lifecycle.style == "stateless")
        handshakes = [revision for revision in order if revision.lifecycle.style != "stateless"]
        order = [*reversed(handshakes), *order[len(handshakes) :]]
        arms: dict[str, None] = {}
        for revision in order:
            defined = revision.types.get(name)
            arms |= dict.fromkeys(self.references(defined.type) if isinstance(defined, Alias) else ())
        if name.endswith("Result"):
            sender = "server_to_client" if name.startswith("Client") else "client_to_server"
            rows = [row for revision in order for row in revision.methods if row.direction == sender]
            arms |= dict.fromkeys(interim.type for row in rows for interim in row.interim)
        return [arm for arm in self._with_copies(arms) if not self.is_left_out(arm)]

    def copied(self, type: Type) -> Type:
        """Return a union with each copy after its original, and any other type as it is."""
        if not isinstance(type, Union) or not all(isinstance(arm, Ref) for arm in type.arms):
            return type
        return replace(type, arms=tuple(map(Ref, self._with_copies(dict.fromkeys(self.references(type))))))

    def _with_copies(self, arms: Mapping[str, None]) -> Iterator[str]:
        for arm in arms:
            yield from filter(None, (arm, self.form.texts("copy").get(arm)))

    def is_left_out(self, name: str) -> bool:
        """Return True for a type of a category that the form leaves out."""
        return self.form.leaves_out(self.types[name])


@dataclass(frozen=True)
class CapabilityNames:
    """The names of the classes of capabilities: of types, and of properties that are empty objects."""

    of_types: dict[str, str]
    of_empty_objects: dict[tuple[str, str], str]


@dataclass(frozen=True)
class _Capability:
    """A property in capabilities: the name of its class, the side, where it stands, and what object it has."""

    name: str
    side: str
    owner: str
    wire: str
    object: str
    shape: str
