"""The validation cost of a JSON Schema: an upper bound of the work to validate a value.

A validator visits every part of a value with every subschema that applies to it. Keywords such as `anyOf` and `$ref`
apply several subschemas to the same part, and nesting them multiplies this number. Therefore the bound is computed
before the validation: the maximum cost of one part at each depth of the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from ..errors import InvalidMessageError, InvalidSchemaError
from ..protocol.models import is_list, is_object
from .patterns import automaton_size

_VISIT_PRICE: Final = 4  # The price of applying one subschema to one part; the unit is about 10 ns.
_MAX_PRICE: Final = 10**12  # Above every limit; sums are capped here, so that numbers stay small.
_MAX_STATES: Final = 10_000  # The automaton states of all patterns in a schema.
_MAX_SUBSCHEMAS: Final = 5_000
_MAX_PARTS: Final = 250_000  # The parts of a value.
_MAX_DEPTH: Final = 200  # The levels of a schema, and of a value.

# Keywords with subschemas. The first item is where the subschemas apply: to the part itself ("here"), to its children,
# all subschemas to each child ("all") or one subschema to each child ("one"), or "nowhere". The second item is True if
# the value of the keyword is an object with the subschemas as values.
_KEYWORDS: Final[Mapping[str, tuple[str, bool]]] = {
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
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class Work(NamedTuple):
    """The size of a value at one depth: the number of parts, and of characters in strings and property names."""

    parts: int
    characters: int


class Price(NamedTuple):
    """The maximum price of one part and of one character at a depth below a subschema."""

    part: int
    character: int

    def __add__(self, other: tuple[object, ...]) -> Price:
        assert isinstance(other, Price)
        return Price(min(self.part + other.part, _MAX_PRICE), min(self.character + other.character, _MAX_PRICE))


_ZERO: Final = Price(0, 0)


class Cost:
    """The validation cost of a schema. `branches` is True if the schema has `anyOf` or `oneOf`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Analyse a schema. Raises InvalidSchemaError for external or circular references, and for exceeded limits."""
        self._root = dict(schema)
        self._prices: dict[tuple[int, int], Price | None] = {}
        self._anchors: dict[str, dict[str, Any]] = {}
        self.branches = False
        states = 0
        references: list[Any] = []
        for subschema, level in _walk(self._root):
            self.branches = self.branches or "anyOf" in subschema or "oneOf" in subschema
            states += self._register(subschema, level)
            references += (subschema[keyword] for keyword in _REFERENCES if keyword in subschema)
        if states > _MAX_STATES:
            raise InvalidSchemaError(f"the patterns of a JSON Schema have {states} states; {_MAX_STATES} are allowed")
        for reference in references:
            self._resolve(reference)
        self._count = 0
        self.upper_bound([Work(1, 0)])

    def _register(self, schema: dict[str, Any], level: int) -> int:
        """Register the anchors of a subschema, and return the number of states of its patterns."""
        if level > _MAX_DEPTH:
            raise InvalidSchemaError(f"a JSON Schema is nested deeper than {_MAX_DEPTH} levels")
        if level and ("$id" in schema or "$schema" in schema):
            raise InvalidSchemaError("a JSON Schema has an embedded schema with its own $id or $schema; inline it")
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                self._anchors[name] = schema
        return _states(schema)

    def upper_bound(self, work: Sequence[Work]) -> int:
        """Return the maximum cost of validating a value with these sizes, one for each depth."""
        self._count = 0
        try:
            prices = [self._price(self._root, depth) for depth in range(len(work))]
        except RecursionError:
            raise InvalidSchemaError("a JSON Schema is nested too deep for a value of this depth") from None
        return sum(
            price.part * level.parts + price.character * level.characters
            for price, level in zip(prices, work, strict=True)
        )

    def _price(self, schema: Any, depth: int) -> Price:
        if not is_object(schema):
            return _ZERO
        key = (id(schema), depth)
        if key in self._prices:
            if (price := self._prices[key]) is None:
                raise InvalidSchemaError("a JSON Schema has a circular $ref that applies to the same part of the value")
            return price
        self._prices[key] = None
        try:
            price = self._prices[key] = self._compute_price(schema, depth)
        finally:
            if self._prices[key] is None:
                del self._prices[key]
        return price

    def _compute_price(self, schema: dict[str, Any], depth: int) -> Price:
        self._count += 1
        if self._count > _MAX_SUBSCHEMAS:
            raise InvalidSchemaError("a JSON Schema has too many recursive references for a value of this depth")
        price = _keyword_price(schema) if depth == 0 else self._children_price(schema, depth - 1)
        for subschema in self._applied_here(schema):
            price += self._price(subschema, depth)
        if (
            "unevaluatedItems" in schema or "unevaluatedProperties" in schema
        ):  # The validator evaluates the other keywords again.
            price += price + price
        return price

    def _applied_here(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the subschemas that apply to the part itself."""
        for keyword, value in schema.items():
            if keyword in _REFERENCES:
                yield self._resolve(value)
            elif _KEYWORDS.get(keyword, _NO_SUBSCHEMAS)[0] == "here":
                yield from _subschemas(keyword, value)

    def _children_price(self, schema: dict[str, Any], depth: int) -> Price:
        """Return the price of the subschemas that apply to the children."""
        price = _ZERO
        for keyword, value in schema.items():
            where, _ = _KEYWORDS.get(keyword, _NO_SUBSCHEMAS)
            if where not in ("all", "one"):
                continue
            total = _ZERO
            for subschema in _subschemas(keyword, value):
                child = self._price(subschema, depth)
                total = total + child if where == "all" else Price(*map(max, total, child))
            price += total
        return price

    def _resolve(self, reference: Any) -> Any:
        base = self._root.get("$id")
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
        node: Any = self._root
        for step in path.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_list(node) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            elif is_object(node) and name in node:
                node = node[name]
            else:
                raise InvalidSchemaError(f"a JSON Schema has the reference {reference!r}, which does not resolve")
        return node


def measure(value: Any) -> list[Work]:
    """Return the size of a value at each depth. Raises InvalidMessageError if it is too deep or has too many parts."""
    levels: list[Work] = []
    count = 0
    level: list[Any] = [value]
    while level:
        inner: list[Any] = []
        characters = 0
        for part in level:
            if isinstance(part, str):
                characters += len(part)
            elif is_object(part):
                inner += part.values()
                characters += sum(map(len, part))
            elif is_list(part):
                inner += part
        levels.append(Work(len(level), characters))
        count += len(level)
        if len(levels) > _MAX_DEPTH or count + len(inner) > _MAX_PARTS:
            rule = f"{_MAX_PARTS} parts and {_MAX_DEPTH} levels are allowed"
            raise InvalidMessageError(f"a value is too large to be validated with a JSON Schema: {rule}")
        level = inner
    return levels


def _keyword_price(schema: dict[str, Any]) -> Price:
    """Return the price of a schema's keywords without subschemas; `enum` and `required` cost one step for each item."""
    size = _VISIT_PRICE
    for keyword, value in schema.items():
        if is_object(value) or is_list(value):
            size += len(value) if keyword in _KEYWORDS else _count_values(value)
    character = 1 if schema.get("uniqueItems") or "maxLength" in schema or "minLength" in schema else 0
    return Price(size, character + _states(schema))


def _states(schema: dict[str, Any]) -> int:
    pattern_ = schema.get("pattern")
    by_pattern: Any = schema.get("patternProperties")
    patterns = [pattern_, *(by_pattern if is_object(by_pattern) else ())]
    return sum(automaton_size(pattern) for pattern in patterns if isinstance(pattern, str))


def _count_values(value: Any) -> int:
    """Return the number of values in a JSON value, including itself."""
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        count += 1
        if is_object(item):
            pending += item.values()
        elif is_list(item):
            pending += item
    return count


def _walk(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield a schema and all its subschemas, each with its level."""
    pending: list[tuple[Any, int]] = [(schema, 0)]
    count = 0
    while pending:
        subschema, level = pending.pop()
        count += 1
        if count > _MAX_SUBSCHEMAS:
            raise InvalidSchemaError(f"a JSON Schema has more than {_MAX_SUBSCHEMAS} subschemas")
        if not is_object(subschema):
            continue
        yield subschema, level
        for keyword, value in subschema.items():
            if keyword in _KEYWORDS:
                children = _subschemas(keyword, value)
                pending += ((child, level + 1) for child in children[:_MAX_SUBSCHEMAS])


def _subschemas(keyword: str, value: Any) -> list[Any]:
    """Return the subschemas of a keyword."""
    if _KEYWORDS[keyword][1]:
        return list(value.values()) if is_object(value) else []
    return value if is_list(value) else [value]
