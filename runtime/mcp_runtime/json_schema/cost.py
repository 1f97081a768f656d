"""The costs of a JSON Schema: upper bounds of the work to compile it, to validate a value, and to explain an error.

A validator visits every part of a value with every subschema that applies to it. Keywords such as `anyOf` and `$ref`
apply several subschemas to the same part, and nesting them multiplies this number. Therefore the bounds are computed
first: for a value, from the maximum cost of one part at each depth. The unit is a step of about 10 ns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..errors import InvalidSchemaError
from ..protocol.models import is_list, is_object
from .schema_tree import (
    KEYWORDS,
    MAX_SUBSCHEMAS,
    REFERENCES,
    UNEVALUATED,
    SchemaTree,
    children_of,
    states_of,
    subschemas,
)
from .sizes import Work, squares_in

_MAX_PRICE: Final = 10**12  # Above every limit; sums are capped here, so that numbers stay small.
_MAX_COMPILED: Final = 20_000  # The nodes that one schema may become, with copies; one takes up to 4 µs.

# Steps.
_VISIT: Final = 4  # Applying one subschema to one part.
_SQUARE: Final = 1  # Reading or dividing a large number, for each square of its size.
_FRACTION: Final = 150  # Dividing a small number by a fraction.
_FRACTION_SQUARE: Final = 4  # Dividing a large number by a fraction, for each square of the sizes of both.
_CONSTANT: Final = 8  # Comparing one part with that of `const`.
_UNIQUE: Final = 80  # Writing one part of an item of `uniqueItems`.
_ERROR: Final = 1_500  # Creating one error.
_COPIED: Final = 60  # Copying one part into an error.

_NUMERIC: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COMPARED: Final = ("enum", "const")
# Keywords that cause no error of their own. All others, unknown ones included, count as one error.
_SILENT: Final = frozenset(
    {
        *("$schema", "$id", "$anchor", "$defs", "definitions", "$comment", "title", "description", "default"),
        *("examples", "deprecated", "readOnly", "writeOnly", "format", "allOf", "if", "then", "else", "properties"),
        *("items", "prefixItems", "patternProperties", "propertyNames", "dependentSchemas", *REFERENCES),
    }
)
# Keywords whose subschemas are not validated again when what they have evaluated is searched.
_ONLY_SEARCHED: Final = frozenset({"then", "else", "dependentSchemas", *REFERENCES})


class Price(NamedTuple):
    """The maximum price, at a depth below a subschema, of one part, of one character and of one square of a number."""

    part: int
    character: int = 0
    square: int = 0

    def __add__(self, other: tuple[object, ...]) -> Price:
        assert isinstance(other, Price)
        return Price(*(min(one + two, _MAX_PRICE) for one, two in zip(self, other, strict=True)))


_ZERO: Final = Price(0)


class Cost:
    """The costs of a schema. `branches` is True if it has `anyOf` or `oneOf`, and `unique` if it has `uniqueItems`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Analyse a schema. Raises InvalidSchemaError for external or circular references, and for exceeded limits."""
        self._tree = SchemaTree(schema)
        self.branches = not self._tree.keywords.isdisjoint(("anyOf", "oneOf"))
        self.unique = "uniqueItems" in self._tree.keywords
        self._validation = _PriceTable(self._tree, _keyword_price)
        self._explanation = _PriceTable(self._tree, _error_price)
        self.upper_bound([Work(1, 0)])
        if (nodes := _CompiledNodes(self._tree).count()) > _MAX_COMPILED:
            raise InvalidSchemaError(
                f"a JSON Schema becomes {nodes} nodes with its unevaluatedProperties or unevaluatedItems; "
                f"{_MAX_COMPILED} are allowed"
            )

    def upper_bound(self, work: Sequence[Work]) -> int:
        """Return the maximum cost of validating a value with these sizes, one for each depth."""
        return self._validation.total(work)

    def explanation(self, work: Sequence[Work]) -> int:
        """Return the maximum cost of the errors of all branches: each error has a copy of the part that it is about."""
        return self._explanation.total(work)


class _PriceTable:
    """The prices of subschemas at each depth, computed once; `own` is the price without subschemas."""

    def __init__(self, tree: SchemaTree, own: Callable[[dict[str, Any], int], Price]) -> None:
        self._tree = tree
        self._own = own
        self._prices: dict[tuple[int, int, bool], Price | None] = {}
        self._count = 0

    def total(self, work: Sequence[Work]) -> int:
        self._count = 0
        try:
            prices = [self._price(self._tree.root, depth) for depth in range(len(work))]
        except RecursionError:
            raise InvalidSchemaError("a JSON Schema is nested too deep for a value of this depth") from None
        return sum(
            price.part * level.parts + price.character * level.characters + price.square * level.squares
            for price, level in zip(prices, work, strict=True)
        )

    def _price(self, schema: Any, depth: int, again: bool = False) -> Price:
        """Return the price of a subschema at a depth; with `again`, that of searching it for what it has evaluated."""
        if not is_object(schema):
            return self._own({"": schema}, depth)
        key = (id(schema), depth, again)
        if key in self._prices:
            if (price := self._prices[key]) is None:
                raise InvalidSchemaError("a JSON Schema has a circular $ref that applies to the same part of the value")
            return price
        self._prices[key] = None
        try:
            price = self._prices[key] = self._compute(schema, depth, again)
        finally:
            if self._prices[key] is None:
                del self._prices[key]
        return price

    def _compute(self, schema: dict[str, Any], depth: int, again: bool) -> Price:
        self._count += 1
        if self._count > MAX_SUBSCHEMAS:
            raise InvalidSchemaError("a JSON Schema has too many recursive references for a value of this depth")
        price = self._own(schema, depth) + (self._children(schema, depth - 1) if depth else _ZERO)
        for keyword, subschema in self._tree.applied_here(schema):
            if not again or keyword not in _ONLY_SEARCHED:
                price += self._price(subschema, depth)
            if again:
                price += self._price(subschema, depth, again=True)
        if not again and any(keyword in schema for keyword in UNEVALUATED):
            price += self._price(schema, depth, again=True)
        return price

    def _children(self, schema: dict[str, Any], depth: int) -> Price:
        """Return the price of the subschemas that apply to the children."""
        price = _ZERO
        for where, children in children_of(schema):
            total = _ZERO
            for subschema in children:
                child = self._price(subschema, depth)
                total = total + child if where == "all" else Price(*map(max, total, child))
            price += total
        return price


class _CompiledNodes:
    """The nodes that the validator makes of a schema.

    With `unevaluatedProperties` and `unevaluatedItems`, it makes a second tree of all subschemas that apply to the same
    part, without references, and copies it at each level.
    """

    def __init__(self, tree: SchemaTree) -> None:
        self._tree = tree
        self._counts: dict[int, int] = {}
        self._copies: dict[int, tuple[int, int]] = {}

    def count(self) -> int:
        if self._tree.keywords.isdisjoint(UNEVALUATED):
            return 0
        try:
            return self._count(self._tree.root)
        except RecursionError:
            raise InvalidSchemaError(
                "a JSON Schema is nested too deep for its unevaluated properties or items"
            ) from None

    def _count(self, schema: Any) -> int:
        if not is_object(schema):
            return 1
        if id(schema) not in self._counts:
            count = 1
            for keyword, value in schema.items():
                if keyword in KEYWORDS:
                    count += sum(map(self._count, subschemas(keyword, value)))
            again = sum(keyword in schema for keyword in UNEVALUATED)
            self._counts[id(schema)] = min(count + again * self._copied(schema)[0], _MAX_PRICE)
        return self._counts[id(schema)]

    def _copied(self, schema: Any) -> tuple[int, int]:
        """Return the nodes of the second tree with all copies, and those of one copy."""
        if not is_object(schema):
            return 1, 1
        if id(schema) not in self._copies:
            self._copies[id(schema)] = (0, 0)  # References in a circle end here.
            count = size = 1
            for keyword, subschema in self._tree.applied_here(schema):
                inner, inner_size = self._copied(subschema)
                count += inner + (0 if keyword in _ONLY_SEARCHED else self._count(subschema))
                size += inner_size
            for _, children in children_of(schema):
                count += sum(map(self._count, children))
            self._copies[id(schema)] = min(count + size, _MAX_PRICE), min(size, _MAX_PRICE)
        return self._copies[id(schema)]


def _keyword_price(schema: dict[str, Any], depth: int) -> Price:
    """Return the price of a schema's keywords without subschemas; `enum` and `required` cost one step for each item."""
    is_unique = bool(schema.get("uniqueItems"))
    if depth:
        return Price(_UNIQUE, 1) if is_unique else _ZERO
    size, square = _VISIT + (_UNIQUE if is_unique else 0), 0
    for keyword, value in schema.items():
        if keyword in KEYWORDS:
            size += len(value) if is_object(value) or is_list(value) else 0
        elif keyword in _COMPARED:
            count, squares = squares_in(value)
            size += count * (_CONSTANT if keyword == "const" else 1) + squares * _SQUARE
            square += count * _SQUARE
        elif is_object(value) or is_list(value):
            size += squares_in(value)[0]
        elif keyword == "multipleOf" and isinstance(value, float):
            size += _FRACTION + squares_in(value)[1] * _FRACTION_SQUARE
            square += _FRACTION_SQUARE
        elif keyword == "multipleOf" or keyword in _NUMERIC:
            size += squares_in(value)[1] * _SQUARE
            square += _SQUARE
    character = 1 if "maxLength" in schema or "minLength" in schema else 0
    return Price(size, character + states_of(schema), square)


def _error_price(schema: dict[str, Any], depth: int) -> Price:
    """Return the price of the errors of a schema's keywords: each has a copy of the part, with all that it contains."""
    errors = len(schema.keys() - _SILENT)
    required = schema.get("required")
    errors += len(required) if is_list(required) else 0
    return Price((_COPIED if depth else _COPIED + _ERROR) * errors, errors, errors)
