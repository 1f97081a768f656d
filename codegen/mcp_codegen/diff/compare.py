"""Two revisions go in, every change between them comes out, each once, where it is declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..model.ir import (
    Alias,
    Array,
    Field,
    Map,
    Method,
    Object,
    Plain,
    Ref,
    Revision,
    Type,
    Union,
    Values,
)
from ..model.methods import ROLES
from .canonical import canonical
from .changes import DiffChange, removable_from
from .direction import directions, sender, severity
from .values import Compared, Relation


@dataclass(frozen=True, slots=True)
class _Noted:
    """A change of a type before it is judged; `field` is empty for the type as a whole."""

    rule: str
    field: str
    before: str
    after: str


def compare(older: Revision, newer: Revision) -> list[DiffChange]:
    """What changed from one revision to another: methods first, then types and their fields, then the rest."""
    return _Comparison(older, newer).changes()


class _Comparison:
    def __init__(self, older: Revision, newer: Revision) -> None:
        older, newer = canonical(older), canonical(newer)
        self._older = older
        self._newer = newer
        self._renamed = _renamed(older, newer)
        self._values = Compared(older, newer, self._renamed)
        self._travel = directions(older, newer)
        self._removable = removable_from(newer.id)
        self._noted: dict[str, list[_Noted]] = {}

    def changes(self) -> list[DiffChange]:
        return [*self._methods(), *self._types(), *self._whole()]

    # ---- methods ----------------------------------------------------------------------------------------------------

    def _methods(self) -> Iterator[DiffChange]:
        before = {(row.method, row.direction): row for row in self._older.methods}
        after = {(row.method, row.direction): row for row in self._newer.methods}
        for key in (*before, *(key for key in after if key not in before)):
            mine, theirs = before.get(key), after.get(key)
            if mine is None and theirs is not None:
                open_to_all = theirs.kind == "request" and not theirs.capability
                yield self._of_method("method-required" if open_to_all else "method-added", theirs, "", _row(theirs))
            elif theirs is None and mine is not None:
                yield self._of_method("method-removed", mine, _row(mine), "")
            elif mine is not None and theirs is not None:
                yield from self._method(mine, theirs)

    def _method(self, mine: Method, theirs: Method) -> Iterator[DiffChange]:
        pairs = [
            ("method-kind", mine.kind, theirs.kind),
            ("params-type", self._new_name(mine.params), theirs.params or ""),
            ("result-type", self._new_name(mine.result), theirs.result or ""),
            ("capability-changed", mine.capability, theirs.capability),
        ]
        for rule, before, after in pairs:
            if before != after:
                if rule == "params-type" and not (before and after):
                    rule = "params-added" if after else "params-removed"
                yield self._of_method(rule, theirs, before, after)
        if mine.params and theirs.params and mine.params_required != theirs.params_required:
            rule = "params-required" if theirs.params_required else "params-optional"
            yield self._of_method(rule, theirs, mine.params, theirs.params)
        had, has = ({interim.type for interim in row.interim} for row in (mine, theirs))
        for name in sorted(has - had):
            yield self._of_method("interim-added", theirs, "", name)
        for name in sorted(had - has):
            yield self._of_method("interim-removed", theirs, name, "")
        if mine.deprecated != theirs.deprecated:
            yield self._of_method("method-deprecated" if theirs.deprecated else "method-restored", theirs, "", "")

    def _new_name(self, name: str | None) -> str:
        return self._renamed.get(name or "", name or "")

    def _of_method(self, rule: str, row: Method, before: str, after: str) -> DiffChange:
        client, server = severity(rule, [sender(row)])
        removable = self._removable if rule == "method-deprecated" else ""
        return DiffChange(
            rule, f"{row.method} ({row.direction.replace('_', ' ')})", before, after, client, server, removable
        )

    # ---- types ------------------------------------------------------------------------------------------------------

    def _types(self) -> Iterator[DiffChange]:
        for name, each in self._older.types.items():
            now = self._renamed.get(name, name)
            other = self._newer.types.get(now)
            if other is None:
                yield self._of_type(name, _Noted("type-removed", "", _kind(each), ""))
                continue
            if now != name:
                yield self._of_type(now, _Noted("type-renamed", "", name, now))
            for noted in self._of_pair(name) if now not in ROLES else ():
                if not self._is_inherited(each, other, noted):
                    yield self._of_type(now, noted)
        old_names = {self._renamed.get(name, name) for name in self._older.types}
        for name, each in self._newer.types.items():
            if name not in old_names:
                yield self._of_type(name, _Noted("type-added", "", "", _kind(each)))

    def _of_type(self, name: str, noted: _Noted) -> DiffChange:
        client, server = self._travel.severities(noted.rule, name)
        removable = self._removable if noted.rule.endswith("-deprecated") else ""
        at = f"{name}.{noted.field}" if noted.field else name
        return DiffChange(noted.rule, at, noted.before, noted.after, client, server, removable)

    def _is_inherited(self, each: Object | Alias, other: Object | Alias, noted: _Noted) -> bool:
        """Whether a type that this one extends, before or after, has the very same change, and reports it."""
        above = {*(each.extends if isinstance(each, Object) else ())}
        above |= {*(other.extends if isinstance(other, Object) else ())} & self._older.types.keys()
        return bool(noted.field) and any(noted in self._of_pair(name) for name in above)

    def _of_pair(self, name: str) -> list[_Noted]:
        """The changes of a type that both revisions have, by its older name."""
        if name not in self._noted:
            other = self._newer.types.get(self._renamed.get(name, name))
            self._noted[name] = [] if other is None else list(self._pair(self._older.types[name], other))
        return self._noted[name]

    def _pair(self, mine: Object | Alias, theirs: Object | Alias) -> Iterator[_Noted]:
        if mine.deprecated != theirs.deprecated:
            yield _Noted("type-deprecated" if theirs.deprecated else "type-restored", "", "", "")
        if isinstance(mine, Object) and isinstance(theirs, Object):
            above = [self._renamed.get(name, name) for name in mine.extends]
            if above != list(theirs.extends):
                yield _Noted("type-extends", "", ", ".join(above), ", ".join(theirs.extends))
            yield from self._fields(mine, theirs)
        elif isinstance(mine, Alias) and isinstance(theirs, Alias):
            yield from self._relation("", mine.type, theirs.type)
        else:
            yield _Noted("type-form", "", _kind(mine), _kind(theirs))

    def _fields(self, mine: Object, theirs: Object) -> Iterator[_Noted]:
        for field in mine.fields:
            other = theirs.field(field.wire)
            if other is None:
                rule = "field-removed-required" if field.required else "field-removed"
                yield _Noted(rule, field.wire, show(field.type), "")
            else:
                yield from self._field(field, other)
        for field in theirs.fields:
            if mine.field(field.wire) is None:
                rule = "field-added-required" if field.required else "field-added"
                yield _Noted(rule, field.wire, "", show(field.type))

    def _field(self, mine: Field, theirs: Field) -> Iterator[_Noted]:
        if mine.required != theirs.required:
            yield _Noted("field-required" if theirs.required else "field-optional", mine.wire, "", "")
        if mine.deprecated != theirs.deprecated:
            yield _Noted("field-deprecated" if theirs.deprecated else "field-restored", mine.wire, "", "")
        yield from self._relation(mine.wire, mine.type, theirs.type)

    def _relation(self, field: str, before: Type, after: Type) -> Iterator[_Noted]:
        # Behind a name that both have is a type of its own, which reports its changes itself.
        if (
            isinstance(before, Ref)
            and isinstance(after, Ref)
            and self._renamed.get(before.name, before.name) == after.name
        ):
            return
        relation = self._values.relate(before, after)
        if relation is not Relation.SAME:
            yield _Noted(relation.value, field, show(before), show(after))

    # ---- the rest -----------------------------------------------------------------------------------------------------

    def _whole(self) -> Iterator[DiffChange]:
        old, new = self._older, self._newer
        for name in (*old.constants, *(name for name in new.constants if name not in old.constants)):
            before, after = old.constants.get(name), new.constants.get(name)
            if before != after:
                rule = (
                    "constant-added" if before is None else "constant-removed" if after is None else "constant-changed"
                )
                rule = "revision-id" if (before, after) == (old.id, new.id) else rule
                yield _of_both(rule, name, before, after)
        if old.batches != new.batches:
            rule = "batches-added" if new.batches else "batches-removed"
            yield _of_both(rule, "JSONRPCMessage", old.batches, new.batches)
        if old.null_ids != new.null_ids:
            yield _of_both("error-id", "JSONRPCErrorResponse.id", old.null_ids, new.null_ids)
        if old.lifecycle.style != new.lifecycle.style:
            yield _of_both("lifecycle-changed", "lifecycle", old.lifecycle.style, new.lifecycle.style)
        for feature in ("streamable", "version_header", "priming_event", "resource_metadata"):
            before, after = getattr(old.http, feature), getattr(new.http, feature)
            if before != after:
                yield _of_both("http-changed", f"http.{feature}", before, after)


def _of_both(rule: str, at: str, before: object, after: object) -> DiffChange:
    client, server = severity(rule, ["client", "server"])
    return DiffChange(
        rule, at, "" if before is None else str(before), "" if after is None else str(after), client, server
    )


def _renamed(older: Revision, newer: Revision) -> dict[str, str]:
    """The types of the older revision that stand in the newer one unchanged but for their name, with that name."""
    gone = [each for name, each in older.types.items() if name not in newer.types]
    come = [each for name, each in newer.types.items() if name not in older.types]
    found: dict[str, str] = {}
    for each in gone:
        twins = [other for other in come if _nameless(other) == _nameless(each)]
        if len(twins) == 1 and isinstance(each, Object) and each.fields:
            found[each.name] = twins[0].name
    return {name: now for name, now in found.items() if list(found.values()).count(now) == 1}


def _nameless(each: Object | Alias) -> Object | Alias:
    if isinstance(each, Alias):
        return replace(each, name="", doc="", category="", deprecated=False)
    fields = tuple(
        sorted((replace(field, doc="", deprecated=False) for field in each.fields), key=lambda field: field.wire)
    )
    return Object("", fields)


def _row(row: Method) -> str:
    return f"{row.kind.replace('_', ' ')}, {row.params or 'no params'}" + (f" → {row.result}" if row.result else "")


def _kind(each: Object | Alias) -> str:
    if isinstance(each, Alias):
        return show(each.type)
    return "object of " + ", ".join(field.wire + ("" if field.required else "?") for field in each.fields)


def show(written: Type) -> str:
    """A type in the manner of schema.ts."""
    match written:
        case Ref(name):
            return name
        case Plain(kind, known=known):
            return kind + (f" ({', '.join(known)}, …)" if known else "") + _bounds(written)
        case Values(values):
            return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)
        case Array(items):
            most = f" (≤ {written.max_items})" if written.max_items is not None else ""
            return (f"({show(items)})[]" if isinstance(items, (Union, Values)) else f"{show(items)}[]") + most
        case Map(values):
            return f"{{[key]: {show(values)}}}"
        case Union(arms):
            return " | ".join(show(arm) for arm in arms)


def _bounds(plain: Plain) -> str:
    said = {
        "≥": plain.minimum,
        "≤": plain.maximum,
        "length ≥": plain.min_length,
        "length ≤": plain.max_length,
        "matches": plain.pattern,
    }
    text = ", ".join(f"{word} {bound}" for word, bound in said.items() if bound is not None)
    return f" ({text})" if text else ""
