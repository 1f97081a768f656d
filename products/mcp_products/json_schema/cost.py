"""The costs of a JSON Schema: upper bounds of the work to compile it, to validate a value, and to explain an error.

A validator visits every part of a value with every subschema that applies to it. Keywords such as `anyOf` and `$ref`
apply several subschemas to the same part, and nesting them multiplies this number. Therefore the bounds are computed
first: for a value, from the maximum cost of one part at each depth. The unit is a step of about 10 ns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import frexp
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from mcp_runtime.errors import InvalidMessageError, InvalidSchemaError
from mcp_runtime.protocol.models import is_list, is_object

NOTHING: Final[Any] = object()


def pointed(root: Any, reference: str) -> Any:
    """Return what a reference inside of a document names (RFC 6901, section 6); NOTHING if it names nothing."""
    part = root
    for step in unquote(reference.removeprefix("#")).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if is_list(part) and name.isdecimal() and int(name) < len(part):
            part = part[int(name)]
        elif is_object(part) and name in part:
            part = part[name]
        else:
            return NOTHING
    return part


# The subschemas of a JSON Schema: which keywords have them, where they apply, and what references lead to.

# The size of regular expressions: an estimate of the states of an automaton for a pattern.

_MAX_SIZE: Final = 10**9

# A counted repetition, an escape or a character class (one state each), or any other character. A class that is not
# closed reaches to the end: else, each of its characters would be read up to there.
_TOKEN: Final = re.compile(
    r"\{(\d{1,9})(,?)(\d{0,9})\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|(?P<open>\\?\Z))|.", re.DOTALL
)

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

_MAX_PARTS: Final = 250_000  # The parts of a value.
_SMALL_BITS: Final = 64  # Numbers of this size are handled by the processor, and count as a part only.
_WORD_BITS: Final = 48  # The unit of the size of a larger number.
_DIGIT_BITS: Final = 4
_BIG: Final = 1 << 53
_NEAR_ONE: Final = (2.0**-20, 2.0**53)  # Numbers between these have short fractions.
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


def automaton_size(pattern: str) -> int:
    """Return the length of the pattern with counted repetitions expanded, at most 10⁹."""
    sums, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        minimum, comma, maximum = token[1], token[2], token[3]
        if token[0] == "(":
            sums.append(0)
            last = 1
            continue
        if token[0] == ")" and len(sums) > 1:
            last = sums.pop() + 1
        elif minimum is not None:
            times = int(maximum) if maximum else int(minimum) + (1 if comma else 0)
            sums[-1] -= last
            last = min(last * max(times, 1), _MAX_SIZE)
        else:
            last = 1 if token["open"] is None else len(token[0])
        sums[-1] = min(sums[-1] + last, _MAX_SIZE)
    return min(sum(sums), _MAX_SIZE) + 1


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
        node = pointed(self.root, text)
        if node is NOTHING:
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


# The size of a JSON value at each depth, as far as the cost of its validation depends on it.


class Work(NamedTuple):
    """The size of a value at one depth.

    Args:
        parts: The number of values.
        characters: The characters of strings and property names, and the hexadecimal digits of large integers.
        squares: The sum of the squares of the sizes of large numbers, in words of 48 bits: multiplication, division and
            decimal digits take quadratic time.
    """

    parts: int
    characters: int
    squares: int = 0


def measure(value: Any) -> list[Work]:
    """Return the size of a value at each depth. Raises InvalidMessageError if it is too deep or has too many parts."""
    levels: list[Work] = []
    count = 0
    level: list[Any] = [value]
    while level:
        inner: list[Any] = []
        characters = squares = 0
        for part in level:
            if isinstance(part, str):
                characters += len(part)
            elif is_object(part):
                inner += part.values()
                characters += sum(map(len, part))
            elif is_list(part):
                inner += part
            elif part is not None and not (-_BIG < part < _BIG and part.__class__ is not float):
                squares += square_of(part)
                characters += 0 if isinstance(part, float) else part.bit_length() // _DIGIT_BITS
        levels.append(Work(len(level), characters, squares))
        count += len(level)
        if len(levels) > MAX_DEPTH or count + len(inner) > _MAX_PARTS:
            rule = f"{_MAX_PARTS} parts and {MAX_DEPTH} levels are allowed"
            raise InvalidMessageError(f"a value is too large to be validated with a JSON Schema: {rule}")
        level = inner
    return levels


def square_of(number: int | float) -> int:
    """Return the square of a number's size as a fraction, in words of 48 bits; 0 if it is small."""
    if isinstance(number, float):
        if _NEAR_ONE[0] < abs(number) < _NEAR_ONE[1] or not number:
            return 0
        bits = abs(frexp(number)[1]) + _SMALL_BITS
    else:
        bits = number.bit_length()
    return 0 if bits <= _SMALL_BITS else (bits // _WORD_BITS) ** 2


def squares_in(value: Any) -> tuple[int, int]:
    """Return the number of values in a JSON value, including itself, and the squares of its numbers."""
    count, squares, pending = 0, 0, [value]
    while pending:
        item = pending.pop()
        count += 1
        if is_object(item):
            pending += item.values()
        elif is_list(item):
            pending += item
        elif isinstance(item, int | float):
            squares += square_of(item)
    return count, squares


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
            raise InvalidSchemaError("a JSON Schema is nested too deep for its unevaluated parts") from None

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
