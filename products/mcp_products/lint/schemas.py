"""Schemas of tools: each check is a function of one schema inside another, or of a whole one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from .findings import Finding, Settings, found
from .metaschema import problem_of
from .snapshot import Json, Snapshot, is_list, is_object, text_of
from .table import Fact, table
from .walk import Node, nodes, recursive, resolved

_COMBINATORS: Final = ("oneOf", "anyOf", "allOf")
_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_BESIDE: Final = frozenset({"$ref", "$comment", "$defs", "definitions", "$schema", "$id"})
_HARMLESS_BESIDE: Final = frozenset(
    {"description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
_TYPED_BY: Final = frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not", "if"})
_DEEP: Final = 100

_INSTEAD: Final = {
    "const": '"enum": [{value}]',
    "oneOf": '"anyOf": […]',
    "allOf": "one schema with the keywords of all",
    "exclusiveMinimum": '"minimum": …',
    "exclusiveMaximum": '"maximum": …',
}


class Where(NamedTuple):
    """The root of a schema, and what it is for: `inputSchema` or `outputSchema`."""

    root: Json
    kind: str

    @property
    def input(self) -> bool:
        return self.kind == "inputSchema"


class Hit(NamedTuple):
    """What a check says: the message, the facts if not all of the rule, and the words of the line to write."""

    message: str
    facts: tuple[Fact, ...] | None = None
    write: str = ""
    at: str = ""
    level: Any = None


NodeCheck = Callable[[Node, Where], Hit | None]


def _facts(rule: str, *, keyword: str = "", scope: str = "") -> tuple[Fact, ...]:
    rows = table().rules[rule].facts
    return tuple(row for row in rows if row.keyword in ("", keyword) and row.scope in ("", scope))


def _types(node: Node) -> list[str]:
    kind = node.schema.get("type")
    return [kind] if isinstance(kind, str) else [text_of(item) for item in kind] if is_list(kind) else []


# ---- the root --------------------------------------------------------------------------------------------------------


def _root_combinator(node: Node, where: Where) -> Hit | None:
    words = [word for word in _COMBINATORS if word in node.schema]
    return Hit(f"{', '.join(words)} at the root") if where.input and node.root and words else None


def _root_type(node: Node, where: Where) -> Hit | None:
    if not (where.input and node.root) or node.schema.get("type") == "object":
        return None
    return Hit(f"the type of the root is {node.schema.get('type', 'missing')!r}")


def _output_type(node: Node, where: Where) -> Hit | None:
    if where.input or not node.root or node.schema.get("type") == "object":
        return None
    return Hit(f"the type of the root is {node.schema.get('type', 'missing')!r}")


def _dialect(node: Node, where: Where) -> Hit | None:
    declared = text_of(node.schema.get("$schema")).rstrip("#")
    if not node.root or not declared or declared == _DIALECT:
        return None
    return Hit(f"$schema is {declared}", _facts("schema-dialect", scope="input" if where.input else "output"))


def _property_key(node: Node, where: Where) -> Hit | None:
    properties = node.schema.get("properties")
    if not (where.input and node.root and is_object(properties)):
        return None
    minded = {key: tuple(f for f in _facts("schema-property-key") if not f.accepts_text(key)) for key in properties}
    wrong = [key for key, facts in minded.items() if facts]
    if not wrong:
        return None
    worst = max(wrong, key=lambda key: len(minded[key]))
    return Hit(f"the key{'' if len(wrong) == 1 else 's'} {', '.join(map(repr, wrong[:5]))}", minded[worst])


# ---- each schema -----------------------------------------------------------------------------------------------------


def _array_items(node: Node, where: Where) -> Hit | None:
    if not where.input or "array" not in _types(node) or {"items", "prefixItems"} & node.schema.keys():
        return None
    return Hit("an array without items")


def _object_properties(node: Node, where: Where) -> Hit | None:
    if not where.input or node.schema.get("type") != "object" or "properties" in node.schema:
        return None
    if node.root:
        return Hit("the root has no properties", _facts("schema-object-properties", scope="root"))
    if {"additionalProperties", "patternProperties", *_TYPED_BY} & node.schema.keys():
        return None
    return Hit("an object without properties", _facts("schema-object-properties", scope="below"))


def _lookaround(node: Node, where: Where) -> Hit | None:
    pattern = text_of(node.schema.get("pattern"))
    return Hit(f"the pattern {_short(pattern)}") if where.input and _LOOKAROUND.search(pattern) else None


def _pattern_invalid(node: Node, where: Where) -> Hit | None:
    pattern = text_of(node.schema.get("pattern"))
    try:
        # Classes of Unicode are valid in ECMA-262 and unknown to Python.
        re.compile(re.sub(r"\\[pP]\{[^}]*\}", "[a]", pattern).replace("(?<", "(?P<", 0))
    except (re.error, RecursionError, OverflowError):
        if _only_ecma(pattern):
            return None
        return Hit(f"the pattern {_short(pattern)}")
    return None


def _only_ecma(pattern: str) -> bool:
    r"""Return True for forms that Python alone refuses: named groups, `\u{…}` and lookbehinds of open length."""
    return re.search(r"\(\?<[A-Za-z_=!]|\\[ucpP]|\[\^\]|\[\]", pattern) is not None


def _pattern_in_items(node: Node, where: Where) -> Hit | None:
    pattern = text_of(node.schema.get("pattern"))
    if not where.input or node.key != "items" or not pattern or _LOOKAROUND.search(pattern):
        return None
    return Hit(f"the pattern {_short(pattern)} in items")


def _reference(node: Node, where: Where) -> Hit | None:
    if not where.input or "$ref" not in node.schema:
        return None
    return Hit(f"a reference to {_short(text_of(node.schema['$ref']))}")


def _unresolved(node: Node, where: Where) -> Hit | None:
    reference = text_of(node.schema.get("$ref"))
    if not reference or reference == "#" or resolved(where.root, reference) is not None:
        return None
    if not reference.startswith("#") or "/" not in reference:
        anchors = {f"#{item.schema.get('$anchor')}" for item in nodes(where.root)}
        ids = {text_of(item.schema.get("$id")) for item in nodes(where.root)} - {""}
        if reference in anchors | ids:
            return None
    return Hit(f"{_short(reference)} is not in this schema")


def _sibling(node: Node, where: Where) -> Hit | None:
    beside = node.schema.keys() - _BESIDE
    if not where.input or "$ref" not in node.schema or not beside or node.root:
        return None
    kind = "constraints" if beside - _HARMLESS_BESIDE else ""
    return Hit(f"{', '.join(sorted(beside))} beside $ref", _facts("schema-ref-sibling", keyword=kind))


def _type_missing(node: Node, where: Where) -> Hit | None:
    if not where.input or node.key not in ("properties", "items") or "type" in node.schema:
        return None
    return None if _TYPED_BY & node.schema.keys() else Hit("no type")


def _type_list(node: Node, where: Where) -> Hit | None:
    kind = node.schema.get("type")
    return Hit(f"the type is {kind}") if where.input and is_list(kind) else None


def _type_beside(node: Node, where: Where) -> Hit | None:
    if not where.input or not {"type", "anyOf"} <= node.schema.keys():
        return None
    return Hit("type beside anyOf")


def _enum_type(node: Node, where: Where) -> Hit | None:
    values = node.schema.get("enum")
    if not where.input or not is_list(values) or all(isinstance(value, str | None) for value in values):
        return None
    return Hit(f"the enum {_short(str(values))}")


def _enum_empty(node: Node, where: Where) -> Hit | None:
    values = node.schema.get("enum")
    return Hit("the value '' in an enum") if where.input and is_list(values) and "" in values else None


def _keyword(node: Node, where: Where) -> Hit | None:
    if not where.input:
        return None
    known = {fact.keyword for fact in table().rules["schema-keyword"].facts}
    words = [word for word in node.schema if word in known and not (node.root and word in _COMBINATORS)]
    words = [word for word in words if word != "additionalProperties" or node.schema[word] == {}]
    if not words:
        return None
    first = "const" if "const" in words else words[0]
    instead = _INSTEAD.get(first, f"leave {first} out, and check it in the handler")
    facts = tuple(fact for fact in table().rules["schema-keyword"].facts if fact.keyword in words)
    return Hit(", ".join(words), facts, write=instead.replace("{value}", repr(node.schema.get("const"))))


def _bound(node: Node, where: Where) -> Hit | None:
    if not where.input or node.depth < 2:
        return None
    limit = table().rules["schema-bound-size"].facts[0].limit
    large = {
        word: value
        for word in ("maxLength", "minLength", "maxItems", "minItems")
        if isinstance(value := node.schema.get(word), int) and value > limit
    }
    return Hit(", ".join(f"{word} {value}" for word, value in large.items())) if large else None


def _required(node: Node, where: Where) -> Hit | None:
    names, properties = node.schema.get("required"), node.schema.get("properties")
    if not where.input or not is_list(names) or node.schema.get("type") != "object":
        return None
    missing = [name for name in names if isinstance(name, str) and name not in (properties or {})]
    return Hit(f"required has {', '.join(missing)}, and properties has not") if missing else None


def _depth(node: Node, where: Where) -> Hit | None:
    return Hit(f"more than {_DEEP} levels") if node.depth == _DEEP + 1 else None


def _invalid(node: Node, where: Where) -> Hit | None:
    problem = problem_of(node.schema, node.root)
    return None if problem is None else Hit(problem[0], write=problem[1], at=problem[2])


def _recursive(node: Node, where: Where) -> Hit | None:
    if not node.root or not (reference := recursive(node.schema)):
        return None
    facts = _facts("schema-ref-recursive", scope="input" if where.input else "output")
    return Hit(f"{_short(reference)} contains itself", facts)


NODE_CHECKS: Final[dict[str, NodeCheck]] = {
    "schema-root-combinator": _root_combinator,
    "schema-root-type": _root_type,
    "output-schema-type": _output_type,
    "schema-dialect": _dialect,
    "schema-invalid-2020-12": _invalid,
    "schema-property-key": _property_key,
    "schema-array-items": _array_items,
    "schema-object-properties": _object_properties,
    "schema-pattern-lookaround": _lookaround,
    "schema-pattern-invalid": _pattern_invalid,
    "schema-pattern-in-items": _pattern_in_items,
    "schema-ref": _reference,
    "schema-ref-unresolved": _unresolved,
    "schema-ref-recursive": _recursive,
    "schema-ref-sibling": _sibling,
    "schema-type-missing": _type_missing,
    "schema-type-list": _type_list,
    "schema-type-beside-anyof": _type_beside,
    "schema-enum-type": _enum_type,
    "schema-enum-empty": _enum_empty,
    "schema-keyword": _keyword,
    "schema-bound-size": _bound,
    "schema-required": _required,
    "schema-depth": _depth,
}


def check_schemas(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield one finding for each tool and rule, with the first place and the others."""
    for tool in snapshot.tools:
        place = f"tools.{text_of(tool.get('name'))}"
        for kind in ("inputSchema", "outputSchema"):
            schema = tool.get(kind)
            if kind == "inputSchema" and not is_object(schema):
                yield found("schema-root-type", f"{place}.{kind}", "there is no schema")
            if is_object(schema):
                yield from _of_schema(schema, kind, f"{place}.{kind}")


def _of_schema(schema: Json, kind: str, place: str) -> Iterator[Finding]:
    hits: dict[str, list[tuple[str, Hit]]] = {}
    where = Where(schema, kind)
    for node in nodes(schema):
        for rule, check in NODE_CHECKS.items():
            hit = check(node, where)
            if hit is not None:
                hits.setdefault(rule, []).append((f"{place}{node.path}{hit.at and f'.{hit.at}'}", hit))
    for rule, places in hits.items():
        first, hit = places[0]
        facts = hit.facts
        if facts is not None:  # All places count, not the first alone.
            facts = tuple(dict.fromkeys(fact for _, other in places for fact in other.facts or ()))
        yield found(rule, first, hit.message, facts, tuple(path for path, _ in places[1:]), hit.level, write=hit.write)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")
