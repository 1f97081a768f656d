"""A seed goes in, narrowed schemas come out: of each there is an instance that only the wider one accepts."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator

Json = dict[str, Any]
Operator = Callable[[random.Random, Json], object]

WORDS = ["", "a", "ab", "B1", "text", "https://example.org/", "x" * 12]
NUMBERS = [0, 1, 2, 3, 5, 7, 10, 40, -1, 0.5, 2.5]
PATTERNS = ["^[a-z]*$", "^[A-Z]", "[0-9]", "^.{2,}$"]
SCALARS: list[Json] = [
    {"type": "string"},
    {"type": "string", "maxLength": 8},
    {"type": "string", "minLength": 1},
    {"type": "string", "pattern": "^[a-z]"},
    {"type": "integer"},
    {"type": "integer", "minimum": 0, "maximum": 40},
    {"type": "number", "exclusiveMinimum": -1},
    {"type": "number", "multipleOf": 0.5},
    {"type": "boolean"},
    {"type": ["string", "null"]},
    {"type": ["integer", "string", "boolean"]},
    {"enum": ["a", "b", 1, None]},
    {"enum": ["storm", "flood"]},
    {"const": "a"},
    {},
]


class SchemaWriter:
    """Random schemas of a tool, and random instances of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def tool(self) -> Json:
        """A schema of arguments, with definitions."""
        schema = self.object(0)
        schema["$defs"] = {"one": self.object(1), "two": copy.deepcopy(self.random.choice(SCALARS))}
        return schema

    def object(self, depth: int) -> Json:
        names = self.random.sample("abcdef", self.random.randint(1, 4))
        properties = {name: self.schema(depth + 1) for name in names}
        schema: Json = {"type": "object", "properties": properties}
        if self.random.random() < 0.6:
            schema["required"] = [name for name in names if self.random.random() < 0.4]
        if self.random.random() < 0.3:
            schema["additionalProperties"] = self.random.choice([True, {}, {"type": "string"}, {"type": "integer"}])
        return schema

    def schema(self, depth: int) -> Json:
        kind = self.random.random()
        if depth > 3 or kind < 0.5:
            return copy.deepcopy(self.random.choice(SCALARS))
        if kind < 0.62:
            return self.object(depth)
        if kind < 0.74:
            return {"type": "array", "items": self.schema(depth + 1)}
        if kind < 0.86:
            arms = [self.schema(depth + 1) for _ in range(self.random.randint(2, 3))]
            return {self.random.choice(["anyOf", "anyOf", "oneOf"]): arms}
        name = self.random.choice(["one", "two"])
        extra: Json = self.random.choice([{}, {}, {"description": "Beside."}, {"maxLength": 9}, {"required": ["a"]}])
        return {"$ref": f"#/$defs/{name}", **copy.deepcopy(extra)}

    def instance(self, schema: Any, root: Json, depth: int = 0) -> Any:
        """A value that may be valid: a validator decides."""
        choose = self.random.choice
        if not isinstance(schema, dict) or depth > 8 or self.random.random() < 0.03:
            return choose([None, 1, 0.5, "a", {}, [], {"a": 1}, ["a", "a"], True])
        if "$ref" in schema:
            return self.instance(root["$defs"][schema["$ref"].rpartition("/")[2]], root, depth + 1)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.instance(choose(schema[key]), root, depth + 1)
        if "enum" in schema or "const" in schema:
            return choose(schema.get("enum") or [schema.get("const")])
        kinds = schema.get("type", ["string", "integer", "object", "array", "null", "boolean", "number"])
        match choose(kinds) if isinstance(kinds, list) else kinds:
            case "object":
                return self._members(schema, root, depth)
            case "array":
                size = self.random.randint(0, 3)
                return [self.instance(schema.get("items", {}), root, depth + 1) for _ in range(size)]
            case "string":
                return choose(WORDS)
            case "integer":
                return choose([number for number in NUMBERS if isinstance(number, int)])
            case "number":
                return choose(NUMBERS)
            case "boolean":
                return choose([True, False])
            case _:
                return None

    def _members(self, schema: Json, root: Json, depth: int) -> Json:
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        chosen = [name for name in properties if name in required or self.random.random() < 0.5]
        members = {name: self.instance(properties[name], root, depth + 1) for name in chosen}
        if self.random.random() < 0.4:
            rest = schema.get("additionalProperties", {})
            members[self.random.choice("gh")] = self.instance(rest, root, depth + 1)
        return members


def _narrow_number(rnd: random.Random, schema: Json) -> None:
    key = rnd.choice(["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"])
    schema[key] = schema.get(key, rnd.choice([0, 5])) + (1 if "inimum" in key else -1)


def _narrow_size(rnd: random.Random, schema: Json) -> None:
    key = rnd.choice(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"])
    schema[key] = max(0, schema.get(key, 3) + (1 if key.startswith("min") else -1))


def _fewer_kinds(rnd: random.Random, schema: Json) -> None:
    kinds = schema.get("type")
    if isinstance(kinds, list) and len(kinds) > 1:
        kinds.remove(rnd.choice(kinds))
    else:
        schema["type"] = "integer" if kinds == "number" else rnd.choice(["string", "object", "integer"])


def _fewer_values(rnd: random.Random, schema: Json) -> None:
    if len(schema.get("enum", [])) > 1:
        schema["enum"].remove(rnd.choice(schema["enum"]))
    else:
        schema[rnd.choice(["enum"])] = ["a", "text", 1]


def _require(rnd: random.Random, schema: Json) -> None:
    names = [*schema.get("properties", {}), "g"]
    schema["required"] = [*schema.get("required", []), rnd.choice(names)]


def _close(rnd: random.Random, schema: Json) -> None:
    schema["additionalProperties"] = rnd.choice([False, {"type": "boolean"}, {"const": 7}])


def _fewer_arms(rnd: random.Random, schema: Json) -> None:
    arms = schema.get("anyOf") or schema.get("oneOf")
    if arms and len(arms) > 1:
        arms.remove(rnd.choice(arms))
    else:
        schema["anyOf"] = [{"type": "string"}, {"type": "object"}]


def _more_arms(rnd: random.Random, schema: Json) -> None:
    """A value that two alternatives of `oneOf` match is refused."""
    if "oneOf" in schema:
        schema["oneOf"].append(copy.deepcopy(rnd.choice([*schema["oneOf"], {}, {"type": "string"}])))


def _wider_arm(rnd: random.Random, schema: Json) -> None:
    if "oneOf" in schema:
        arm = rnd.choice(schema["oneOf"])
        for key in ("maxLength", "minLength", "pattern", "type", "enum", "required"):
            arm.pop(key, None)


def _reference(rnd: random.Random, schema: Json) -> None:
    if "$ref" in schema:
        schema["$ref"] = "#/$defs/two" if schema["$ref"].endswith("one") else "#/$defs/one"


def _forbid(rnd: random.Random, schema: Json) -> None:
    if isinstance(schema.get("properties"), dict):
        schema["properties"][rnd.choice([*schema["properties"], "g"])] = False


def _put(**keywords: list[Any]) -> Operator:
    def put(rnd: random.Random, schema: Json) -> None:
        for key, values in keywords.items():
            schema[key.replace("not_", "not")] = copy.deepcopy(rnd.choice(values))

    return put


OPERATORS: dict[str, Operator] = {
    "a bound of a number": _narrow_number,
    "a size": _narrow_size,
    "fewer kinds": _fewer_kinds,
    "fewer values": _fewer_values,
    "a required property": _require,
    "no other properties": _close,
    "fewer alternatives": _fewer_arms,
    "alternatives that overlap": _more_arms,
    "a wider alternative that overlaps": _wider_arm,
    "another definition": _reference,
    "a forbidden property": _forbid,
    "a pattern": _put(pattern=PATTERNS),
    "a multiple": _put(multipleOf=[2, 5]),
    "unique items": _put(uniqueItems=[True]),
    "a constant": _put(const=["a", 1, {}]),
    "nothing": _put(type=["null"]),
    "a negation": _put(not_=[{"type": "string"}, {"required": ["a"]}]),
    "a condition": _put(**{"if": [{"type": "string"}], "then": [{"minLength": 2}]}),
    "all of": _put(allOf=[[{"minLength": 2}, {"type": ["string", "object"]}]]),
    "dependent properties": _put(dependentRequired=[{"a": ["b"], "b": ["c"]}]),
    "names of properties": _put(propertyNames=[{"enum": ["a", "b"]}]),
    "items by place": _put(prefixItems=[[{"type": "boolean"}]]),
    "an item": _put(contains=[{"const": 7}]),
    "patterns of properties": _put(patternProperties=[{"^[a-d]$": {"type": "boolean"}}]),
}


def narrowings(seed: int, count: int) -> Iterator[tuple[str, Json, Json, Any]]:
    """Yield what was done, the wider and the narrower schema, and an instance that only the wider one accepts."""
    writer = SchemaWriter(seed)
    names = list(OPERATORS)
    done = 0
    while done < count:
        before = writer.tool()
        after = copy.deepcopy(before)
        operator = writer.random.choice(names)
        OPERATORS[operator](writer.random, writer.random.choice(list(_schemas(after))))
        if writer.random.random() < 0.5:  # Another change beside it hides nothing.
            after["title"] = "Another title"
        witness = _witness(writer, before, after)
        if witness is not None:
            done += 1
            yield operator, before, after, witness[0]


def _schemas(schema: Any) -> Iterator[Json]:
    """Yield a schema and the schemas in it."""
    if isinstance(schema, dict):
        yield schema
        for key in ("properties", "$defs"):
            for part in schema.get(key, {}).values():
                yield from _schemas(part)
        for part in (*schema.get("anyOf", []), *schema.get("oneOf", [])):
            yield from _schemas(part)
        for key in ("items", "additionalProperties"):
            yield from _schemas(schema.get(key))


def _witness(writer: SchemaWriter, before: Json, after: Json) -> list[Any] | None:
    wider, narrower = Draft202012Validator(before), Draft202012Validator(after)
    for _ in range(12):
        value = writer.instance(before, before)
        if not narrower.is_valid(value) and wider.is_valid(value):
            return [value]
    return None
