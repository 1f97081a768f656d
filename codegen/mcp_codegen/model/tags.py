"""Tags of schema.ts that say what a row of the overlay says, at the place that they are about.

| tag                                   | at                   | the row of the overlay                              |
|---------------------------------------|----------------------|-----------------------------------------------------|
| `@named NAME`                         | type, property       | `name`                                              |
| `@constructs VALUE`                   | required property    | `default`                                           |
| `@constructs PROPERTY VALUE`          | type                 | `default` of a property that it inherits            |
| `@essential`                          | optional property    | `essential`                                         |
| `@requires CAPABILITY FLAGS for A, B` | params, property     | `requirement`; flags: `impliedByEmpty` `senderOnly` |
| `@role ROLE`                          | message              | `lifecycle`; `toolSchemas` and `toolCall`: `http`   |
| `@header Mcp-Name`                    | property of params   | `name_params` of `http`                             |
| `@httpStatus STATUS`                  | constant of an error | `statuses` of `http`                                |
| `@transport FEATURE FEATURE`          | any constant         | the features of `http`, all that there are          |
| `@reserved FIRST..LAST`               | constant of an error | `codes`: this constant is sent instead              |

What a tag says holds for its revision, instead of a row for the same place. `direction`, `capability` and `result` are
read in methods.py: they say more of a message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import RuleError, is_list, is_object
from ..importer.references import REF, Schema
from ..importer.syntax import MARKS, MESSAGE_TAGS
from .lifecycle import PLAIN_HTTP
from .names import snake
from .overlay import Overlay, OverlayRow

_STYLES: Final = {
    "initialize_request": "handshake",
    "discover": "stateless",
}  # By the role that a connection begins with.
_OF_HTTP: Final = ("tool_schemas", "tool_call")
_FEATURES: Final = tuple(name for name, value in PLAIN_HTTP.items() if isinstance(value, bool))
_PLACED: Final = tuple(mark for mark in MARKS if mark.removeprefix("x-") not in MESSAGE_TAGS)  # Of types, properties.
_FLAGS: Final = ("implied_by_empty", "sender_only")
_HEADER: Final = "Mcp-Name"
_RANGE: Final = re.compile(r"(-?\d+)\.\.(-?\d+)")
_STATUSES: Final = range(400, 600)


def with_tags(overlay: Overlay, schema: Schema, revision: str) -> Overlay:
    """Return the overlay with the rows that the tags of a normalized schema are. Raises RuleError for a wrong value."""
    rows = list(_Tags(schema, revision, overlay).rows())
    return Overlay((*overlay.rows, *rows), overlay.like, overlay.renames) if rows else overlay


def check_tags(overlay: Overlay, revision: str) -> None:
    """Raise RuleError for a tag that says nothing at its place."""
    for row in overlay.rows:
        if row.tag and not row.used:
            raise RuleError(f"{revision}: {row} says nothing there; remove it", rule=row.tag, at=row.place)


@dataclass(frozen=True)
class _Tags:
    """The tags of one normalized schema."""

    schema: Schema
    revision: str
    overlay: Overlay

    def rows(self) -> Iterator[OverlayRow]:
        roles: dict[str, str] = {}
        http: dict[str, Any] = {}
        for place, marks in self._places():
            yield from self._rows_at(place, marks)
            if (role := marks.get("x-role")) is not None:
                (http if snake(role) in _OF_HTTP else roles)[snake(role)] = self._method_of(place, role)
            if (header := marks.get("x-header")) is not None:
                http.setdefault("name_params", {}).update(self._header(place, header))
        if roles:
            style = next((style for role, style in _STYLES.items() if role in roles), "")
            if not style:
                raise self._error("role", "the messages", ", ".join(roles), f"give one @role {' or '.join(_STYLES)}")
            yield self._row("role", "lifecycle", style, self._completed("lifecycle", style, roles))
        codes: list[dict[str, Any]] = []
        for name, tags in self.schema.get("x-tags", {}).items():
            if "httpStatus" in tags:
                http.setdefault("statuses", {})[name] = self._status(name, tags["httpStatus"])
            if "transport" in tags:
                http |= self._features(name, tags["transport"])
            if "reserved" in tags:
                codes.append(self._reserved(name, tags["reserved"]))
        used: set[str] = set()  # A revision has one style of lifecycle; the rows for the others are not missed.
        for style in _STYLES.values():
            if http:
                yield replace(self._row("transport", "http", style, self._completed("http", style, http)), used=used)
            if codes:
                ranges = sorted(codes, key=lambda item: int(item["first"]))
                yield replace(self._row("reserved", "codes", style, ranges), used=used)

    def _row(self, tag: str, table: str, place: str, use: Any) -> OverlayRow:
        only = (self.overlay.like.get(self.revision) or self.revision,)
        return OverlayRow(table, place, use, None, only, "A tag of schema.ts says so.", tag=tag)

    def _completed(self, table: str, style: str, tagged: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the tags say, and for the rest what the row for this style says."""
        row = next((row for row in self.overlay.rows if (row.table, row.place, row.only) == (table, style, ())), None)
        written: Mapping[str, Any] = (PLAIN_HTTP if table == "http" else {}) if row is None else row.use
        if row is not None and written.keys() - tagged.keys():
            row.used.add(self.revision)
        return {**written, **tagged}

    # ---- the places --------------------------------------------------------------------------------------------------

    def _places(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield each type and each property that has tags, with them."""
        for name, definition in self.schema.get("$defs", {}).items():
            yield from self._within((name,), definition)

    def _within(self, place: tuple[str, ...], schema: Any) -> Iterator[tuple[str, Mapping[str, str]]]:
        if not is_object(schema):
            return
        marks = {key: str(value) for key, value in schema.items() if key in _PLACED}
        if marks:
            yield ".".join(place), marks
        properties = schema.get("properties")
        for wire, inner in properties.items() if is_object(properties) else ():
            if not self._is_inherited(schema, wire, inner):
                yield from self._within((*place, wire), inner)
        yield from self._within((*place, "item"), schema.get("items"))
        for parts in (schema.get("anyOf"), schema.get("allOf")):
            for part in parts if is_list(parts) else ():
                yield from self._within(place, part)

    def _is_inherited(self, schema: Schema, wire: str, inner: Any) -> bool:
        bases = (self._definition(base) for base in schema.get("x-extends", ()))
        return any(base.get("properties", {}).get(wire) == inner for base in bases)

    def _definition(self, name: str) -> Schema:
        found = self.schema["$defs"].get(name)
        return found if is_object(found) else {}

    def _schema_at(self, place: str) -> Schema:
        name, *wires = place.split(".")
        schema = self._definition(name)
        for wire in wires:
            schema = schema["items"] if wire == "item" and "items" in schema else schema["properties"][wire]
        return schema

    # ---- the rows of one place ---------------------------------------------------------------------------------------

    def _rows_at(self, place: str, marks: Mapping[str, str]) -> Iterator[OverlayRow]:
        if "x-named" in marks:
            yield self._row("named", "name", self._unnamed(place), marks["x-named"])
        if "x-constructs" in marks:
            wire, _, value = ("", "", marks["x-constructs"]) if "." in place else marks["x-constructs"].partition(" ")
            yield self._row("constructs", "default", f"{place}.{wire}" if wire else place, _value(value))
        if "x-essential" in marks:
            yield self._row("essential", "essential", place, True)
        if "x-requires" in marks:
            yield self._row("requires", "requirement", place, self._requirement(place, marks["x-requires"]))

    def _unnamed(self, place: str) -> str:
        """Return the place of what has no name: that of the items, if a property is a list."""
        schema = self._schema_at(place)
        while "." in place and schema.get("type") == "array" and "$ref" not in schema.get("items", {}):
            schema = schema.get("items", {})
            place = f"{place}.item"
        return place

    def _requirement(self, place: str, written: str) -> dict[str, Any]:
        words, _, values = written.partition(" for ")
        capability, *flags = words.split() or [""]
        if unknown := [flag for flag in flags if snake(flag) not in _FLAGS]:
            raise self._error("requires", place, unknown[0], f"write a capability, then {' or '.join(_FLAGS)}")
        use: dict[str, Any] = {"capability": capability} | {snake(flag): True for flag in flags}
        return use | ({"values": [value.strip() for value in values.split(",")]} if values else {})

    def _method_of(self, place: str, role: str) -> str:
        method = self._definition(place).get("properties", {}).get("method", {}).get("const")
        if not isinstance(method, str):
            raise self._error("role", place, role, "give it to a message, which has a `method`")
        return method

    def _header(self, place: str, header: str) -> dict[str, str]:
        """Return the methods whose params have the property of a place, which a header repeats, with its name."""
        if header != _HEADER:
            raise self._error("header", place, header, f"only {_HEADER} repeats a property")
        name, _, wire = place.partition(".")
        found: dict[str, str] = {}
        for message in self.schema["$defs"].values():
            properties: Schema = message.get("properties", {}) if is_object(message) else {}
            params = str(properties.get("params", {}).get("$ref", "")).removeprefix(REF)
            if "method" in properties and self._descends(params, name):
                found[properties["method"]["const"]] = wire
        return found

    def _descends(self, name: str, base: str) -> bool:
        bases = self._definition(name).get("x-extends", ())
        return name == base or any(self._descends(above, base) for above in bases)

    def _status(self, name: str, written: str) -> int:
        if not written.isdecimal() or int(written) not in _STATUSES:
            raise self._error("httpStatus", name, written, "write a status from 400 to 599")
        return int(written)

    def _features(self, name: str, written: str) -> dict[str, bool]:
        named = {snake(word) for word in written.replace(",", " ").split()}
        if unknown := named - {*_FEATURES}:
            raise self._error("transport", name, min(unknown), f"write some of {', '.join(_FEATURES)}")
        return {feature: feature in named for feature in _FEATURES}

    def _reserved(self, name: str, written: str) -> dict[str, Any]:
        match = _RANGE.fullmatch(written)
        if match is None or int(match[1]) > int(match[2]):
            raise self._error("reserved", name, written, "write the first and the last code: -32099..-32020")
        return {"first": int(match[1]), "last": int(match[2]), "instead": name}

    def _error(self, tag: str, place: str, value: str, remedy: str) -> RuleError:
        text = f"{self.revision}: {place} has @{tag} {value:.100}, which it cannot have; {remedy}"
        return RuleError(text, rule=tag, at=place)


def _value(written: str) -> Any:
    """Return the value of a tag: a number, or a text with or without quotation marks."""
    try:
        value = json.loads(written)
    except ValueError:
        return written
    return value if isinstance(value, (int, str)) else written
