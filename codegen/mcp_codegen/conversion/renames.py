"""The names that changed between two neighbouring revisions: those of types, of properties and of methods.

A row of [[rename]] applies between two revisions if the source has one of its two names and the target the other one,
which the source has not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import OverlayError
from ..model.ir import Field, Method, Object, Revision
from .containment import Containment
from .rules import ConversionRule, Conversions
from .shapes import Shapes


class Renames:
    """The rows of [[rename]] between two revisions, in this direction. A row that is applied is marked as used."""

    def __init__(self, source: Shapes, target: Shapes, rows: Conversions) -> None:
        self._source = source.revision
        self._target = target.revision
        self._rows = rows
        self._containment = Containment(source, target)

    # ---- methods ----------------------------------------------------------------------------------------------------

    def method(self, row: Method) -> Method | None:
        """Return the target's row of a method, which may have another name there; None if there is none."""
        theirs = {other.method: other for other in self._target.methods if other.direction == row.direction}
        if row.method in theirs:
            return theirs[row.method]
        ours = {other.method for other in self._source.methods if other.direction == row.direction}
        for name, rule in self._others("method", row.method):
            if name in theirs and name not in ours:
                if theirs[name].kind != row.kind:
                    kinds = f"a {_words(row.kind)} in {self._source.id}, and a {_words(theirs[name].kind)}"
                    raise self._untrue(rule, f"{row.method} is {kinds} in {self._target.id}")
                rule.used = True
                return theirs[name]
        return None

    def is_same_constant(self, before: object, after: object) -> bool:
        """Return True if the one constant is a method, and the other its name in the target."""
        return any((row, name) == (before, after) for row, name in self._methods())

    def _methods(self) -> Iterator[tuple[str, str]]:
        for row in self._source.methods:
            other = self.method(row)
            if other is not None and other.method != row.method:
                yield row.method, other.method

    # ---- types ------------------------------------------------------------------------------------------------------

    def is_same_type(self, source_name: str, target_name: str) -> bool:
        """Return True if both names mean one type, which one of the two revisions may have renamed."""
        if source_name == target_name:
            return True
        for name, rule in self._others("type", source_name):
            if name == target_name:
                self._check_types(rule, source_name, target_name)
                rule.used = True
                return True
        return False

    def type(self, name: str) -> str:
        """Return the name of a type in the target; the same name if no row renames it."""
        if name in self._target.types:
            return name
        others = (other for other, _ in self._others("type", name) if other in self._target.types)
        return next((other for other in others if self.is_same_type(name, other)), name)

    def _check_types(self, rule: ConversionRule, source_name: str, target_name: str) -> None:
        source, target = self._source.types[source_name], self._target.types[target_name]
        if type(source) is not type(target):
            raise self._untrue(rule, f"only one of {source_name} and {target_name} is an object")
        if isinstance(source, Object) and isinstance(target, Object) and source.fields and target.fields:
            common = {field.wire for field in source.fields} & {field.wire for field in target.fields}
            if not common and not any(self._renamed(source, target, field.wire) for field in source.fields):
                raise self._untrue(rule, f"{source_name} and {target_name} have no property in common")

    # ---- properties -------------------------------------------------------------------------------------------------

    def properties(self, source: Object | None, target: Object) -> dict[str, Field]:
        """Return the target's property for each property of the source that has one there."""
        fields = source.fields if source is not None else ()
        renamed = {
            field.wire: found
            for field in fields
            if source is not None and (found := self._renamed(source, target, field.wire)) is not None
        }
        taken = {field.wire for field in renamed.values()}
        same = {
            field.wire: found
            for field in fields
            if field.wire not in renamed and field.wire not in taken and (found := target.field(field.wire)) is not None
        }
        return same | renamed

    def _renamed(self, source: Object, target: Object, wire: str) -> Field | None:
        rows = self._rows.renames("at")
        if not rows:
            return None
        for holder in dict.fromkeys((*_family(source, self._source), *_family(target, self._target), "*")):
            for place, row in rows.items():
                type_name, _, name = place.partition(".")
                use = str(row.values["use"])
                if type_name != holder or wire not in (name, use):
                    continue
                # The other name. A revision may have given the name that is free now to another property.
                other = use if wire == name else name
                is_changed = (source if wire == name else target).field(use) is None
                found = target.field(other)
                if found is not None and is_changed:
                    self._check_property(row, source, wire, target, found)
                    row.used = True
                    return found
        return None

    def _check_property(self, rule: ConversionRule, source: Object, wire: str, target: Object, found: Field) -> None:
        field = source.field(wire)
        if field is not None and not self._containment.overlap(field.type, found.type):
            raise self._untrue(
                rule,
                f"no value of {source.name}.{wire} in {self._source.id} is one of {target.name}.{found.wire} in "
                f"{self._target.id}",
            )

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _others(self, kind: str, name: str) -> Iterator[tuple[str, ConversionRule]]:
        """Yield the other names that rows have for a type or a method, each with its row."""
        for place, row in self._rows.renames(kind).items():
            if place == name:
                yield str(row.values["use"]), row
            elif row.values["use"] == name:
                yield place, row

    def _untrue(self, rule: ConversionRule, reason: str) -> OverlayError:
        return OverlayError(f"{rule} is untrue: {reason}; correct or remove the row", rule="overlay", at=rule.place)


def _family(type: Object, revision: Revision) -> list[str]:
    """Return the name of a type, and those of the types that it extends, directly or through others."""
    names = [type.name]
    for name in names:  # It grows.
        defined = revision.types.get(name)
        if isinstance(defined, Object):
            names += [base for base in defined.extends if base not in names]
    return names


def _words(kind: str) -> str:
    return kind.replace("_", " ")
