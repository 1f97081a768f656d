"""A JSON Schema goes in, an upper bound of the work that checking a value against it takes comes out.

A validator visits every part of a value with every subschema that applies there. Keywords such as `anyOf` and `$ref`
apply several subschemas to the same part, and where they are nested that number doubles at each step, so it is counted
here first: for each depth of a value, how much a part at that depth can cost at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from ..errors import InvalidMessageError, InvalidSchemaError
from ..protocol.models import is_list, is_object
from .patterns import automaton_size

_VISIT: Final = 4  # What a visit of one part by one subschema costs; the unit is about 10 ns.
_ENDLESS: Final = 10**12  # More than anything may cost; sums stop here, so that numbers stay small.
_MAX_STATES: Final = 10_000  # Of all patterns together.
_MAX_SUBSCHEMAS: Final = 5_000
_MAX_PARTS: Final = 250_000  # Of a value.
_MAX_DEPTH: Final = 200  # Levels of a schema, and of a value.

# Keywords with subschemas: whether these apply to the part itself ("here"), to what is inside it, each part meeting all
# of them ("all") or one of them ("one"), or nowhere; and whether they are held as values of an object with free names.
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
    """What a value has at one depth: how many parts, and how many characters in strings and names."""

    parts: int
    characters: int


class Price(NamedTuple):
    """What one part, and one character, cost at most at some depth below a subschema."""

    part: int
    character: int

    def __add__(self, other: tuple[object, ...]) -> Price:
        assert isinstance(other, Price)
        return Price(min(self.part + other.part, _ENDLESS), min(self.character + other.character, _ENDLESS))


_FREE: Final = Price(0, 0)


class Cost:
    """The cost of a schema; `branches` says whether it has alternatives. Raises InvalidSchemaError for references that lead elsewhere or into themselves."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = dict(schema)
        self._known: dict[tuple[int, int], Price | None] = {}
        self._anchors: dict[str, dict[str, Any]] = {}
        self.branches = False
        states = 0
        references: list[Any] = []
        for each, level in _walk(self._root):
            self.branches = self.branches or "anyOf" in each or "oneOf" in each
            states += self._indexed(each, level)
            references += (each[keyword] for keyword in _REFERENCES if keyword in each)
        if states > _MAX_STATES:
            raise InvalidSchemaError(f"the patterns of a JSON Schema have {states} states; {_MAX_STATES} are allowed")
        for reference in references:
            self._target(reference)
        self._count = 0
        self.of([Work(1, 0)])

    def _indexed(self, schema: dict[str, Any], level: int) -> int:
        """Remember the names of a subschema; gives the states of its patterns."""
        if level > _MAX_DEPTH:
            raise InvalidSchemaError(f"a JSON Schema is nested deeper than {_MAX_DEPTH} levels")
        if level and ("$id" in schema or "$schema" in schema):
            raise InvalidSchemaError("a JSON Schema has another one inside, with a base or dialect of its own")
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                self._anchors[name] = schema
        return _states(schema)

    def of(self, work: Sequence[Work]) -> int:
        """The most that checking a value costs which has this at each depth."""
        self._count = 0
        try:
            prices = [self._price(self._root, depth) for depth in range(len(work))]
        except RecursionError:
            raise InvalidSchemaError("a JSON Schema goes too deep for a value this deep") from None
        return sum(price.part * each.parts + price.character * each.characters for price, each in zip(prices, work))

    def _price(self, schema: Any, depth: int) -> Price:
        if not is_object(schema):
            return _FREE
        key = (id(schema), depth)
        if key in self._known:
            if (known := self._known[key]) is None:
                raise InvalidSchemaError("a JSON Schema refers to itself without going on to another part of the value")
            return known
        self._known[key] = None
        try:
            price = self._known[key] = self._computed(schema, depth)
        finally:
            if self._known[key] is None:
                del self._known[key]
        return price

    def _computed(self, schema: dict[str, Any], depth: int) -> Price:
        self._count += 1
        if self._count > _MAX_SUBSCHEMAS:
            raise InvalidSchemaError("a JSON Schema refers to itself in too many ways for a value this deep")
        price = _own_keywords(schema) if depth == 0 else self._children_price(schema, depth - 1)
        for other in self._own_price(schema):
            price += self._price(other, depth)
        if "unevaluatedItems" in schema or "unevaluatedProperties" in schema:  # What was evaluated is found out anew.
            price += price + price
        return price

    def _own_price(self, schema: dict[str, Any]) -> Iterator[Any]:
        """The subschemas that apply to the part itself."""
        for keyword, value in schema.items():
            if keyword in _REFERENCES:
                yield self._target(value)
            elif _KEYWORDS.get(keyword, _NO_SUBSCHEMAS)[0] == "here":
                yield from _subschemas(keyword, value)

    def _children_price(self, schema: dict[str, Any], depth: int) -> Price:
        """What the subschemas that apply inside cost."""
        price = _FREE
        for keyword, value in schema.items():
            where, _ = _KEYWORDS.get(keyword, _NO_SUBSCHEMAS)
            if where not in ("all", "one"):
                continue
            most = _FREE
            for each in _subschemas(keyword, value):
                found = self._price(each, depth)
                most = most + found if where == "all" else Price(*map(max, most, found))
            price += most
        return price

    def _target(self, reference: Any) -> Any:
        base = self._root.get("$id")
        text = reference if isinstance(reference, str) else ""
        if isinstance(base, str) and base.strip("#"):
            text = text.removeprefix(base.rstrip("#"))
        if not text.startswith("#"):
            raise InvalidSchemaError(
                f"a JSON Schema refers to {reference!r}, outside of itself, which is never fetched"
            )
        path = unquote(text[1:])
        if path and not path.startswith("/"):
            return self._anchors.get(path, {})
        at: Any = self._root
        for step in path.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_list(at) and name.isdecimal() and int(name) < len(at):
                at = at[int(name)]
            elif is_object(at) and name in at:
                at = at[name]
            else:
                raise InvalidSchemaError(f"a JSON Schema refers to {reference!r}, which it does not have")
        return at


def measure(value: Any) -> list[Work]:
    """What a value has at each depth. Raises InvalidMessageError where it is too deep or has too many parts."""
    found: list[Work] = []
    count = 0
    level: list[Any] = [value]
    while level:
        inner: list[Any] = []
        characters = 0
        for each in level:
            if isinstance(each, str):
                characters += len(each)
            elif is_object(each):
                inner += each.values()
                characters += sum(map(len, each))
            elif is_list(each):
                inner += each
        found.append(Work(len(level), characters))
        count += len(level)
        if len(found) > _MAX_DEPTH or count + len(inner) > _MAX_PARTS:
            rule = f"{_MAX_PARTS} parts and {_MAX_DEPTH} levels are allowed"
            raise InvalidMessageError(f"a value is too large to be checked against a JSON Schema: {rule}")
        level = inner
    return found


def _own_keywords(schema: dict[str, Any]) -> Price:
    """What the keywords of a schema itself cost: lists such as those of `enum` and `required` are gone through."""
    size = _VISIT
    for keyword, value in schema.items():
        if is_object(value) or is_list(value):
            size += len(value) if keyword in _KEYWORDS else _size(value)
    character = 1 if schema.get("uniqueItems") or "maxLength" in schema or "minLength" in schema else 0
    return Price(size, character + _states(schema))


def _states(schema: dict[str, Any]) -> int:
    own = schema.get("pattern")
    named: Any = schema.get("patternProperties")
    patterns = [own, *(named if is_object(named) else ())]
    return sum(automaton_size(pattern) for pattern in patterns if isinstance(pattern, str))


def _size(value: Any) -> int:
    """How many values there are in one."""
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if is_object(each):
            waiting += each.values()
        elif is_list(each):
            waiting += each
    return count


def _walk(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """A schema and all below it, with their levels."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    count = 0
    while waiting:
        each, level = waiting.pop()
        count += 1
        if count > _MAX_SUBSCHEMAS:
            raise InvalidSchemaError(f"a JSON Schema has more than {_MAX_SUBSCHEMAS} subschemas")
        if not is_object(each):
            continue
        yield each, level
        for keyword, value in each.items():
            if keyword in _KEYWORDS:
                held = _subschemas(keyword, value)
                waiting += ((other, level + 1) for other in held[:_MAX_SUBSCHEMAS])


def _subschemas(keyword: str, value: Any) -> list[Any]:
    """The subschemas that a keyword holds."""
    if _KEYWORDS[keyword][1]:
        return list(value.values()) if is_object(value) else []
    return value if is_list(value) else [value]
