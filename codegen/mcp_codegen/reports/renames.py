"""The names that changed between two revisions: those that rows of [[rename]] have, and those that the types suggest.

A name is suggested if one property of a type is gone and another one is new whose values are the same, or one method
whose params and results are the same; and no other one is. Only whoever wrote the revision knows if they mean the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Final, Literal

from ..conversion.derive import Renames, derive_step
from ..conversion.rules import ConversionRule, Conversions
from ..conversion.shapes import Containment, Shapes
from ..model.ir import Field, Method, Object, Ref, Revision
from .changes import DIFF_RULES, DiffChange
from .compare import renamed_types

_ALIKE: Final = 0.5  # Of two names, among several that are possible.


@dataclass(frozen=True, slots=True)
class Rename:
    """A name of the older revision, `place`, and the name of the same in the newer one. `kind` is the key of the place
    in a row: `at` for a property, `method` or `type`."""

    kind: Literal["at", "method", "type"]
    place: str
    use: str

    def row(self, newer: str) -> str:
        """Return the row to write for it."""
        word = {"at": "property", "method": "method", "type": "type"}[self.kind]
        values = {self.kind: self.place, "use": self.use, "reason": f"{newer} renamed the {word}."}
        lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
        return "\n".join(("[[rename]]", *lines))

    def rule(self) -> ConversionRule:
        """Return the row as it is read."""
        return ConversionRule("rename", self.place, {"use": self.use}, "It is suggested.", self.kind)


def with_renames(conversions: Conversions, renames: Iterable[Rename]) -> Conversions:
    """Return the rows of a file and these; whether they are used is noted in the copies."""
    return Conversions((*(replace(row) for row in conversions.rows), *(rename.rule() for rename in renames)))


def known_renames(older: Revision, newer: Revision, conversions: Conversions) -> list[Rename]:
    """Return the changed names between two revisions that have a row. Raises OverlayError for an untrue row."""
    return list(_Names(older, newer, conversions).known())


def suggested_renames(older: Revision, newer: Revision, conversions: Conversions) -> list[Rename]:
    """Return the changed names between two revisions that have no row, and that the types suggest."""
    names = _Names(older, newer, conversions)
    renames = list(names.suggested())
    for name, other in names.types_without_a_row():
        rename = Rename("type", name, other)
        with_it = with_renames(conversions, (*renames, rename))
        if _rules(older, newer, with_it) != _rules(older, newer, with_renames(conversions, renames)):
            renames.append(rename)
    return renames


def _rules(older: Revision, newer: Revision, conversions: Conversions) -> list[dict[str, str]]:
    """Return what conversions between two revisions lose or refuse, both ways."""
    return [derive_step(*pair, conversions).rules for pair in ((older, newer), (newer, older))]


class _Names:
    def __init__(self, older: Revision, newer: Revision, conversions: Conversions) -> None:
        old, new = Shapes(older, {}), Shapes(newer, {})
        self._older = older
        self._newer = newer
        self._forth = Containment(old, new)
        self._back = Containment(new, old)
        self._rows = Renames(old, new, with_renames(conversions, ()))
        self._types = renamed_types(older, newer)

    def known(self) -> Iterator[Rename]:
        for row in self._older.methods:
            other = self._rows.method(row)
            if other is not None and other.method != row.method:
                yield Rename("method", row.method, other.method)
        pairs: dict[tuple[str, str], list[Object]] = {}
        for old, new in self._objects():
            for wire, field in self._rows.properties(old, new).items():
                if field.wire != wire:
                    pairs.setdefault((wire, field.wire), []).append(old)
        yield from self._properties(pairs)

    def suggested(self) -> Iterator[Rename]:
        yield from self._methods()
        pairs: dict[tuple[str, str], list[Object]] = {}
        for old, new in self._objects():
            common = self._rows.properties(old, new)
            taken = {field.wire for field in common.values()}
            gone = [field for field in old.fields if field.wire not in common]
            added = [field for field in new.fields if field.wire not in taken]
            for before, after in self._alike(gone, added):
                pairs.setdefault((before, after), []).append(old)
        yield from self._properties(pairs)

    def types_without_a_row(self) -> Iterator[tuple[str, str]]:
        """Yield the types that are the same but for their names, each with its name in the newer revision."""
        return ((name, other) for name, other in self._types.items() if not self._rows.is_same_type(name, other))

    def _objects(self) -> Iterator[tuple[Object, Object]]:
        """Yield each object type with the one that it is in the newer revision."""
        for name, old in self._older.types.items():
            new = self._newer.types.get(self._rows.type(self._types.get(name, name)))
            if isinstance(old, Object) and isinstance(new, Object):
                yield old, new

    def _alike(self, gone: Sequence[Field], added: Sequence[Field]) -> Iterator[tuple[str, str]]:
        alike = {before.wire: [after.wire for after in added if self._agree(before, after)] for before in gone}
        for before, names in alike.items():
            rivals = [other for other, others in alike.items() if other != before and set(others) & set(names)]
            if len(names) == 1 and not rivals:
                yield before, names[0]
            elif names:
                best = max(names, key=lambda name: _likeness(before, name))
                is_best = all(_likeness(other, best) < _likeness(before, best) for other in rivals)
                if is_best and _likeness(before, best) >= _ALIKE:
                    yield before, best

    def _agree(self, before: Field, after: Field) -> bool:
        return self._forth.holds(before.type, after.type) and self._back.holds(after.type, before.type)

    def _properties(self, pairs: dict[tuple[str, str], list[Object]]) -> Iterator[Rename]:
        """Yield one row for each pair of names: for the type that others extend, or for all types."""
        for (before, after), types in pairs.items():
            names = {defined.name for defined in types}
            roots = [defined.name for defined in types if not names & set(defined.extends)]
            yield Rename("at", f"{roots[0] if len(roots) == 1 else '*'}.{before}", after)

    def _methods(self) -> Iterator[Rename]:
        gone = [row for row in self._older.methods if self._rows.method(row) is None]
        theirs = {(row.direction, row.method) for row in self._older.methods}
        known = {(row.direction, other.method) for row in self._older.methods if (other := self._rows.method(row))}
        added = [row for row in self._newer.methods if (row.direction, row.method) not in theirs | known]
        alike = {row.method: [other for other in added if self._same_messages(row, other)] for row in gone}
        for method, others in alike.items():
            rivals = [name for name, rows in alike.items() if name != method and any(row in others for row in rows)]
            if len(others) == 1 and not rivals:
                yield Rename("method", method, others[0].method)

    def _same_messages(self, row: Method, other: Method) -> bool:
        same = (row.kind, row.direction, row.params is None, row.result is None)
        if same != (other.kind, other.direction, other.params is None, other.result is None):
            return False
        return self._same_type(row.params, other.params) and self._same_type(row.result, other.result)

    def _same_type(self, name: str | None, other: str | None) -> bool:
        if name is None or other is None:
            return name is other
        if self._rows.type(self._types.get(name, name)) == other:
            return True
        return self._forth.holds(Ref(name), Ref(other)) and self._back.holds(Ref(other), Ref(name))


def _likeness(name: str, other: str) -> float:
    return SequenceMatcher(None, name.lower(), other.lower()).ratio()


def collapse(changes: Iterable[DiffChange], renames: Sequence[Rename]) -> list[DiffChange]:
    """Return the changes with one for each of these names, instead of those that remove the one and add the other."""
    listed = list(changes)
    result: list[DiffChange] = []
    parts: dict[Rename, list[DiffChange]] = {}
    for change in listed:
        rename = next((rename for rename in renames if _is_part(change, rename)), None)
        if rename is None:
            result.append(change)
            continue
        parts.setdefault(rename, []).append(change)
    return [*(_one(rename, found) for rename, found in parts.items()), *result]


def _is_part(change: DiffChange, rename: Rename) -> bool:
    at = change.at.partition(" ")[0]
    if rename.kind == "method":
        is_constant = change.rule == "value-changed" and (change.before, change.after) == (
            f'"{rename.place}"',
            f'"{rename.use}"',
        )
        is_method = (change.rule, at) in (
            ("method-removed", rename.place),
            ("method-added", rename.use),
            ("method-required", rename.use),
        )
        return is_constant or is_method
    holder, _, wire = rename.place.partition(".")
    type_name, _, name = change.at.partition(".")
    names = {"field-removed": wire, "field-removed-required": wire} | {
        "field-added": rename.use,
        "field-added-required": rename.use,
    }
    return rename.kind == "at" and holder in ("*", type_name) and names.get(change.rule) == name


def _one(rename: Rename, changes: Sequence[DiffChange]) -> DiffChange:
    rule = "method-renamed" if rename.kind == "method" else "field-renamed"
    assert rule in DIFF_RULES
    return DiffChange(
        rule,
        rename.place,
        rename.place.partition(".")[2] if rename.kind == "at" else rename.place,
        rename.use,
        max(change.client for change in changes),
        max(change.server for change in changes),
        witnesses=tuple(witness for change in changes for witness in change.witnesses),
    )
