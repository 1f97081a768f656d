"""The subschemas of a JSON Schema: which keywords have them, where they apply, and what references lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from ..errors import InvalidSchemaError
from ..protocol.models import is_list, is_object
from .patterns import automaton_size

MAX_DEPTH: Final = 200  # The levels of a schema, and of a value.
MAX_SUBSCHEMAS: Final = 5_000
_MAX_STATES: Final = 10_000  # The automaton states of all patterns in a schema.
# The lists, objects and integers beyond 2⁵³ in one list that has to be without duplicates, such as that of `enum` in
# draft-07: the validator compares all of them with all others.
_MAX_COMPARED: Final = 1_000
_EXACT: Final = 1 << 53  # Below it, all integers are different as floats.

# Keywords with subschemas. The first item is where the subschemas apply: to the part itself ("here"), to its children,
# all subschemas to each child ("all") or one subschema to each child ("one"), or "nowhere". The second item is True if
# the value of the keyword is an object with the subschemas as values.
KEYWORDS: Final[Mapping[str, tuple[str, bool]]] = {
    **dict.fromkeys(("not", "if", "then", "else", "allOf", "anyOf", "oneOf"), ("here", False)),
    **dict.fromkeys(("dependentSchemas", "dependencies"), ("here", True)),
    **dict.fromkeys(("additionalItems", "additionalProperties", "contains", "propertyNames"), ("all", False)),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), ("all", False)),
    **dict.fromkeys(("items", "prefixItems"), ("one", False)),
    "patternProperties": ("all", True),
    "properties": ("one", True),
    **dict.fromkeys(("$defs", "definitions"), ("nowhere", True)),
}
_NO_SUBSCHEMAS: Final = ("nowhere", False)
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")


class SchemaTree:
    """A schema with its anchors, checked against the limits.

    `keywords` are the names that its subschemas use.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Read a schema. Raises InvalidSchemaError for references that do not resolve, and for exceeded limits."""
        self.root = dict(schema)
        self.keywords: set[str] = set()
        self._anchors: dict[str, dict[str, Any]] = {}
        states = 0
        references: list[Any] = []
        for subschema, level in _walk(self.root):
            self.keywords.update(subschema)
            states += self._register(subschema, level)
            references += (subschema[keyword] for keyword in REFERENCES if keyword in subschema)
        if states > _MAX_STATES:
            raise InvalidSchemaError(f"the patterns of a JSON Schema have {states} states; {_MAX_STATES} are allowed")
        for reference in references:
            self.resolve(reference)

    def applied_here(self, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the subschemas that apply to the part itself, with their keywords."""
        for keyword, value in schema.items():
            if keyword in REFERENCES:
                yield keyword, self.resolve(value)
            elif KEYWORDS.get(keyword, _NO_SUBSCHEMAS)[0] == "here":
                for subschema in subschemas(keyword, value):
                    yield keyword, subschema

    def resolve(self, reference: Any) -> Any:
        """Return what a reference leads to. Raises InvalidSchemaError if that is not in the schema."""
        base = self.root.get("$id")
        text = reference if isinstance(reference, str) else ""
        if isinstance(base, str) and base.strip("#"):
            text = text.removeprefix(base.rstrip("#"))
        if not text.startswith("#"):
            raise InvalidSchemaError(
                f"a JSON Schema has the external reference {reference!r}; external references are never fetched"
            )
        path = unquote(text[1:])
        if path and not path.startswith("/"):
            return self._anchors.get(path, {})
        node: Any = self.root
        for step in path.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_list(node) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            elif is_object(node) and name in node:
                node = node[name]
            else:
                raise InvalidSchemaError(f"a JSON Schema has the reference {reference!r}, which does not resolve")
        return node

    def _register(self, schema: dict[str, Any], level: int) -> int:
        """Register the anchors of a subschema, and return the number of states of its patterns."""
        if level > MAX_DEPTH:
            raise InvalidSchemaError(f"a JSON Schema is nested deeper than {MAX_DEPTH} levels")
        if level and ("$id" in schema or "$schema" in schema):
            raise InvalidSchemaError("a JSON Schema has an embedded schema with its own $id or $schema; inline it")
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                self._anchors[name] = schema
        _check_lists(schema)
        return states_of(schema)


def subschemas(keyword: str, value: Any) -> list[Any]:
    """Return the subschemas of a keyword."""
    if KEYWORDS[keyword][1]:
        return list(value.values()) if is_object(value) else []
    return value if is_list(value) else [value]


def children_of(schema: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the subschemas that apply to children, by keyword's way of application: "all" or "one"."""
    for keyword, value in schema.items():
        where, _ = KEYWORDS.get(keyword, _NO_SUBSCHEMAS)
        if where in ("all", "one"):
            yield where, subschemas(keyword, value)


def states_of(schema: dict[str, Any]) -> int:
    """Return the automaton states of the patterns in a schema, without its subschemas."""
    pattern_ = schema.get("pattern")
    by_pattern: Any = schema.get("patternProperties")
    patterns = [pattern_, *(by_pattern if is_object(by_pattern) else ())]
    return sum(automaton_size(pattern) for pattern in patterns if isinstance(pattern, str))


def _check_lists(schema: dict[str, Any]) -> None:
    """Raise InvalidSchemaError for a list that takes long to be searched for duplicates."""
    lists: list[Any] = [value for keyword, value in schema.items() if is_list(value) and keyword not in KEYWORDS]
    for keyword in ("dependencies", "dependentRequired"):
        by_name = schema.get(keyword)
        lists += filter(is_list, by_name.values()) if is_object(by_name) else ()
    for values in lists:
        if len(values) > _MAX_COMPARED and sum(map(_is_compared, values)) > _MAX_COMPARED:
            rule = f"{_MAX_COMPARED} objects, lists and integers beyond 2**53 are allowed"
            raise InvalidSchemaError(f"a list in a JSON Schema takes too long to be searched for duplicates: {rule}")


def _is_compared(value: Any) -> bool:
    return is_object(value) or is_list(value) or (isinstance(value, int) and not -_EXACT < value < _EXACT)


def _walk(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield a schema and all its subschemas, each with its level."""
    pending: list[tuple[Any, int]] = [(schema, 0)]
    count = 0
    while pending:
        subschema, level = pending.pop()
        count += 1
        if count > MAX_SUBSCHEMAS:
            raise InvalidSchemaError(f"a JSON Schema has more than {MAX_SUBSCHEMAS} subschemas")
        if not is_object(subschema):
            continue
        yield subschema, level
        for keyword, value in subschema.items():
            if keyword in KEYWORDS:
                children = subschemas(keyword, value)
                pending += ((child, level + 1) for child in children[:MAX_SUBSCHEMAS])
