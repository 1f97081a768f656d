"""The types of a revision go in; where its capabilities lie comes out, and which params need one more than their method does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .ir import Alias, CapabilityRequirement, Object, Ref, Type, Union, Values
from .names import snake
from .overlay import Overlay
from .types import Named

CAPABILITIES: Final = {"client": "ClientCapabilities", "server": "ServerCapabilities"}

# What stands after this in the path of a capability is one name, with dots in it, and behind a # a setting of that.
_EXTENSIONS: Final = ".extensions."


def declared_path(types: Named, side: str, segments: list[str]) -> list[str]:
    """The side and as many of the segments as its capabilities type has, one inside the other; or nothing."""
    path = [side]
    at: Type = Ref(CAPABILITIES[side])
    for segment in segments:
        each = types.get(at.name) if isinstance(at, Ref) else None
        fields = each.fields if isinstance(each, Object) else ()
        found = next((field for field in fields if field.name == snake(segment)), None)
        if found is None:
            break
        path.append(found.wire)
        at = found.type
    return path if len(path) > 1 else []


def has_capability(types: Named, capability: str) -> bool:
    """Whether a side of this revision can declare this, side first."""
    known, named, _ = capability.partition(_EXTENSIONS)
    side, *path = f"{known}{named.rstrip('.')}".split(".")
    return side in CAPABILITIES and len(declared_path(types, side, path)) == len(path) + 1


class CapabilityRequirements:
    """The rows of [[requirement]] that hold for one revision: those whose type, property, values and capability it has."""

    def __init__(self, types: Named, revision: str, overlay: Overlay) -> None:
        self._types = types
        self._rows = overlay.table("requirement", revision)

    def of(self, params: str | None) -> tuple[CapabilityRequirement, ...]:
        """The gates of params of this type, or of one of its arms."""
        arms = list(_arms(self._types, params))
        found: list[CapabilityRequirement] = []
        for place, row in self._rows.rows.items():
            name, _, wire = place.partition(".")
            each = self._types.get(name)
            field = each.field(wire) if isinstance(each, Object) and wire else None
            if name not in arms or (wire and field is None) or not has_capability(self._types, row.use["capability"]):
                continue
            said = row.use
            values = tuple(value for value in said.get("values", ()) if field and value in _possible(field.type))
            if "values" in said and not values:
                continue
            self._rows.use(place)
            attribute = "" if field is None else field.name
            unsaid, sent_only = bool(said.get("implied_by_empty")), bool(said.get("sender_only"))
            found.append(CapabilityRequirement(name, said["capability"], attribute, values, unsaid, sent_only))
        return tuple(found)


def _arms(types: Named, name: str | None) -> Iterator[str]:
    """The object types that may stand under this name."""
    each = types.get(name or "")
    if isinstance(each, Object):
        yield each.name
    elif isinstance(each, Alias):
        for arm in each.type.arms if isinstance(each.type, Union) else (each.type,):
            yield from _arms(types, arm.name if isinstance(arm, Ref) else None)


def _possible(written: Type) -> set[object]:
    return set(written.values) if isinstance(written, Values) else set()
