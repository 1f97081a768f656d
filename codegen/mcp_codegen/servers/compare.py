"""The comparison of the locked and the live contract of a server: each change with its rule, severity and place; and
the report of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final, Literal

import click
from uritemplate import URITemplate

from ..errors import JsonObject, is_list, is_object
from ..output import plain
from ..render.source import GENERATOR
from .contract import (
    KINDS,
    RULES,
    SEVERITIES,
    Contract,
    ContractChange,
    ContractSeverity,
    canonical,
    digest,
    fingerprint,
    moved,
    overrides,
    pointer,
    resolve,
)
from .contract import schema as canonical_schema

# The comparison of two schemas of one direction. The sender of the values decides which changes are breaking.
#
# For values that are sent to a server, fewer allowed values are breaking; for values that it sends, more allowed values
# are.

SchemaDirection = Literal["input", "output"]

_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_EXACT: Final = ("pattern", "format", "multipleOf", "uniqueItems", "contentEncoding", "contentMediaType")
# Bounds that allow everything.
_UNBOUND: Final = {**dict.fromkeys(("minLength", "minItems", "minProperties"), 0), "uniqueItems": False}
_HANDLED: Final = frozenset(
    {
        *("type", "properties", "required", "enum", "const", "items", "additionalProperties", "default", "description"),
        *("title", "$comment", "examples", "$schema", "$id", "$defs", "definitions", "anyOf", "oneOf", "deprecated"),
        *("$ref", *_LOWER, *_UPPER, *_EXACT),
    }
)

_SCHEMA_TEXTS: Final[tuple[tuple[str, str, ContractSeverity], ...]] = (
    ("description", "description-changed", "review"),
    ("title", "text-changed", "compatible"),
    ("deprecated", "text-changed", "compatible"),
    ("examples", "text-changed", "compatible"),
    ("default", "default-changed", "review"),
)
_HINTS: Final = "annotations"
# What the specification says of a tool that does not say it.
_HINT_DEFAULTS: Final = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
_EXECUTION_DEFAULTS: Final = {"taskSupport": "forbidden"}

_TEXTS: Final[dict[str, tuple[str, ContractSeverity]]] = {
    "description": ("description-changed", "review"),
    "title": ("text-changed", "compatible"),
    "mimeType": ("mime-type-changed", "review"),
}
_LEVELS: Final[dict[ContractSeverity, str]] = {"breaking": "error", "review": "warning", "compatible": "note"}
_COLOURS: Final[dict[ContractSeverity, str]] = {"breaking": "red", "review": "yellow", "compatible": "green"}
_COMMANDS: Final[dict[ContractSeverity, str]] = {"breaking": "error", "review": "warning", "compatible": "notice"}
Report = Callable[[Sequence[ContractChange], str], str]


def compare_schemas(direction: SchemaDirection, before: Any, after: Any, where: str) -> Iterator[ContractChange]:
    """Yield the changes from one schema to the other, outermost first."""
    changes = list(_SchemaComparison(direction, before, after).compare(before, after, where))
    yield from changes
    if not changes and fingerprint(before, before) != fingerprint(after, after):
        yield ContractChange("schema-changed", "review", where, f"{where}: a schema that this one refers to changed")


class _SchemaComparison:
    def __init__(self, direction: SchemaDirection, before: Any, after: Any) -> None:
        self._direction = direction
        self._roots = (before, after)
        self._seen: set[tuple[str | int, str | int]] = set()

    def compare(self, before: Any, after: Any, where: str) -> Iterator[ContractChange]:
        if pointer(before) or pointer(after):
            places = (_place(before), _place(after))
            if places in self._seen:
                return
            self._seen.add(places)
        if (before is False) != (after is False):  # The schema that no value matches.
            text = "nothing was allowed" if before is False else "nothing is allowed"
            yield self._values(1 if before is False else -1, where, text)
            return
        overridden = [overrides(schema, root) for schema, root in zip((before, after), self._roots, strict=True)]
        if overridden[0] != overridden[1]:
            text = "a definition changed beside keywords that it has as well"
            yield ContractChange("schema-changed", "review", where, f"{where}: {text}")
        before, after = (
            _object(resolve(schema, root)) for schema, root in zip((before, after), self._roots, strict=True)
        )
        if before.get("$ref") != after.get("$ref"):  # Still there: the reference is not local.
            yield ContractChange("schema-changed", "review", where, f"{where}: the reference to another schema changed")
        yield from self._texts(before, after, where)
        yield from self._kinds(before, after, where)
        yield from self._bounds(before, after, where)
        yield from self._properties(before, after, where)
        yield from self._inside(before, after, where)
        for key in ("anyOf", "oneOf"):
            yield from self._alternatives(key, before.get(key), after.get(key), where)
        for key in sorted(before.keys() | after.keys()):
            if key not in _HANDLED and _differ(key, before, after):
                yield ContractChange("schema-changed", "review", where, f"{where}: {key!a} changed")

    def _values(self, wider: int, where: str, text: str) -> ContractChange:
        """Return a change of the allowed values: wider (1), narrower (-1), or different (0)."""
        if wider == 0:
            return ContractChange("type-changed", "breaking", where, f"{where}: {text}")
        rule, breaking_direction = ("type-widened", "output") if wider > 0 else ("type-narrowed", "input")
        return ContractChange(
            rule, "breaking" if self._direction == breaking_direction else "compatible", where, f"{where}: {text}"
        )

    def _texts(self, before: JsonObject, after: JsonObject, where: str) -> Iterator[ContractChange]:
        for key, rule, severity in _SCHEMA_TEXTS:
            if _differ(key, before, after):
                text = f"{where}: {key!a} {moved(before.get(key), after.get(key))}"
                yield ContractChange(rule, severity, where, text)

    def _kinds(self, before: JsonObject, after: JsonObject, where: str) -> Iterator[ContractChange]:
        old, new = _kinds(before), _kinds(after)
        if old != new:
            yield self._values(_wider(old, new), where, f"from {_listed(old)} to {_listed(new)}")
        old_values, new_values = _allowed(before), _allowed(after)
        if old_values != new_values:
            yield self._values(
                _wider(old_values, new_values), where, f"values from {_listed(old_values)} to {_listed(new_values)}"
            )

    def _bounds(self, before: JsonObject, after: JsonObject, where: str) -> Iterator[ContractChange]:
        for key in (*_LOWER, *_UPPER, *_EXACT):
            old, new = (_bound(key, schema) for schema in (before, after))
            if old == new:
                continue
            if old is None or new is None:
                wider = -1 if old is None else 1
            elif key in _EXACT or not isinstance(old, (int, float)) or not isinstance(new, (int, float)):
                wider = 0
            else:
                wider = 1 if (new < old) == (key in _LOWER) else -1
            yield self._values(wider, where, f"{key} {moved(old, new)}")

    def _properties(self, before: JsonObject, after: JsonObject, where: str) -> Iterator[ContractChange]:
        old, new = _named(before), _named(after)
        old_required, new_required = _required(before), _required(after)
        is_input = self._direction == "input"
        for name in [key for key in old if key not in new]:
            yield ContractChange("property-removed", "breaking", f"{where}/{name}", f"{where}: {name!a} was removed")
        for name in [key for key in new if key not in old]:
            is_required = is_input and name in new_required
            rule = "required-property-added" if is_required else "property-added"
            severity: ContractSeverity = "breaking" if is_required else "compatible"
            if is_input and new[name] is False:
                yield self._values(-1, f"{where}/{name}", "nothing is allowed")
            else:
                yield ContractChange(rule, severity, f"{where}/{name}", f"{where}: {name!a} was added")
        for name in sorted((old_required ^ new_required) - (old.keys() ^ new.keys())):
            yield self._requirement(name in new_required, f"{where}/{name}")
        for name in [key for key in old if key in new]:
            yield from self.compare(old[name], new[name], f"{where}/{name}")

    def _requirement(self, is_required: bool, place: str) -> ContractChange:
        is_breaking = is_required == (self._direction == "input")
        state = "required" if is_required else "optional"
        return ContractChange(
            f"became-{state}", "breaking" if is_breaking else "compatible", place, f"{place}: became {state}"
        )

    def _inside(self, before: JsonObject, after: JsonObject, where: str) -> Iterator[ContractChange]:
        for key in ("items", "additionalProperties"):
            if key not in before and key not in after:
                continue
            old, new = before.get(key, True), after.get(key, True)
            if is_list(old) or is_list(new):
                if canonical_schema({key: old}) != canonical_schema({key: new}):
                    yield ContractChange("type-changed", "breaking", f"{where}/{key}", f"{where}: {key!a} changed")
            else:
                yield from self.compare(old, new, f"{where}/{key}")

    def _alternatives(self, key: str, before: Any, after: Any, where: str) -> Iterator[ContractChange]:
        """Yield the changes of alternatives. Those on both sides are equal; those of the same kind are compared;
        others were added or removed."""
        if not is_list(before) or not is_list(after):
            if before != after:
                yield self._values(
                    1 if after is None else -1, where, f"{key} was {'added' if before is None else 'removed'}"
                )
            return
        sides = list(zip((before, after), self._roots, strict=True))
        old, new = ({fingerprint(arm, root): arm for arm in arms} for arms, root in sides)
        removed = _by_kind((arm for mark, arm in old.items() if mark not in new), self._roots[0])
        added = _by_kind((arm for mark, arm in new.items() if mark not in old), self._roots[1])
        if key == "oneOf" and not all(_is_disjoint(arms, root) for arms, root in sides):
            if removed or added or len(before) != len(after):  # A value that two of them match is refused.
                yield self._values(0, where, "oneOf has alternatives that may match the same values")
            return
        for kind in [key for key in removed if key in added and len(removed[key]) == len(added[key]) == 1]:
            yield from self.compare(removed.pop(kind)[0], added.pop(kind)[0], f"{where}/{key}")
        counts = [sum(map(len, arms.values())) for arms in (added, removed)]
        if any(counts):
            wider = bool(counts[0]) - bool(counts[1])
            yield self._values(wider, where, f"{key} has {counts[0]} new and {counts[1]} removed alternatives")


def _place(schema: Any) -> str | int:
    """Return the identity of a schema in its document: its reference if it has nothing else."""
    return pointer(schema) if is_object(schema) and schema.keys() == {"$ref"} else id(schema)


def _differ(key: str, before: JsonObject, after: JsonObject) -> bool:
    return bool(canonical_schema({key: before.get(key)}) != canonical_schema({key: after.get(key)}))


def _wider(before: frozenset[str] | None, after: frozenset[str] | None) -> int:
    """Return 1 if more is allowed than before, -1 if less, 0 if something else. None allows everything."""
    if before is None or after is None:
        return 1 if after is None else -1
    return 1 if before < after else -1 if after < before else 0


def _kinds(schema: JsonObject) -> frozenset[str] | None:
    value = schema.get("type")
    kinds = value if is_list(value) else [value]
    if value is None:
        return None
    names = {str(kind) for kind in kinds}
    return frozenset(names | {"integer"} if "number" in names else names)


def _allowed(schema: JsonObject) -> frozenset[str] | None:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return frozenset(map(ascii, values)) if is_list(values) else None


def _bound(key: str, schema: JsonObject) -> Any:
    """Return a bound, or None for one that allows everything."""
    value = schema.get(key)
    return None if key in _UNBOUND and value == _UNBOUND[key] else value


def _by_kind(arms: Iterable[Any], root: Any) -> dict[str, list[Any]]:
    kinds: dict[str, list[Any]] = {}
    for arm in arms:
        kinds.setdefault(_kind_of(resolve(arm, root)), []).append(arm)
    return kinds


def _is_disjoint(arms: list[Any], root: Any) -> bool:
    """Return True if no value matches two of these alternatives: their types, or the constants of a required property,
    differ."""
    return all(_differ_in_kind(*both) for both in combinations([_object(resolve(arm, root)) for arm in arms], 2))


def _differ_in_kind(one: JsonObject, two: JsonObject) -> bool:
    if _apart(_kinds(one), _kinds(two)) or _apart(_allowed(one), _allowed(two)):
        return True
    return any(
        _apart(_allowed(_object(_named(one).get(name))), _allowed(_object(_named(two).get(name))))
        for name in _required(one) & _required(two)
    )


def _apart(one: frozenset[str] | None, two: frozenset[str] | None) -> bool:
    """Return True if two sets have nothing in common. None is the set of everything."""
    return one is not None and two is not None and not one & two


def _named(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    return properties if is_object(properties) else {}


def _required(schema: JsonObject) -> set[str]:
    required = schema.get("required")
    return {str(name) for name in required} if is_list(required) else set()


def _listed(values: frozenset[str] | None) -> str:
    return "anything" if values is None else ", ".join(sorted(values)) or "nothing"


def _object(schema: Any) -> JsonObject:
    """Return a schema as an object; `true` is one without keywords."""
    return schema if is_object(schema) else {}


def _kind_of(arm: Any) -> str:
    """Return the identity of an alternative: its type, its title, and the constants of its properties."""
    schema = _object(arm)
    constants = {name: part["const"] for name, part in _named(schema).items() if is_object(part) and "const" in part}
    return ascii([schema.get("type"), schema.get("title"), schema.get("const"), sorted(constants.items(), key=ascii)])


def compare(locked: Contract, live: Contract) -> list[ContractChange]:
    """Return every change, in the order of the lock. Order and white space are ignored."""
    changes: list[ContractChange] = []
    if locked.server != live.server:
        message = f"the name of the server is {live.server!a}, in the lock it is {locked.server!a}"
        changes.append(ContractChange("server-renamed", "review", "server", message))
    if locked.instructions.split() != live.instructions.split():
        changes.append(
            ContractChange("instructions-changed", "review", "server", "the instructions for models changed")
        )
    if locked.revision != live.revision:
        message = f"the server negotiates {live.revision!a}, in the lock it is {locked.revision!a}"
        changes.append(ContractChange("revision-changed", "compatible", "revision", message))
    for kind in KINDS:
        changes += _items(kind, locked.items[kind], live.items[kind])
    return changes


def _items(kind: str, locked: Mapping[str, JsonObject], live: Mapping[str, JsonObject]) -> Iterator[ContractChange]:
    for name in [key for key in locked if key not in live]:
        yield ContractChange("item-removed", "breaking", f"{kind}/{name}", f"{kind}: {name!a} was removed")
    for name in [key for key in live if key not in locked]:
        yield ContractChange("item-added", "compatible", f"{kind}/{name}", f"{kind}: {name!a} was added")
    for name, item in locked.items():
        if name in live and digest(item) != digest(live[name]):
            yield from _item(canonical(item), canonical(live[name]), f"{kind}/{name}")


def _item(before: JsonObject, after: JsonObject, where: str) -> Iterator[ContractChange]:
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        match key:
            case "inputSchema":
                yield from compare_schemas("input", old or {}, new or {}, f"{where}/input")
            case "outputSchema":
                yield from _output(old, new, f"{where}/output")
            case "arguments":
                yield from compare_schemas("input", _as_schema(old), _as_schema(new), f"{where}/arguments")
            case "uriTemplate":
                severity: ContractSeverity = "breaking" if _variables(old) != _variables(new) else "review"
                yield _changed("uri-template-changed", severity, where, key, old, new)
            case "execution" if _with_defaults(old, _EXECUTION_DEFAULTS) == _with_defaults(new, _EXECUTION_DEFAULTS):
                pass
            case _ if key == _HINTS:
                yield from _hints(old, new, where)
            case _:
                rule, severity = _TEXTS.get(key, ("other-changed", "review"))
                yield _changed(rule, severity, where, key, old, new)


def _output(old: Any, new: Any, where: str) -> Iterator[ContractChange]:
    if old is None:
        yield ContractChange("schema-added", "compatible", where, f"{where}: a schema was added")
    elif new is None:
        yield ContractChange("schema-removed", "breaking", where, f"{where}: the schema was removed")
    else:
        yield from compare_schemas("output", old, new, where)


def _hints(old: Any, new: Any, where: str) -> Iterator[ContractChange]:
    """Yield the changes of annotations. The title is for people; the hints decide if a host asks before a tool runs."""
    before, after = (value if is_object(value) else {} for value in (old, new))
    for key in sorted(before.keys() | after.keys()):
        if before.get(key, _HINT_DEFAULTS.get(key)) != after.get(key, _HINT_DEFAULTS.get(key)):
            rule, severity = _TEXTS.get(key, ("hint-changed", "review"))
            yield _changed(rule, severity, where, key, before.get(key), after.get(key))


def _with_defaults(value: Any, defaults: JsonObject) -> JsonObject:
    return {**defaults, **value} if is_object(value) else defaults


def _changed(rule: str, severity: ContractSeverity, where: str, key: str, old: Any, new: Any) -> ContractChange:
    return ContractChange(rule, severity, where, f"{where}: {key!a} {moved(old, new)}")


def _variables(template: Any) -> set[str]:
    return set(URITemplate(template).variable_names) if isinstance(template, str) else set()


def _as_schema(arguments: Any) -> JsonObject:
    """Return the arguments of a prompt as an equivalent schema."""
    objects = [argument for argument in arguments or [] if is_object(argument)] if is_list(arguments) else []
    properties = {
        str(argument.get("name")): {key: argument[key] for key in ("title", "description") if key in argument}
        for argument in objects
    }
    return {
        "properties": properties,
        "required": [str(argument.get("name")) for argument in objects if argument.get("required") is True],
    }


# The report of `check`: text, JSON, SARIF 2.1.0, or annotations of GitHub Actions.


def as_text(changes: Sequence[ContractChange], lock: str) -> str:
    """Return one line for each change, the most severe first, and a line that counts them."""
    ordered = sorted(changes, key=lambda change: -SEVERITIES.index(change.severity))
    lines = [
        (
            f"{click.style(f'{change.severity:<10}', fg=_COLOURS[change.severity])}  {plain(change.message)} "
            f" [{change.rule}]"
        )
        for change in ordered
    ]
    return "\n".join([*lines, f"{lock}: {_counted(changes)}"]) + "\n"


def as_json(changes: Sequence[ContractChange], lock: str) -> str:
    """Return one JSON object with all changes."""
    objects = [{name: getattr(change, name) for name in ("rule", "severity", "where", "message")} for change in changes]
    return json.dumps({"lock": lock, "changes": objects}, indent=2) + "\n"


def as_sarif(changes: Sequence[ContractChange], lock: str) -> str:
    """Return a SARIF 2.1.0 log of one run."""
    used = sorted({change.rule for change in changes})
    rules = [{"id": rule, "shortDescription": {"text": RULES[rule]}} for rule in used]
    results = [
        {
            "ruleId": change.rule,
            "level": _LEVELS[change.severity],
            "message": {"text": change.message},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": lock}, "region": {"startLine": 1}},
                    "logicalLocations": [{"fullyQualifiedName": change.where}],
                }
            ],
        }
        for change in changes
    ]
    driver: dict[str, Any] = {"name": "mcp-codegen", "version": GENERATOR, "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2) + "\n"


def as_github(changes: Sequence[ContractChange], lock: str) -> str:
    """Return a workflow command of GitHub Actions for each change."""
    lines = [
        f"::{_COMMANDS[change.severity]} file={_property(lock)},title={change.rule}::{_message(change.message)}"
        for change in changes
    ]
    return "".join(f"{line}\n" for line in lines)


REPORTS: Final[Mapping[str, Report]] = MappingProxyType(
    {"text": as_text, "json": as_json, "sarif": as_sarif, "github": as_github}
)


def _counted(changes: Sequence[ContractChange]) -> str:
    counts = Counter(change.severity for change in changes)
    return ", ".join(f"{counts[name]} {name}" for name in reversed(SEVERITIES) if counts[name]) or "no changes"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
