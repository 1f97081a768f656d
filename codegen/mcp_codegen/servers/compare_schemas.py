"""Two schemas of one direction go in, their changes come out. Who sends the values decides what is breaking:
of what is given to a server, fewer values are; of what it gives, more values are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from ..json_types import is_list, is_object
from .canonical import schema as canonical_schema
from .changes import Change, Severity
from .contract import Json
from .references import fingerprint, pointer, resolved

Direction = Literal["input", "output"]

_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_RULED: Final = ("pattern", "format", "multipleOf", "uniqueItems", "contentEncoding", "contentMediaType")
_HANDLED: Final = frozenset(
    {
        *("type", "properties", "required", "enum", "const", "items", "additionalProperties", "default", "description"),
        *("title", "$comment", "examples", "$schema", "$id", "$defs", "definitions", "anyOf", "oneOf", "deprecated"),
        *("$ref", *_LOWER, *_UPPER, *_RULED),
    }
)


def compare_schemas(direction: Direction, before: Any, after: Any, where: str) -> Iterator[Change]:
    """The changes from one schema to the other, outermost first."""
    found = list(_Comparison(direction, before, after).compare(before, after, where))
    yield from found
    if not found and fingerprint(before, before) != fingerprint(after, after):
        yield Change("schema-changed", "review", where, f"{where}: what the schema refers to was changed")


class _Comparison:
    def __init__(self, direction: Direction, before: Any, after: Any) -> None:
        self._direction = direction
        self._roots = (before, after)
        self._seen: set[tuple[str, str]] = set()

    def compare(self, before: Any, after: Any, where: str) -> Iterator[Change]:
        pointers = (pointer(before), pointer(after))
        if any(pointers):
            if pointers in self._seen:
                return
            self._seen.add(pointers)
        if (before is False) != (after is False):  # The schema that nothing fits.
            how = "nothing was allowed" if before is False else "nothing is allowed"
            yield self._values(1 if before is False else -1, where, how)
            return
        before, after = (_object(resolved(each, root)) for each, root in zip((before, after), self._roots, strict=True))
        if before.get("$ref") != after.get("$ref"):  # Still there: it leads elsewhere.
            yield Change("schema-changed", "review", where, f"{where}: the reference to another schema was changed")
        yield from self._texts(before, after, where)
        yield from self._kinds(before, after, where)
        yield from self._bounds(before, after, where)
        yield from self._properties(before, after, where)
        yield from self._inside(before, after, where)
        for key in ("anyOf", "oneOf"):
            yield from self._alternatives(key, before.get(key), after.get(key), where)
        for key in sorted(before.keys() | after.keys()):
            if key not in _HANDLED and _differ(key, before, after):
                yield Change("schema-changed", "review", where, f"{where}: {key!a} was changed")

    def _values(self, wider: int, where: str, how: str) -> Change:
        """A change of what is allowed: more than before, less, or something else."""
        if wider == 0:
            return Change("type-changed", "breaking", where, f"{where}: {how}")
        rule, breaks = ("type-widened", "output") if wider > 0 else ("type-narrowed", "input")
        return Change(rule, "breaking" if self._direction == breaks else "compatible", where, f"{where}: {how}")

    def _texts(self, before: Json, after: Json, where: str) -> Iterator[Change]:
        for key, rule, how in _TEXTS:
            if _differ(key, before, after):
                yield Change(
                    rule, how, where, f"{where}: {key!a} from {before.get(key)!a:.60} to {after.get(key)!a:.60}"
                )

    def _kinds(self, before: Json, after: Json, where: str) -> Iterator[Change]:
        old, new = _kinds(before), _kinds(after)
        if old != new:
            yield self._values(_wider(old, new), where, f"from {_said(old)} to {_said(new)}")
        listed, lists = _allowed(before), _allowed(after)
        if listed != lists:
            yield self._values(_wider(listed, lists), where, f"values from {_said(listed)} to {_said(lists)}")

    def _bounds(self, before: Json, after: Json, where: str) -> Iterator[Change]:
        for key in (*_LOWER, *_UPPER, *_RULED):
            old, new = before.get(key), after.get(key)
            if old == new:
                continue
            if old is None or new is None:
                wider = -1 if old is None else 1
            elif key in _RULED or not isinstance(old, (int, float)) or not isinstance(new, (int, float)):
                wider = 0
            else:
                wider = 1 if (new < old) == (key in _LOWER) else -1
            yield self._values(wider, where, f"{key} from {old!a:.60} to {new!a:.60}")

    def _properties(self, before: Json, after: Json, where: str) -> Iterator[Change]:
        old, new = _named(before), _named(after)
        needed, needs = _required(before), _required(after)
        given = self._direction == "input"
        for name in [each for each in old if each not in new]:
            yield Change("property-removed", "breaking", f"{where}/{name}", f"{where}: {name!a} was removed")
        for name in [each for each in new if each not in old]:
            needed_now = given and name in needs
            rule = "required-property-added" if needed_now else "property-added"
            severity: Severity = "breaking" if needed_now else "compatible"
            yield Change(rule, severity, f"{where}/{name}", f"{where}: {name!a} was added")
        for name in [each for each in old if each in new]:
            place = f"{where}/{name}"
            if name in needs and name not in needed:
                yield Change(
                    "became-required", "breaking" if given else "compatible", place, f"{place}: is required now"
                )
            if name in needed and name not in needs:
                yield Change(
                    "became-optional", "compatible" if given else "breaking", place, f"{place}: is optional now"
                )
            yield from self.compare(old[name], new[name], place)

    def _inside(self, before: Json, after: Json, where: str) -> Iterator[Change]:
        for key in ("items", "additionalProperties"):
            if key not in before and key not in after:
                continue
            old, new = before.get(key, True), after.get(key, True)
            if is_list(old) or is_list(new):
                if canonical_schema({key: old}) != canonical_schema({key: new}):
                    yield Change("type-changed", "breaking", f"{where}/{key}", f"{where}: {key!a} was changed")
            else:
                yield from self.compare(old, new, f"{where}/{key}")

    def _alternatives(self, key: str, before: Any, after: Any, where: str) -> Iterator[Change]:
        """Alternatives that stand on both sides are none; those of the same kind are compared; the others came or went."""
        if not is_list(before) or not is_list(after):
            if before != after:
                yield self._values(
                    1 if after is None else -1, where, f"there {'are' if before is None else 'were'} {key}"
                )
            return
        old, new = (self._by_fingerprint(arms, root) for arms, root in zip((before, after), self._roots, strict=True))
        gone = {_kind_of(arm): arm for mark, arm in old.items() if mark not in new}
        came = {_kind_of(arm): arm for mark, arm in new.items() if mark not in old}
        for kind in [each for each in gone if each in came]:
            yield from self.compare(gone.pop(kind), came.pop(kind), f"{where}/{key}")
        if gone or came:
            wider = bool(came) - bool(gone)
            yield self._values(wider, where, f"{key} has {len(came)} alternatives more, {len(gone)} less")

    def _by_fingerprint(self, arms: list[Any], root: Any) -> Json:
        return {fingerprint(arm, root): resolved(arm, root) for arm in arms}


_TEXTS: Final[tuple[tuple[str, str, Severity], ...]] = (
    ("description", "description-changed", "review"),
    ("title", "text-changed", "compatible"),
    ("deprecated", "text-changed", "compatible"),
    ("examples", "text-changed", "compatible"),
    ("default", "default-changed", "review"),
)


def _differ(key: str, before: Json, after: Json) -> bool:
    return bool(canonical_schema({key: before.get(key)}) != canonical_schema({key: after.get(key)}))


def _wider(before: frozenset[str] | None, after: frozenset[str] | None) -> int:
    """1 where more is allowed than before, -1 where less, 0 where something else; None allows everything."""
    if before is None or after is None:
        return 1 if after is None else -1
    return 1 if before < after else -1 if after < before else 0


def _kinds(schema: Json) -> frozenset[str] | None:
    found = schema.get("type")
    kinds = found if is_list(found) else [found]
    if found is None:
        return None
    named = {str(each) for each in kinds}
    return frozenset(named | {"integer"} if "number" in named else named)


def _allowed(schema: Json) -> frozenset[str] | None:
    found = [schema["const"]] if "const" in schema else schema.get("enum")
    return frozenset(map(ascii, found)) if is_list(found) else None


def _named(schema: Json) -> Json:
    found = schema.get("properties")
    return found if is_object(found) else {}


def _required(schema: Json) -> set[str]:
    found = schema.get("required")
    return {str(each) for each in found} if is_list(found) else set()


def _said(values: frozenset[str] | None) -> str:
    return "anything" if values is None else ", ".join(sorted(values)) or "nothing"


def _object(schema: Any) -> Json:
    """A schema as an object: true is one without keywords."""
    return schema if is_object(schema) else {}


def _kind_of(arm: Any) -> str:
    """What makes two alternatives the same one: the type, the title, and the constants of the properties."""
    schema = _object(arm)
    constants = {name: each["const"] for name, each in _named(schema).items() if is_object(each) and "const" in each}
    return ascii([schema.get("type"), schema.get("title"), schema.get("const"), sorted(constants.items(), key=ascii)])
