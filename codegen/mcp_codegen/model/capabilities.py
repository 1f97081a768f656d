"""The capabilities of a revision: their paths, and the params that need a further capability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .ir import Alias, CapabilityRequirement, Object, Ref, Type, Union, Values
from .names import snake
from .overlay import Overlay
from .types import NamedTypes

CAPABILITIES: Final = {"client": "ClientCapabilities", "server": "ServerCapabilities"}

# After this marker, the path of a capability has one name, which may contain dots, then `#` and a setting of it.
_EXTENSIONS: Final = ".extensions."


def declared_path(types: NamedTypes, side: str, segments: list[str]) -> list[str]:
    """Return the side and as many of the segments as its capabilities type has, nested; an empty list if it has
    none."""
    path = [side]
    at: Type = Ref(CAPABILITIES[side])
    for segment in segments:
        fields = (field for holder in _objects(types, at) for field in holder.fields)
        field = next((candidate for candidate in fields if candidate.name == snake(segment)), None)
        if field is None:
            break
        path.append(field.wire)
        at = field.type
    return path if len(path) > 1 else []


def has_capability(types: NamedTypes, capability: str) -> bool:
    """Return True if a side of this revision can declare this capability, side first."""
    prefix, extension, _ = capability.partition(_EXTENSIONS)
    side, *path = f"{prefix}{extension.rstrip('.')}".split(".")
    return side in CAPABILITIES and len(declared_path(types, side, path)) == len(path) + 1


class CapabilityRequirements:
    """The rows of [[requirement]] that apply to one revision: it has their type, property, values and capability."""

    def __init__(self, types: NamedTypes, revision: str, overlay: Overlay) -> None:
        self._types = types
        self._rows = overlay.table("requirement", revision)

    def of(self, params: str | None) -> tuple[CapabilityRequirement, ...]:
        """Return the requirements of params of this type, or of one arm of a union."""
        arms = list(_arms(self._types, params))
        requirements: list[CapabilityRequirement] = []
        for place, row in self._rows.rows.items():
            name, _, wire = place.partition(".")
            holder = self._types.get(name)
            field = holder.field(wire) if isinstance(holder, Object) and wire else None
            if name not in arms or (wire and field is None) or not has_capability(self._types, row.use["capability"]):
                continue
            use = row.use
            values = tuple(value for value in use.get("values", ()) if field and value in _possible(field.type))
            if "values" in use and not values:
                continue
            self._rows.use(place)
            attribute = "" if field is None else field.name
            implied_by_empty, sender_only = bool(use.get("implied_by_empty")), bool(use.get("sender_only"))
            requirements.append(
                CapabilityRequirement(name, use["capability"], attribute, values, implied_by_empty, sender_only)
            )
        return tuple(requirements)


def _objects(types: NamedTypes, written: Type) -> Iterator[Object]:
    """Yield the object types that a type may mean."""
    if isinstance(written, Union):
        for arm in written.arms:
            yield from _objects(types, arm)
    elif isinstance(written, Ref):
        for name in _arms(types, written.name):
            target = types[name]
            if isinstance(target, Object):
                yield target


def _arms(types: NamedTypes, name: str | None) -> Iterator[str]:
    """Yield the object types that this name may mean."""
    type = types.get(name or "")
    if isinstance(type, Object):
        yield type.name
    elif isinstance(type, Alias):
        for arm in type.type.arms if isinstance(type.type, Union) else (type.type,):
            yield from _arms(types, arm.name if isinstance(arm, Ref) else None)


def _possible(written: Type) -> set[object]:
    return set(written.values) if isinstance(written, Values) else set()
