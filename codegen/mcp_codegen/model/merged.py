"""A union of objects as one object: for results, of which a method has one class."""

from __future__ import annotations

from dataclasses import replace

from .ir import Alias, Field, Object, Ref, Type, Union
from .types import NamedTypes


def merged_union(defined: Alias, types: NamedTypes) -> Object | None:
    """Return an object with the properties of all arms of a union, required if all arms require them; None if an arm is
    not an object."""
    arms = _objects(defined.type, types) if isinstance(defined.type, Union) else []
    if not arms:
        return None
    fields: dict[str, Field] = {}
    for arm in arms:
        for field in arm.fields:
            first = fields.setdefault(field.wire, field)
            if first.type != field.type:
                fields[field.wire] = replace(first, type=_either(first.type, field.type))
    required = {wire for wire in fields if all((at := arm.field(wire)) is not None and at.required for arm in arms)}
    merged = tuple(replace(field, required=wire in required, default=None) for wire, field in fields.items())
    return Object(defined.name, merged, (), (), defined.doc, defined.deprecated, defined.category)


def _objects(written: Type, types: NamedTypes) -> list[Object]:
    """Return the objects of a union, also of unions inside of it; nothing if an arm is none."""
    arms = written.arms if isinstance(written, Union) else (written,)
    objects: list[Object] = []
    for arm in arms:
        target = types.get(arm.name) if isinstance(arm, Ref) else None
        inner = [target] if isinstance(target, Object) else _objects(target.type, types) if target is not None else []
        if not inner:
            return []
        objects += inner
    return objects


def _either(first: Type, second: Type) -> Type:
    arms = dict.fromkeys((*_arms(first), *_arms(second)))
    return Union(tuple(arms))


def _arms(written: Type) -> tuple[Type, ...]:
    return written.arms if isinstance(written, Union) else (written,)
