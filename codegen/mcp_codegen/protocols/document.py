"""What every front end gives: a normalized schema, and the messages of a protocol; what is checked beside its types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import SchemaError, is_list, is_object
from ..importer.normalize import DIALECT
from ..importer.references import Schema
from ..importer.syntax import DOC
from ..model.names import pascal, snake

SINCE: Final = "x-since"  # The version that a type, a property or a method first had.

Direction = Literal["client_to_server", "server_to_client"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("client_to_server", "server_to_client")
_SPACE: Final = re.compile(r"\s+")
DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
LATEST: Final = "https://json-schema.org/draft/2020-12/schema"
_OLDER: Final = ("draft-03", "draft-04", "draft-06", "draft-07")

_REFUSED: Final = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")
# Where schemas stand inside of a schema.
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE: Final = ("items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
                  "not", "contains", "propertyNames", "if", "then", "else")  # fmt: skip
# Keywords that say nothing about a value of another type.
_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains",
              "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
               "maxProperties", "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
}  # fmt: skip
_ANY_TYPE: Final = ("type", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref")
ASSERTIONS: Final = frozenset((*_ANY_TYPE, *(keyword for keywords in _OF_TYPE.values() for keyword in keywords)))
KINDS: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
_MAX_CHECK: Final = 120_000  # Characters of a JSON Schema that a value is checked with; the runtime takes 131,072.


@dataclass(frozen=True, slots=True)
class ProtocolMessage:
    """One method in one direction; `params` and `result` are names of definitions, None for none.

    `capability` is what the receiver declares for it, as the document writes it. `positions` are the names of params
    that may go by position, in their order; with `sends_list` they are sent so.
    """

    kind: Literal["request", "notification"]
    direction: Direction
    method: str
    params: str | None = None
    result: str | None = None
    doc: str = ""
    deprecated: bool = False
    since: str = ""
    capability: str = ""
    positions: tuple[str, ...] = ()
    sends_list: bool = False
    is_also_request: bool = False
    """True for a notification whose method is that of a request as well."""

    @property
    def name(self) -> str:
        """Return the Python stem of the method: `textDocument/didOpen` → `text_document_did_open`."""
        return snake(self.method) + "_notification" * self.is_also_request


@dataclass(frozen=True, slots=True)
class ProtocolDocument:
    """A protocol as its document describes it: the definitions under `$defs`, and the messages."""

    schema: Schema
    messages: tuple[ProtocolMessage, ...]
    version: str = ""


def document_schema(title: str, definitions: Schema) -> Schema:
    """Return a normalized schema of these definitions."""
    return {"$schema": DIALECT, "title": title, "x-constants": {}, "$defs": definitions}


def marks(described: Any) -> Schema:
    """Return the description and the marks of a schema, a property or a message, for the normalized schema."""
    result: Schema = {}
    text = described.get("description", described.get("documentation", described.get("summary", "")))
    paragraph = _SPACE.sub(" ", str(text).strip().split("\n\n")[0])
    if paragraph:
        result[DOC] = paragraph
    if described.get("deprecated"):
        result["deprecated"] = True
    if isinstance(described.get("since"), str):
        result[SINCE] = described["since"]
    return result


def definition_name(method: str, end: str) -> str:
    """Return the name of a definition for a method: `textDocument/hover`, `Result` → `TextDocumentHoverResult`."""
    return pascal(method) + end


def require_object(value: object, what: str) -> Schema:
    """Return a JSON object. Raises SchemaError for anything else."""
    if not is_object(value):
        raise SchemaError(f"{what} must be a JSON object, not {type(value).__name__}; correct the document")
    return value


# What a generated type does not say of its schema: the keywords that are checked beside it, and those that are refused.
#
# * `type`, `properties`, `required`, `items`, `allOf` of objects, `anyOf`, `enum`, `const` and bounds become types.
# * All others that assert something, and these where no type says it, become a JSON Schema that checks values.
# * `title`, `description`, `default`, `format`, `content…`, `x-…` and unknown ones assert nothing.
# * `$dynamicRef`, `$recursiveRef`, a nested `$id`, references to anchors and to other documents are refused by name and
#   place.


def dialect_of(document: Schema) -> str:
    """Return the dialect of a document: by `$schema`, else by the name of its definitions."""
    declared = document.get("$schema")
    if isinstance(declared, str):
        return DRAFT_7 if any(draft in declared for draft in _OLDER) else LATEST
    return LATEST if "$defs" in document else DRAFT_7


def kinds_of(schema: Schema) -> tuple[str, ...]:
    """Return the types that a schema names; none if it names none."""
    kind = schema.get("type")
    kinds = tuple(kind) if is_list(kind) else () if kind is None else (kind,)
    return tuple(str(kind) for kind in kinds)


def relevant(schema: Schema, kind: str) -> Schema:
    """Return a schema without the keywords that say nothing about values of a type."""
    group = "number" if kind == "integer" else kind
    foreign = {key for name, keywords in _OF_TYPE.items() if name != group for key in keywords}
    return {key: value for key, value in schema.items() if key not in foreign}


def without_siblings(schema: Schema, dialect: str) -> Schema:
    """Return a schema in which nothing stands beside `$ref`, where the dialect ignores that."""
    if dialect == DRAFT_7 and "$ref" in schema:
        return {key: value for key, value in schema.items() if key not in ASSERTIONS or key == "$ref"}
    return schema


def subschemas(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield the schemas inside of a schema, with the keyword and the name or number of each."""
    for key in _MAPS:
        inner = schema.get(key)
        if is_object(inner):
            yield from ((f"{key}.{name}", value) for name, value in inner.items() if not is_list(value))
    for key in _LISTS:
        inner = schema.get(key)
        if is_list(inner):
            yield from ((f"{key}.{number}", value) for number, value in enumerate(inner))
    for key in _SINGLE:
        if key in schema and not is_list(schema[key]):
            yield key, schema[key]


def check_keywords(schema: Any, place: str, protocol: str, *, is_root: bool = True) -> None:
    """Raise SchemaError for a keyword that is not supported, and for one whose value is none that it can have."""
    if not is_object(schema):
        return
    for key in _REFUSED:
        if key in schema:
            raise SchemaError(f"{protocol}: {place} has {key}, which is not supported; write a `$ref`", at=place)
    if not is_root and isinstance(schema.get("$id"), str) and not schema["$id"].startswith("#"):
        raise SchemaError(
            f"{protocol}: {place} has $id inside of the document, which is not supported; remove it", at=place
        )
    if unknown := [kind for kind in kinds_of(schema) if kind not in KINDS]:
        raise SchemaError(f"{protocol}: {place} has the type {unknown[0]!r}, which JSON Schema lacks", at=place)
    for where, inner in subschemas(schema):
        check_keywords(inner, f"{place}.{where}", protocol, is_root=False)


class Checks:
    """Says what the types of a document leave out, and writes the JSON Schemas that say it."""

    def __init__(self, definitions: Schema, dialect: str, target: Callable[[str], str]) -> None:
        """`definitions` grows while the document is read; `target` returns the name of what a reference refers to."""
        self._raw = definitions
        self._dialect = dialect
        self._target = target
        self._exact: dict[str, bool] = {}

    # ---- what types say ----------------------------------------------------------------------------------------------

    def is_exact(self, raw: Any) -> bool:
        """Return True if the type of a schema accepts what the schema accepts; what it refers to is apart."""
        if not is_object(raw):
            return raw is True
        raw = without_siblings(raw, self._dialect)
        present = raw.keys() & ASSERTIONS
        if "$ref" in raw:
            return bool(present == {"$ref"})
        if "const" in raw or "enum" in raw:
            return self._are_values_exact(raw, present)
        if present == {"allOf"} and len(raw["allOf"]) == 1:
            return self.is_exact(raw["allOf"][0])
        if present in ({"anyOf"}, {"oneOf"}):
            (arms,) = (raw[key] for key in present)
            return all(map(self.is_exact, arms)) and ("anyOf" in present or self._are_apart(arms))
        if present & {"allOf", "anyOf", "oneOf"}:
            return bool(self.names_of(raw)) and self._is_composed_exact(raw, present)
        kinds = kinds_of(raw)
        if len(kinds) > 1:
            return all(self._is_kind_exact(relevant(raw, kind), kind) for kind in kinds) and len(kinds) < len(KINDS) - 1
        if not kinds and "properties" not in raw:
            return not present
        kind = kinds[0] if kinds else "object"
        return self._is_kind_exact(relevant(raw, kind), kind)

    def names_of(self, raw: Any, seen: tuple[str, ...] = ()) -> frozenset[str]:
        """Return the properties of an object, and of what it is composed of."""
        if is_object(raw) and "$ref" in raw:
            name = self._target(raw["$ref"])
            return frozenset() if name in seen else self.names_of(self._raw[name], (*seen, name))
        if not is_object(raw):
            return frozenset()
        parts = [part for key in ("allOf", "anyOf", "oneOf") for part in raw.get(key, ())]
        return frozenset(raw.get("properties", {})).union(*(self.names_of(part, seen) for part in parts))

    def _is_composed_exact(self, raw: Schema, present: set[str] | frozenset[str]) -> bool:
        """Return True if an object says no more than that it has the properties of all of its parts, each once."""
        own = frozenset(raw.get("properties", {}))
        if not present <= {"type", "properties", "required", "allOf", "anyOf", "oneOf"} or not own >= {
            *raw.get("required", ())
        }:
            return False
        if kinds_of(raw) not in ((), ("object",)) or not all(map(self.is_exact, raw.get("properties", {}).values())):
            return False
        used = own
        for part in raw.get("allOf", ()):
            names = self.names_of(part)
            if names & used or not self._is_part_exact(part):
                return False
            used |= names
        for key in ("anyOf", "oneOf"):
            arms = raw.get(key, ())
            names = frozenset[str]().union(*map(self.names_of, arms))
            if (
                names & used
                or not all(map(self._is_part_exact, arms))
                or (key == "oneOf" and not self._are_apart(arms))
            ):
                return False
            used |= names
        return True

    def _is_part_exact(self, part: Any) -> bool:
        """Return True for an open object that is exact, also one that is referred to."""
        schema = self._resolved(part)
        if not self.names_of(schema) or "additionalProperties" in schema or not is_object(part):
            return False
        return ("$ref" not in part or part.keys() & ASSERTIONS == {"$ref"}) and self.is_exact(schema)

    def _is_kind_exact(self, raw: Schema, kind: str) -> bool:
        rest = raw.keys() & ASSERTIONS - {"type"}
        match kind:
            case "integer" | "number":
                return rest <= {"minimum", "maximum"}
            case "string":
                return rest <= {"minLength", "maxLength", "pattern"} and _is_plain_pattern(raw.get("pattern", ""))
            case "array":
                return rest <= {"items", "minItems", "maxItems"} and self.is_exact(raw.get("items", True))
            case "object":
                return self._is_object_exact(raw, rest)
            case _:
                return not rest

    def _is_object_exact(self, raw: Schema, rest: set[str]) -> bool:
        properties = raw.get("properties", {})
        if (
            not rest <= {"properties", "required", "additionalProperties"}
            or not {*raw.get("required", ())} <= properties.keys()
        ):
            return False
        values = raw.get("additionalProperties", True)
        if not properties and "properties" not in raw:
            return values is True or (is_object(values) and self.is_exact(values))
        return isinstance(values, bool) and all(map(self.is_exact, properties.values()))

    def _are_values_exact(self, raw: Schema, present: set[str]) -> bool:
        values = raw["enum"] if "enum" in raw else [raw["const"]]
        kinds = {"null" if value is None else "string" if isinstance(value, str) else "other" for value in values}
        named: set[str] = {*kinds_of(raw)} or kinds
        return (
            present <= {"const", "enum", "type"}
            and len(present & {"const", "enum"}) == 1
            and kinds <= named - {"other"}
        )

    def _are_apart(self, arms: list[Any]) -> bool:
        """Return True if no value fits two arms: they have different types, or a required property with constants."""
        resolved = [self._resolved(arm) for arm in arms]
        kinds = [kind for arm in resolved for kind in kinds_of(arm) or ("any", "any")]
        if len({*kinds}) == len(kinds) and not {"integer", "number"} <= {*kinds}:
            return True
        texts = [arm.get("const") for arm in resolved]
        if all(isinstance(text, str) for text in texts):
            return len({*texts}) == len(texts)
        for name in resolved[0].get("properties", {}):
            found = [self._constant(arm, name) for arm in resolved]
            if None not in found and len({*found}) == len(found):
                return True
        return False

    def _constant(self, schema: Schema, name: str) -> str | None:
        """Return the text that an object has to have as a property."""
        inner = schema.get("properties", {}).get(name)
        if not is_object(inner) or name not in schema.get("required", ()) or schema.get("type") != "object":
            return None
        value = inner.get("const", inner["enum"][0] if len(inner.get("enum", ())) == 1 else None)
        return value if isinstance(value, str) else None

    def _resolved(self, schema: Any) -> Schema:
        for _ in range(len(self._raw) + 1):
            if not is_object(schema) or "$ref" not in schema:
                break
            schema = self._raw.get(self._target(schema["$ref"]))
        return schema if is_object(schema) else {}

    # ---- what is checked beside them ---------------------------------------------------------------------------------

    def text(self, raw: Any, is_typed: bool, place: str, protocol: str) -> str:
        """Return the JSON Schema of a definition as text, with the definitions that it refers to.

        Where the type says what a property or an item is (`is_typed`), that type checks its values itself.
        """
        needed: dict[str, None] = {}
        schema = self._reduced(raw, needed, typed=is_typed)
        definitions: Schema = {}
        waiting = list(needed)
        while waiting:
            name = waiting.pop()
            if name not in definitions:
                inner: dict[str, None] = {}
                definitions[name] = self._reduced(self._raw[name], inner, typed=False)
                waiting += inner
        place_of = "definitions" if self._dialect == DRAFT_7 else "$defs"
        written: Schema = schema if is_object(schema) else ({} if schema else {"not": {}})
        if definitions:
            written = {**written, place_of: definitions}
        text = json.dumps({"$schema": self._dialect, **written}, separators=(",", ":"))
        if len(text) > _MAX_CHECK:
            raise SchemaError(
                f"{protocol}: {place} has {len(text)} characters of JSON Schema that no type says; split it", at=place
            )
        return text

    def _reduced(self, raw: Any, needed: dict[str, None], typed: bool) -> Any:
        """Return a schema with nothing but assertions; the names that it refers to are added to `needed`."""
        if not is_object(raw):
            return raw
        raw = without_siblings(raw, self._dialect)
        result: Schema = {}
        for key, value in raw.items():
            if key == "$ref":
                name = self._target(value)
                needed[name] = None
                result[key] = f"#/{'definitions' if self._dialect == DRAFT_7 else '$defs'}/{_pointer(name)}"
            elif key in ("$defs", "definitions") or key not in ASSERTIONS | {"minContains", "maxContains"}:
                continue
            elif key in _MAPS and is_object(value):
                result[key] = {
                    name: inner if is_list(inner) else self._inner(inner, needed, typed and key == "properties")
                    for name, inner in value.items()
                }
            elif key in _LISTS and is_list(value):
                result[key] = [self._reduced(inner, needed, typed=False) for inner in value]
            elif key in _SINGLE:
                result[key] = self._inner(value, needed, typed and key == "items" and raw.get("type") == "array")
            else:
                result[key] = value
        return _with_numbers(result) if self._dialect == DRAFT_7 else result

    def _inner(self, raw: Any, needed: dict[str, None], typed: bool) -> Any:
        if typed and is_object(raw) and raw.keys() & ASSERTIONS == {"$ref"}:
            return True
        return self._reduced(raw, needed, typed)


def _with_numbers(schema: Schema) -> Schema:
    """Return a schema in which exclusive bounds are numbers: draft-04 has `exclusiveMinimum: true` beside `minimum`."""
    for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(key) is True and bound in schema:
            schema = {**schema, key: schema[bound]}
        elif isinstance(schema.get(key), bool):
            schema = {name: value for name, value in schema.items() if name != key}
    return schema


def _is_plain_pattern(pattern: object) -> bool:
    """Return True for a pattern that means the same in all dialects of regular expressions."""
    return (
        isinstance(pattern, str) and pattern.isascii() and not any(f"\\{letter}" in pattern for letter in "dDwWsSbBpP")
    )


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
