"""Render core_schemas.py: what the first messages of a session contain as plain data, which needs no models to be read.

An optional field whose type has no plain form, such as a union of objects, has None for it: objects that have the field
are read as models. Types that need such a field, or that refer to a type with one, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from ..model.ir import Alias, Array, Field, Map, Object, Plain, Ref, Revision, Type, Union, Values
from ..paths import Templates
from .source import GENERATOR, print_template, printed_row, printed_table

_KINDS: Final = {"string": "str", "integer": "int", "number": "number", "boolean": "bool", "null": "null", "any": "any"}


def render_core_schemas(revision: Revision, templates: Templates) -> str:
    """Return the module with the params of what clients send, and the results of the lifecycle; not formatted."""
    reader = _Reader(revision)
    waiting = list(_first_types(revision))
    while waiting:
        name = waiting.pop(0)
        if name not in reader.entries:
            waiting += reader.read(name)
    for name in _other_results(revision):
        reader.entries.setdefault(name, ("defaults", reader.defaults(name)))
    for name in {interim.type for row in revision.methods for interim in row.interim}:
        reader.entries.setdefault(name, ("attributes", reader.attributes(name)))
    rows = {
        name: printed_row(name, entry, 1) for name in revision.types if (entry := reader.entries.get(name)) is not None
    }
    context = {"revision": revision, "generator": GENERATOR, "table": printed_table(rows, 0)}
    return print_template("core_schemas.py.jinja2", context, templates)


def _first_types(revision: Revision) -> Iterator[str]:
    roles = set(revision.lifecycle.roles.values())
    for row in revision.methods:
        if row.direction == "client_to_server" and row.kind != "input_request":
            yield from [row.params] if row.params is not None else []
            yield from [row.result] if row.result is not None and row.method in roles else []


def _other_results(revision: Revision) -> Iterator[str]:
    for row in revision.methods:
        if row.direction == "client_to_server" and row.kind == "request" and row.result is not None:
            yield row.result


class _Reader:
    """The entries of the table by the names of their types."""

    def __init__(self, revision: Revision) -> None:
        self._revision = revision
        self._types = revision.types
        self._classes: dict[str, type] = {}
        self.entries: dict[str, Any] = {}  # None for a type that is left out.
        self._open: list[str] = []  # The types whose forms are being made.

    def read(self, name: str) -> set[str]:
        """Add the entry of a type, and return the types that it needs."""
        declared, needs = self._types[name], set[str]()
        if isinstance(declared, Alias):
            form = self._form(declared.type, needs)
            self.entries[name] = None if form is None else ("alias", form)
            return needs
        fields: dict[str, Any] = {}
        for field in self._in_order(declared):
            own = set[str]()
            fields[field.name] = self._field(field, own)
            needs |= own if fields[field.name][2] is not None else set()
        is_incomplete = any(required and form is None for _, required, form, *_ in fields.values())
        self.entries[name] = None if is_incomplete else ("closed" if declared.closed else "object", fields)
        return set() if is_incomplete else needs

    def defaults(self, name: str) -> dict[str, Any]:
        """Return the values of a result that a constructor fills in, by property."""
        declared = self._types[name]
        fields = declared.fields if isinstance(declared, Object) else ()
        return {field.wire: field.constant for field in fields if field.constant is not None}

    def attributes(self, name: str) -> tuple[str, ...]:
        """Return the attributes of a type."""
        declared = self._types[name]
        return tuple(field.name for field in declared.fields) if isinstance(declared, Object) else ()

    def _in_order(self, declared: Object) -> Iterator[Field]:
        """Yield the fields as pydantic orders them: the first error that it reports depends on it."""
        for name in reversed(self._linear(declared.name).__mro__[:-1]):
            ancestor = self._types[name.__name__]
            yield from self._revision.own_fields(ancestor) if isinstance(ancestor, Object) else ()

    def _linear(self, name: str) -> type:
        """Return a class with the name and the bases of a type."""
        if name not in self._classes:
            declared = self._types[name]
            bases = tuple(map(self._linear, declared.bases)) if isinstance(declared, Object) else ()
            self._classes[name] = type(name, bases, {})
        return self._classes[name]

    def _field(self, field: Field, needs: set[str]) -> tuple[Any, ...]:
        wire = None if field.wire == field.name else field.wire
        default = () if field.default is None else (field.default,)
        form = self._form(field.type, needs)
        is_missing = form == "any" and not field.required  # Its value may be null, which only models tell from none.
        return (wire, field.required, None if is_missing else form, *default)

    def _form(self, written: Type, needs: set[str]) -> Any:
        """Return the plain form of a type; None if it has none. The types that it refers to are added to `needs`."""
        match written:
            case Ref(name):
                return self._reference(name, needs)
            case Plain(kind, minimum):
                if replace(written, minimum=None, open_values=()) != Plain(kind):
                    return None
                return _KINDS[kind] if minimum is None else ("at least", _KINDS[kind], minimum)
            case Values(values):
                return ("values", *values)
            case Array(items, None, None):
                form = self._form(items, needs)
                return None if form is None else ("list", form)
            case Map(values):
                form = self._form(values, needs)
                return None if form is None else ("dict", form)
            case Union(arms, None) if not any(isinstance(arm, Ref) and self._is_object(arm.name) for arm in arms):
                forms = [self._form(arm, needs) for arm in arms]
                return None if None in forms else ("union", *forms)
            case _:
                return None

    def _reference(self, name: str, needs: set[str]) -> Any:
        declared = self._types[name]
        if name in self._open:  # A circle, which only aliases may make.
            return ("type", name) if isinstance(declared, Alias) else None
        self._open.append(name)
        if isinstance(declared, Alias):
            forms = [self._form(declared.type, set())]
        else:
            forms = [self._field(field, set())[2] for field in declared.fields]
        self._open.remove(name)
        if None in forms:
            return None
        needs.add(name)
        return ("type", name)

    def _is_object(self, name: str) -> bool:
        declared = self._types[name]
        return isinstance(declared, Object)
