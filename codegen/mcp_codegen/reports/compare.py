"""The comparison of two revisions: every change once, at the place where it is declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from ..model import ir
from ..model.methods import ROLES
from .changes import DiffChange, removable_from
from .values import Relation, TypeComparison, directions, sender
from .witness import METHOD_HEADER, NAME_HEADER, Evidence, Place, http_values, no_type

# The changes that are not a change of a method or of a type: constants, error codes, the lifecycle, and HTTP.

_BOTH: Final[Sequence[ir.Side]] = ("client", "server")
# The features of the HTTP transport, and the side whose messages they change.
_HTTP: Final[dict[str, ir.Side]] = {
    "streamable": "server",
    "version_header": "client",
    "priming_event": "server",
    "resource_metadata": "server",
}
_ENVELOPES: Final = {"Request": "JSONRPCRequest", "Notification": "JSONRPCNotification"}
_BASES: Final = {"request": "Request", "input_request": "Request", "notification": "Notification"}


def overall_changes(old: ir.Revision, new: ir.Revision, evidence: Evidence) -> Iterator[DiffChange]:
    """Yield the changes from one revision to another that concern no single method or type."""
    yield from _constants(old, new, evidence)
    yield from _codes(old, new, evidence)
    message = {"jsonrpc": "2.0", "id": 1, "method": "text"}
    if old.batches != new.batches:
        rule = "batches-added" if new.batches else "batches-removed"
        place = no_type("text", [[message]])
        yield evidence.change(rule, "JSONRPCMessage", old.batches, new.batches, senders=_BOTH, place=place)
    if old.null_ids != new.null_ids:
        error = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "not JSON"}}
        place = no_type("unreadable", [error, {**error, "id": None}])
        at = "JSONRPCErrorResponse.id"
        yield evidence.change("error-id", at, old.null_ids, new.null_ids, senders=_BOTH, place=place)
    if old.lifecycle.style != new.lifecycle.style:
        rows = [row for side in (old, new) for row in side.methods if row.direction == "client_to_server"]
        place = no_type("first", (call for row in rows for call in evidence.calls(row)[:3]))
        styles = (old.lifecycle.style, new.lifecycle.style)
        yield evidence.change("lifecycle-changed", "lifecycle", *styles, senders=["client"], place=place)
    yield from _http(old, new, evidence)


def _constants(old: ir.Revision, new: ir.Revision, evidence: Evidence) -> Iterator[DiffChange]:
    for name in (*old.constants, *(name for name in new.constants if name not in old.constants)):
        before, after = old.constants.get(name), new.constants.get(name)
        if before == after:
            continue
        rule = "constant-added" if before is None else "constant-removed" if after is None else "constant-changed"
        rule = "revision-id" if (before, after) == (old.id, new.id) else rule
        place = no_type("constants", [value for value in (before, after) if value is not None])
        yield evidence.change(rule, name, before, after, senders=_BOTH, place=place)


def _codes(old: ir.Revision, new: ir.Revision, evidence: Evidence) -> Iterator[DiffChange]:
    """Yield the error codes that only one of the revisions reserves, with the code that is sent instead."""
    for rule, codes, others in (
        ("code-reserved", new.reserved_codes, old.reserved_codes),
        ("code-free", old.reserved_codes, new.reserved_codes),
    ):
        for reserved in codes:
            if reserved not in others:
                text = _range(reserved)
                texts = (text, reserved.replacement) if rule == "code-reserved" else (reserved.replacement, text)
                values = ({"code": code, "message": "text"} for code in range(reserved.first, reserved.last + 1))
                place = no_type("codes", values)
                yield evidence.change(rule, f"errors.{text}", *texts, senders=_BOTH, place=place)


def _range(reserved: ir.ReservedErrorCodes) -> str:
    return str(reserved.first) if reserved.first == reserved.last else f"{reserved.first}..{reserved.last}"


def _http(old: ir.Revision, new: ir.Revision, evidence: Evidence) -> Iterator[DiffChange]:
    for feature, sending in _HTTP.items():
        before, after = getattr(old.http, feature), getattr(new.http, feature)
        if before != after:
            place = no_type(f"http {feature}", http_values(feature))
            yield evidence.change("http-changed", f"http.{feature}", before, after, senders=[sending], place=place)
    for method in dict.fromkeys((*old.http.name_params, *new.http.name_params)):
        names = [side.http.name_params.get(method) for side in (old, new)]
        if names[0] != names[1]:
            shown = [f"{METHOD_HEADER}, {NAME_HEADER}: params.{name}" if name else "" for name in names]
            feature = f"headers {method}"
            place = no_type(f"http {feature}", http_values(feature))
            yield evidence.change("http-changed", f"http.{feature}", *shown, senders=["client"], place=place)
    if bool(old.http.tool_schemas) != bool(new.http.tool_schemas):
        texts = (old.http.tool_schemas, new.http.tool_schemas)
        place = no_type("http tool_headers", http_values("tool_headers"))
        yield evidence.change("http-changed", "http.tool_headers", *texts, senders=["client"], place=place)


# The canonical form of a revision, without differences that are not visible on the wire.
#
# Some revisions declare the envelope of a message (`jsonrpc`, `id`) in every message and some separately; some declare
# the common properties of params only in the base message. Neither makes a difference on the wire.


def canonical(revision: ir.Revision) -> ir.Revision:
    """Return the revision with messages without their envelope, and params with all properties that they may have."""
    types = dict(revision.types)
    for message in revision.objects():
        if message.field("method") is not None:
            types[message.name] = _without(message, _envelope(message, revision))
    for row in revision.methods:
        params = types.get(row.params or "")
        if isinstance(params, ir.Object):
            missing = tuple(field for field in _common(_BASES[row.kind], revision) if params.field(field.wire) is None)
            types[params.name] = replace(params, fields=(*params.fields, *missing))
    return replace(revision, types=types)


def _without(message: ir.Object, names: set[str]) -> ir.Object:
    extends = tuple(name for name in message.extends if name not in _BASES.values() and name not in _ENVELOPES.values())
    return replace(message, fields=tuple(field for field in message.fields if field.wire not in names), extends=extends)


def _envelope(message: ir.Object, revision: ir.Revision) -> set[str]:
    """Return the envelope properties of this kind of message."""
    if message.name in (*_ENVELOPES, *_ENVELOPES.values()):
        return set()
    properties: set[str] = set()
    for base, whole in _ENVELOPES.items():
        if message.name.endswith(base):
            names = [_names(revision.types.get(name)) for name in (base, whole)]
            properties = names[1] - names[0]
    return properties


def _names(type: ir.Object | ir.Alias | None) -> set[str]:
    return {field.wire for field in type.fields} if isinstance(type, ir.Object) else set()


def _common(base: str, revision: ir.Revision) -> tuple[ir.Field, ...]:
    """Return the properties that the params of every message have."""
    message = revision.types.get(base)
    params = message.field("params") if isinstance(message, ir.Object) else None
    inner = revision.types.get(params.type.name) if params is not None and isinstance(params.type, ir.Ref) else None
    return inner.fields if isinstance(inner, ir.Object) else ()


@dataclass(frozen=True, slots=True)
class _TypeChange:
    """A change of a type before it is rated; `field` is empty for the type itself."""

    rule: str
    field: str
    before: str
    after: str


def compare(older: ir.Revision, newer: ir.Revision) -> list[DiffChange]:
    """Return the changes from one revision to another: methods, then types and their fields, then the rest."""
    return _RevisionComparison(older, newer).changes()


class _RevisionComparison:
    def __init__(self, older: ir.Revision, newer: ir.Revision) -> None:
        older, newer = canonical(older), canonical(newer)
        self._older = older
        self._newer = newer
        self._renamed = renamed_types(older, newer)
        self._values = TypeComparison(older, newer, self._renamed)
        self._directions = directions(older, newer)
        self._evidence = Evidence(older, newer)
        self._removable = removable_from(newer.id)
        self._type_changes: dict[str, list[_TypeChange]] = {}

    def changes(self) -> list[DiffChange]:
        return [*self._methods(), *self._types(), *overall_changes(self._older, self._newer, self._evidence)]

    # ---- methods ----------------------------------------------------------------------------------------------------

    def _methods(self) -> Iterator[DiffChange]:
        before = {(row.method, row.direction): row for row in self._older.methods}
        after = {(row.method, row.direction): row for row in self._newer.methods}
        for key in (*before, *(key for key in after if key not in before)):
            old, new = before.get(key), after.get(key)
            if old is None and new is not None:
                open_to_all = new.kind == "request" and not new.capability
                yield self._method_change("method-required" if open_to_all else "method-added", new, "", _row(new))
            elif new is None and old is not None:
                yield self._method_change("method-removed", old, _row(old), "")
            elif old is not None and new is not None:
                yield from self._method(old, new)

    def _method(self, old: ir.Method, new: ir.Method) -> Iterator[DiffChange]:
        aspects = [
            ("method-kind", old.kind, new.kind),
            ("params-type", self._new_name(old.params), new.params or ""),
            ("result-type", self._new_name(old.result), new.result or ""),
            ("capability-changed", old.capability, new.capability),
        ]
        for rule, before, after in aspects:
            if before != after:
                if rule == "params-type" and not (before and after):
                    rule = "params-added" if after else "params-removed"
                place = no_type(f"calls {new.direction}", self._evidence.calls(old, new))
                yield self._method_change(rule, new, before, after, place)
        if old.params and new.params and old.params_required != new.params_required:
            rule = "params-required" if new.params_required else "params-optional"
            yield self._method_change(rule, new, old.params, new.params)
        yield from self._interim(old, new)
        if old.deprecated != new.deprecated:
            yield self._method_change("method-deprecated" if new.deprecated else "method-restored", new, "", "")

    def _interim(self, old: ir.Method, new: ir.Method) -> Iterator[DiffChange]:
        """Yield the changes of the results that may arrive before the final one."""
        before, after = ({interim.type: interim for interim in row.interim} for row in (old, new))
        for name in sorted(before.keys() ^ after.keys()):
            if (before.get(name) or after[name]).value is None:  # Its property is one of the params.
                rule = "interim-on-request"
            else:
                rule = "interim-added" if name in after else "interim-removed"
            texts = ("", name) if name in after else (name, "")
            place = no_type(f"results {new.direction} {new.method}", self._evidence.values(name), in_response=True)
            yield self._method_change(rule, new, *texts, place)

    def _new_name(self, name: str | None) -> str:
        return self._renamed.get(name or "", name or "")

    def _method_change(
        self, rule: str, row: ir.Method, before: str, after: str, place: Place | None = None
    ) -> DiffChange:
        senders: list[ir.Side] = [sender(row)]
        if rule == "capability-changed":  # One side declares it, and the other one relies on that.
            declared = (self._evidence.values(f"{side}Capabilities") for side in ("Client", "Server"))
            place = no_type(f"capabilities {row.direction} {row.method}", ({}, *chain.from_iterable(declared)))
            senders = ["client", "server"]
        place = place or no_type(f"calls {row.direction}", self._evidence.calls(row))
        at = f"{row.method} ({row.direction.replace('_', ' ')})"
        change = self._evidence.change(rule, at, before, after, senders=senders, place=place)
        return replace(change, removable=self._removable) if rule == "method-deprecated" else change

    # ---- types ------------------------------------------------------------------------------------------------------

    def _types(self) -> Iterator[DiffChange]:
        for name, old in self._older.types.items():
            new_name = self._renamed.get(name, name)
            new = self._newer.types.get(new_name)
            if new is None:
                yield self._type_change(name, _TypeChange("type-removed", "", _kind(old), ""))
                continue
            if new_name != name:
                yield self._type_change(new_name, _TypeChange("type-renamed", "", name, new_name))
            for change in self._changes_of(name) if new_name not in ROLES else ():
                if not self._is_inherited(old, new, change):
                    yield self._type_change(new_name, change, name)
        old_names = {self._renamed.get(name, name) for name in self._older.types}
        for name, new in self._newer.types.items():
            if name not in old_names:
                yield self._type_change(name, _TypeChange("type-added", "", "", _kind(new)))

    def _type_change(self, name: str, change: _TypeChange, older_name: str = "") -> DiffChange:
        at = f"{name}.{change.field}" if change.field else name
        place = Place(older_name or name, name, change.field)
        rated = self._evidence.change(
            change.rule, at, change.before, change.after, senders=self._directions.of(name), place=place
        )
        return replace(rated, removable=self._removable) if change.rule.endswith("-deprecated") else rated

    def _is_inherited(self, old: ir.Object | ir.Alias, new: ir.Object | ir.Alias, change: _TypeChange) -> bool:
        """Return True if a base of this type, before or after, has the same change and reports it."""
        bases = {*(old.extends if isinstance(old, ir.Object) else ())}
        bases |= {*(new.extends if isinstance(new, ir.Object) else ())} & self._older.types.keys()
        return bool(change.field) and any(change in self._changes_of(name) for name in bases)

    def _changes_of(self, name: str) -> list[_TypeChange]:
        """Return the changes of a type that both revisions have, by its older name."""
        if name not in self._type_changes:
            newer_type = self._newer.types.get(self._renamed.get(name, name))
            self._type_changes[name] = (
                [] if newer_type is None else list(self._compare_types(self._older.types[name], newer_type))
            )
        return self._type_changes[name]

    def _compare_types(self, old: ir.Object | ir.Alias, new: ir.Object | ir.Alias) -> Iterator[_TypeChange]:
        if old.deprecated != new.deprecated:
            yield _TypeChange("type-deprecated" if new.deprecated else "type-restored", "", "", "")
        if isinstance(old, ir.Object) and isinstance(new, ir.Object):
            bases = [self._renamed.get(name, name) for name in old.extends]
            if bases != list(new.extends):
                yield _TypeChange("type-extends", "", ", ".join(bases), ", ".join(new.extends))
            yield from self._fields(old, new)
        elif isinstance(old, ir.Alias) and isinstance(new, ir.Alias):
            yield from self._relation("", old.type, new.type)
        else:
            yield _TypeChange("type-form", "", _kind(old), _kind(new))

    def _fields(self, old: ir.Object, new: ir.Object) -> Iterator[_TypeChange]:
        for field in old.fields:
            new_field = new.field(field.wire)
            if new_field is None:
                rule = "field-removed-required" if field.required else "field-removed"
                yield _TypeChange(rule, field.wire, show(field.type), "")
            else:
                yield from self._field(field, new_field)
        for field in new.fields:
            if old.field(field.wire) is None:
                rule = "field-added-required" if field.required else "field-added"
                yield _TypeChange(rule, field.wire, "", show(field.type))

    def _field(self, old: ir.Field, new: ir.Field) -> Iterator[_TypeChange]:
        if old.required != new.required:
            yield _TypeChange("field-required" if new.required else "field-optional", old.wire, "", "")
        if old.deprecated != new.deprecated:
            yield _TypeChange("field-deprecated" if new.deprecated else "field-restored", old.wire, "", "")
        yield from self._relation(old.wire, old.type, new.type)

    def _relation(self, field: str, before: ir.Type, after: ir.Type) -> Iterator[_TypeChange]:
        # A type that both sides refer to by name reports its changes itself.
        if (
            isinstance(before, ir.Ref)
            and isinstance(after, ir.Ref)
            and self._renamed.get(before.name, before.name) == after.name
        ):
            return
        relation = self._values.relate(before, after)
        if relation is not Relation.SAME:
            yield _TypeChange(relation.value, field, show(before), show(after))


def renamed_types(older: ir.Revision, newer: ir.Revision) -> dict[str, str]:
    """Return the new name of each type of the older revision that only changed its name."""
    removed = [type for name, type in older.types.items() if name not in newer.types]
    added = [type for name, type in newer.types.items() if name not in older.types]
    names: dict[str, str] = {}
    for old in removed:
        equals = [new for new in added if _nameless(new) == _nameless(old)]
        if len(equals) == 1 and isinstance(old, ir.Object) and old.fields:
            names[old.name] = equals[0].name
    return {name: new_name for name, new_name in names.items() if list(names.values()).count(new_name) == 1}


def _nameless(type: ir.Object | ir.Alias) -> ir.Object | ir.Alias:
    if isinstance(type, ir.Alias):
        return replace(type, name="", doc="", category="", deprecated=False)
    fields = tuple(
        sorted((replace(field, doc="", deprecated=False) for field in type.fields), key=lambda field: field.wire)
    )
    return ir.Object("", fields)


def _row(row: ir.Method) -> str:
    return f"{row.kind.replace('_', ' ')}, {row.params or 'no params'}" + (f" → {row.result}" if row.result else "")


def _kind(type: ir.Object | ir.Alias) -> str:
    if isinstance(type, ir.Alias):
        return show(type.type)
    return "object of " + ", ".join(field.wire + ("" if field.required else "?") for field in type.fields)


def show(written: ir.Type) -> str:
    """Return a type in the syntax of schema.ts."""
    match written:
        case ir.Ref(name):
            return name
        case ir.Plain(kind, open_values=values):
            return kind + (f" ({', '.join(values)}, …)" if values else "") + _bounds(written)
        case ir.Values(values):
            return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)
        case ir.Array(items):
            limit = f" (≤ {written.max_items})" if written.max_items is not None else ""
            return (f"({show(items)})[]" if isinstance(items, (ir.Union, ir.Values)) else f"{show(items)}[]") + limit
        case ir.Map(values):
            return f"{{[key]: {show(values)}}}"
        case ir.Union(arms):
            return " | ".join(show(arm) for arm in arms)


def _bounds(plain: ir.Plain) -> str:
    bounds = {
        "≥": plain.minimum,
        "≤": plain.maximum,
        "length ≥": plain.min_length,
        "length ≤": plain.max_length,
        "matches": plain.pattern,
    }
    text = ", ".join(f"{word} {bound}" for word, bound in bounds.items() if bound is not None)
    return f" ({text})" if text else ""
