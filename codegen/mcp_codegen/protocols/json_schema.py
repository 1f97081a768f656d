"""The front end for plain JSON Schema with definitions, such as those of the Agent Client Protocol and of DAP.

A schema that composes objects (`allOf`, `anyOf` and `oneOf` beside `properties`) is written out: one object for each
alternative, with the name of the definition and of what tells it apart. Objects stay open. Definitions with `x-method`
and `x-side` are the params and results of messages; `x-side` is the side that receives them.

| written                                                | read as                                                   |
|--------------------------------------------------------|-----------------------------------------------------------|
| `oneOf` of constants                                   | an enumeration                                            |
| the same with a string of any value; `_enum`           | a string with known values                                |
| `{"allOf": [{"$ref": …}]}`                             | the reference                                             |
| `allOf` without properties                             | its first part that is more than any value                |
| `properties` without `type`                            | an object                                                 |
| what no type says (`schema_checks`)                    | a JSON Schema beside the type                             |

A request may also be written out as the message that it is, as the Agent2Agent Protocol does: an object whose property
`method` is a constant. Its params are those of its property `params`, and its result that of its response's definition.
The messages of the Debug Adapter Protocol are composed: a part of each has the constant `command` or `event`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, Literal
from urllib.parse import unquote

from ..errors import SchemaError, is_list, is_object
from ..importer.references import REF, Schema
from ..model.names import pascal
from .document import (
    ASSERTIONS,
    DIRECTIONS,
    KINDS,
    Checks,
    Direction,
    ProtocolDocument,
    ProtocolMessage,
    check_keywords,
    dialect_of,
    document_schema,
    kinds_of,
    marks,
    relevant,
)

_PLACES: Final = (("$defs",), ("definitions",), ("components", "schemas"))
_KEYWORDS: Final = ("type", "minimum", "maximum", "minLength", "maxLength", "pattern", "format", "minItems", "maxItems")
_BOUNDS: Final = frozenset(("minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems"))
_UNIONS: Final = ("anyOf", "oneOf")
_RESULT_ENDS: Final = ("Response", "Result")
_ENVELOPE_ENDS: Final = ("SuccessResponse", "Response", "Result")
_HIDDEN: Final = "x-docs-ignore"  # Envelopes of JSON-RPC, which the runtime reads itself.


def read_json_schema(
    document: Schema, name: str, sides: Mapping[str, str], reverse: Collection[str] | None = None
) -> ProtocolDocument:
    """Return what a JSON Schema document describes. Raises SchemaError for a form that cannot be read.

    `sides` are the names of the two sides, by `client` and `server`, as `x-side` has them. `reverse` are the commands
    that the server sends, of a document whose messages are those of the Debug Adapter Protocol.
    """
    definitions = document.get("$defs", document.get("definitions"))
    if not is_object(definitions) or not definitions:
        raise SchemaError(f"{name}: the document has neither `$defs` nor `definitions`; pass a schema with definitions")
    reader = SchemaReader(definitions, name, document)
    written = {key: value for key, value in definitions.items() if is_object(value)}
    if reverse is None:
        messages = [*_messages(written, name, sides), *_envelopes(reader, written)]
    else:
        messages = list(_debug_messages(reader, written, reverse))
        if unknown := sorted({*reverse} - {message.method for message in messages}):
            raise SchemaError(
                f"{name}: `reverse` names {unknown[0]!r}, which is not a command of the document; correct it"
            )
    schema = document_schema(name, reader.read())
    return ProtocolDocument(schema, tuple(messages))


def _messages(definitions: Schema, name: str, sides: Mapping[str, str]) -> Iterator[ProtocolMessage]:
    """Yield the messages of the definitions that name their method; a method of both sides twice."""
    receivers: dict[str, Direction] = {sides["server"].lower(): DIRECTIONS[0], sides["client"].lower(): DIRECTIONS[1]}
    by_method: dict[str, list[str]] = {}
    for key, schema in definitions.items():
        if is_object(schema) and "x-method" in schema:
            by_method.setdefault(str(schema["x-method"]), []).append(key)
    for method, keys in by_method.items():
        results = [key for key in keys if key.endswith(_RESULT_ENDS)]
        notified = [key for key in keys if key.endswith("Notification") and results]
        params = [key for key in keys if key not in results and key not in notified]
        if len(results) > 1 or len(params) > 1:
            raise SchemaError(f"{name}: {method} has {', '.join(keys)}; give it one type of params and one result")
        described = definitions[(params or results)[0]]
        side = str(described.get("x-side", "")).lower()
        directions: tuple[Direction, ...] = (receivers[side],) if side in receivers else DIRECTIONS
        for direction in directions:
            yield ProtocolMessage(
                "request" if results else "notification",
                direction,
                method,
                params[0] if params else None,
                results[0] if results else None,
                marks(described).get("x-doc", ""),
                bool(described.get("deprecated")),
            )
            for key in notified:
                text, deprecated = marks(definitions[key]).get("x-doc", ""), bool(definitions[key].get("deprecated"))
                yield ProtocolMessage(
                    "notification", direction, method, key, None, text, deprecated, is_also_request=True
                )


def _envelopes(reader: SchemaReader, definitions: Schema) -> Iterator[ProtocolMessage]:
    """Yield the messages of the definitions that are whole JSON-RPC messages, with a constant as their method."""
    for key, schema in list(definitions.items()):
        properties = schema.get("properties")
        method = _constant(properties, "method") if is_object(properties) else None
        if method is None or not is_object(properties) or not properties.keys() & {"jsonrpc", "params", "id"}:
            continue
        params = reader.named(properties["params"], f"{key}Params") if "params" in properties else None
        is_request = "id" in properties
        stem = key.removesuffix("Request")
        response = next((stem + end for end in _ENVELOPE_ENDS if stem + end in definitions), None)
        result = None
        if is_request and response is not None:
            outcome = definitions[response].get("properties", {})
            in_envelope = is_object(outcome) and "result" in outcome
            result = reader.named(outcome["result"], f"{stem}Result") if in_envelope else response
        doc, deprecated = marks(schema).get("x-doc", ""), bool(schema.get("deprecated"))
        kind: Literal["request", "notification"] = "request" if is_request else "notification"
        yield ProtocolMessage(kind, DIRECTIONS[0], method, params, result, doc, deprecated)


def _debug_messages(reader: SchemaReader, definitions: Schema, reverse: Collection[str]) -> Iterator[ProtocolMessage]:
    """Yield the commands and events of the Debug Adapter Protocol: definitions that say so in a part of `allOf`."""
    for key, schema in list(definitions.items()):
        part = _own_part(schema)
        properties = part.get("properties", {})
        command, event = _constant(properties, "command"), _constant(properties, "event")
        doc, deprecated = marks(part).get("x-doc", ""), bool(part.get("deprecated"))
        if command is not None:
            params = reader.named(properties["arguments"], f"{key}Arguments") if "arguments" in properties else None
            stem = key.removesuffix("Request")
            answer = _own_part(definitions.get(f"{stem}Response")).get("properties", {})
            result = reader.named(answer["body"], f"{stem}Result") if "body" in answer else None
            direction = DIRECTIONS[command in reverse]
            yield ProtocolMessage("request", direction, command, params, result, doc, deprecated)
        elif event is not None:
            params = reader.named(properties["body"], f"{key}Body") if "body" in properties else None
            yield ProtocolMessage("notification", DIRECTIONS[1], event, params, None, doc, deprecated)


def _own_part(schema: Any) -> Schema:
    """Return the part of a composed definition that has properties of its own."""
    for part in schema.get("allOf", ()) if is_object(schema) else ():
        if is_object(part) and is_object(part.get("properties")):
            return part
    return {}


def _constant(properties: Schema, name: str) -> str | None:
    inner = properties.get(name)
    if not is_object(inner):
        return None
    value = inner.get("const", inner["enum"][0] if is_list(inner.get("enum")) and len(inner["enum"]) == 1 else None)
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class _Alternative:
    """One way to fill in a composed object: the definitions it extends, and its own properties."""

    extends: tuple[str, ...] = ()
    properties: Schema = field(default_factory=dict[str, Any])
    required: tuple[str, ...] = ()
    title: str = ""


class SchemaReader:
    """The reader of the definitions of one document. `read` normalizes all, `schema` a schema beside them."""

    def __init__(self, definitions: Schema, name: str, document: Schema) -> None:
        """Create a reader of a document, which has the definitions and what references may name beside them."""
        self._raw = dict(definitions)
        self._given = frozenset(definitions)
        self._name = name
        self._document = document
        self._dialect = dialect_of(document)
        self._checks = Checks(self._raw, self._dialect, self._target)
        self._done: Schema = {}
        self._arms: dict[str, list[str]] = {}  # The definitions of the alternatives of a composed definition.
        self._open: list[str] = []

    def read(self) -> Schema:
        """Return the normalized definitions."""
        for key, schema in list(self._raw.items()):
            if not (is_object(schema) and schema.get(_HIDDEN)):
                self._define(key)
        return self._done

    def define(self, name: str, schema: Any) -> None:
        """Add a definition of a schema that has no name in the document."""
        if name in self._raw:
            what = "a definition" if name in self._given else "that of another message's type"
            raise self._error(name, f"would be the name of a message's type, and is {what}; rename one")
        self._raw[name] = schema
        self._define(name)

    def named(self, schema: Any, name: str) -> str:
        """Return the name of the definition that a schema refers to; a schema without one gets this name."""
        if is_object(schema) and "$ref" in schema and not schema.keys() & ASSERTIONS - {"$ref"}:
            return self._target(schema["$ref"])
        while name in self._raw:
            name += "Variant"
        self._raw[name] = schema
        return name

    def _define(self, key: str) -> None:
        if key in self._done or key in self._open:
            return
        if key not in self._raw:
            raise self._error(key, "is referred to, and not defined; define it")
        raw = self._raw[key]
        check_keywords(raw, key, self._name)
        self._open.append(key)
        body = self.schema(raw, (key,))
        self._open.remove(key)
        described = marks(raw) if is_object(raw) else {}
        if self._checks.is_exact(raw):
            self._done[key] = described | body
            return
        is_typed = body.get("type") == "array" or "properties" in body
        matches = {"x-matches": self._checks.text(raw, is_typed, key, self._name)}
        plain = {name: value for name, value in body.items() if name not in described}
        if "properties" in body or not plain:
            self._done[key] = described | body | matches
        else:
            self._done[key] = described | matches | {"$ref": REF + self._hoisted(f"{key}Shape", plain)}

    def schema(self, raw: Any, place: tuple[str, ...]) -> Schema:
        """Return a normalized schema that accepts at least what a schema accepts; `place` is the definition and the
        properties on the way to it."""
        if isinstance(raw, bool):
            return {}
        if not is_object(raw):
            raise self._error(".".join(place), f"is {raw!r}, and not a schema; write one")
        described = marks(raw)
        if "$ref" in raw:
            return described | {"$ref": REF + self._target(raw["$ref"])}
        parts = raw.get("allOf", ())
        if len(parts) == 1 and not raw.keys() & {"properties", *_UNIONS}:
            return described | self.schema(parts[0], place)
        if kinds_of(raw) in ((), ("object",)) and self._has_properties(raw):
            return described | self._composed(raw, place)
        if "const" in raw or "enum" in raw or "type" in raw:
            return described | self._plain(raw, place)
        for part in parts:
            if shape := self._without_marks(part, self.schema(part, place)):
                return described | shape
        union = next((raw[key] for key in _UNIONS if key in raw), None)
        if union is not None:
            return described | self._union(union, place)
        return described

    def _has_properties(self, raw: Any, seen: tuple[str, ...] = ()) -> bool:
        """Return True for an object with properties of its own, or of something that it is composed of."""
        if not is_object(raw):
            return False
        if "$ref" in raw:
            name = self._target(raw["$ref"])
            return name not in seen and self._has_properties(self._raw[name], (*seen, name))
        parts = raw.get("allOf", ())
        if "properties" in raw or any(self._has_properties(part, seen) for part in parts):
            return True
        # Alternatives of objects are written out only beside properties, or in the parts of what is composed.
        return bool(seen) and any(self._has_properties(arm, seen) for key in _UNIONS for arm in raw.get(key, ()))

    def _without_marks(self, raw: Any, schema: Schema) -> Schema:
        """Return a normalized schema without its description."""
        described = marks(raw) if is_object(raw) else {}
        return {key: value for key, value in schema.items() if key not in described}

    def _plain(self, raw: Schema, place: tuple[str, ...]) -> Schema:
        if "const" in raw or "enum" in raw:
            return _values(raw["enum"] if "enum" in raw else [raw["const"]])
        kinds = kinds_of(raw)
        if len(kinds) != 1:
            arms = [relevant(raw, kind) | {"type": kind} for kind in kinds]
            arms = [{key: value for key, value in arm.items() if key != "description"} for arm in arms]
            return {} if len(kinds) >= len(KINDS) - 1 else self._union(arms, place)
        raw = relevant(raw, kinds[0]) | {"type": kinds[0]}
        union = next((raw[key] for key in _UNIONS if key in raw), None)
        if union is not None and kinds[0] == "object":  # Its alternatives say more than that.
            return self._union(union, place)
        body: Schema = {key: raw[key] for key in _KEYWORDS if key in raw}
        if kinds[0] == "array":
            body["items"] = self._items(raw, (*place, "item"))
        if kinds[0] == "object":
            values: Any = True if "patternProperties" in raw else raw.get("additionalProperties", True)
            body["additionalProperties"] = self._inside(values, (*place, "value")) if is_object(values) else True
        if "_enum" in raw and kinds[0] == "string":
            body["x-known"] = list(raw["_enum"])
        return body

    def _items(self, raw: Schema, place: tuple[str, ...]) -> Schema:
        """Return the schema of all items of a list: of one with a place for each, those of all places."""
        written = raw.get("items", True)
        first = raw.get("prefixItems", written if is_list(written) else ())
        if not first:
            return self._inside(written, place)
        rest = raw.get("additionalItems", True) if is_list(written) else written
        arms = [*first] if rest is False or raw.get("maxItems") == len(first) else [*first, rest]
        shapes = [self._union([arm], place) for arm in arms]
        return {} if {} in shapes else self._union(arms, place)

    def _inside(self, raw: Any, place: tuple[str, ...]) -> Schema:
        """Return a schema inside of a list, a map or a union: one with bounds gets a name."""
        schema = self.schema(raw, place)
        if not schema.keys() & _BOUNDS:
            return schema
        return {"$ref": REF + self._hoisted("".join(map(pascal, place)), schema)}

    def _union(self, arms: list[Any], place: tuple[str, ...]) -> Schema:
        """Return a union of the arms; objects without a name get one."""
        consts = [arm["const"] for arm in arms if is_object(arm) and "const" in arm]
        others = [arm for arm in arms if not (is_object(arm) and "const" in arm)]
        if consts and not others:
            return _values(consts)
        if consts and len(others) == 1 and others[0].get("type") in ("string", "integer"):
            kind = others[0]["type"]
            return {"type": kind} | ({"x-known": consts} if kind == "string" else {})
        read: list[Schema] = []
        for number, arm in enumerate(arms, 1):
            schema = self._inside(arm, (*place, _arm_name(arm, number)) if len(arms) > 2 else place)
            if not self._without_marks(arm, schema):
                return {}
            if "properties" in schema and len(arms) > 1:
                schema = {"$ref": REF + self._hoisted("".join(map(pascal, place)) + _arm_name(arm, number), schema)}
            plain = self._without_marks(arm, schema)
            plain.pop("x-doc", None)
            inner: list[Schema] = plain["anyOf"] if plain.keys() == {"anyOf"} else [plain]
            for item in inner:
                if item not in read:
                    read.append(item)
        return read[0] if len(read) == 1 else {"anyOf": read}

    def _composed(self, raw: Schema, place: tuple[str, ...]) -> Schema:
        """Return an object, or the union of its alternatives."""
        alternatives = self._alternatives(raw, place)
        bodies = [self._object(alternative) for alternative in alternatives]
        if len(bodies) == 1 and raw.get("additionalProperties") is False and self._checks.is_exact(raw):
            return bodies[0] | {"additionalProperties": False}
        if len(bodies) == 1:
            return bodies[0]
        stem = "".join(map(pascal, place))
        names = [
            self._hoisted(stem + alternative.title, body)
            for alternative, body in zip(alternatives, bodies, strict=True)
        ]
        if len(place) == 1:
            self._arms[place[0]] = names
        return {"anyOf": [{"$ref": REF + name} for name in names]}

    def _alternatives(self, raw: Schema, place: tuple[str, ...]) -> list[_Alternative]:
        properties = {key: self.schema(inner, (*place, key)) for key, inner in raw.get("properties", {}).items()}
        own = _Alternative((), properties, tuple(raw.get("required", ())))
        factors = [[own]]
        factors[:0] = [self._parts(part, place) for part in raw.get("allOf", ())]
        for key in _UNIONS:
            arms = [
                arm
                for arm in raw.get(key, ())
                if is_object(arm) and arm.keys() & {"properties", "allOf", "$ref", *_UNIONS}
            ]
            if arms and len(arms) == len(raw[key]):
                factors.append(
                    [
                        _titled(part, _arm_name(arm, number))
                        for number, arm in enumerate(arms, 1)
                        for part in self._parts(arm, place)
                    ]
                )
        return [_joined(choice) for choice in product(*factors)]

    def _parts(self, part: Any, place: tuple[str, ...]) -> list[_Alternative]:
        """Return the alternatives of one part of a composition."""
        if is_object(part) and "$ref" in part:
            name = self._target(part["$ref"])
            self._define(name)
            if name in self._arms:
                return [_Alternative((arm,), title=arm.removeprefix(name)) for arm in self._arms[name]]
            target = self._done.get(name, {})
            if "$ref" in target:
                return self._parts({"$ref": target["$ref"]}, place)
            return [_Alternative((name,) if "properties" in target else ())]
        return self._alternatives(part, place) if is_object(part) else [_Alternative()]

    def _object(self, alternative: _Alternative) -> Schema:
        """Return an object with the properties that it inherits, and its own."""
        properties: Schema = {}
        required: list[str] = []
        for base in alternative.extends:
            properties |= self._done[base]["properties"]
            required += self._done[base].get("required", [])
        properties |= alternative.properties
        required += alternative.required
        names = [name for name in dict.fromkeys(required) if name in properties]
        extends = {"x-extends": list(alternative.extends)} if alternative.extends else {}
        return {**extends, "type": "object", "properties": properties} | ({"required": names} if names else {})

    def _hoisted(self, name: str, body: Schema) -> str:
        """Define an object under a name of its own, and return the name."""
        while name in self._raw or self._done.get(name, body) != body:
            name += "Variant"
        self._done[name] = body
        return name

    def _target(self, reference: Any) -> str:
        """Return the name of what a JSON pointer refers to; what has no name in the document gets one."""
        text = str(reference)
        if text != "#" and not text.startswith("#/"):
            raise self._error(text, "does not refer to a definition of this document by a JSON pointer; write it there")
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in unquote(text).split("/")[1:]]
        for place in _PLACES:
            if (
                len(tokens) == len(place) + 1
                and tuple(tokens[:-1]) == place
                and tokens[-1] in {*self._raw, *self._done}
            ):
                return tokens[-1]
        value: Any = self._document
        for number, token in enumerate(tokens):
            if is_object(value) and token in value:
                value = value[token]
            elif is_list(value) and token.isdigit() and int(token) < len(value):
                value = value[int(token)]
            else:
                where = tokens[-1] if number == len(tokens) - 1 and len(tokens) < 4 else text
                raise self._error(where, "is referred to, and not defined; define it")
        name = "".join(pascal(token) for token in tokens if token not in ("$defs", "definitions")) or "Document"
        while name in self._raw and self._raw[name] is not value:
            name += "Target"
        self._raw[name] = value
        self._define(name)
        return name

    def _error(self, at: str, text: str) -> SchemaError:
        return SchemaError(f"{self._name}: {at} {text}", at=at)


def _titled(alternative: _Alternative, title: str) -> _Alternative:
    return _Alternative(alternative.extends, alternative.properties, alternative.required, title + alternative.title)


def _joined(parts: Iterable[_Alternative]) -> _Alternative:
    """Return the alternative that has all of these."""
    extends: list[str] = []
    properties: Schema = {}
    required: list[str] = []
    title = ""
    for part in parts:
        extends += part.extends
        properties |= part.properties
        required += part.required
        title += part.title
    return _Alternative(tuple(dict.fromkeys(extends)), properties, tuple(required), title)


def _arm_name(arm: Any, number: int) -> str:
    """Return the end of the name of an arm: its constant, its title, the definition it refers to, or its number."""
    if not is_object(arm):
        return f"Variant{number}"
    for inner in arm.get("properties", {}).values():
        if is_object(inner) and isinstance(inner.get("const"), str) and pascal(inner["const"]):
            return pascal(inner["const"])
    return pascal(str(arm.get("title", ""))) or f"Variant{number}"


def _kind_of(value: object) -> str:
    """Return the type of a value that an enumeration of types.py can have; empty for another one."""
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "integer" if isinstance(value, int) else ""


def _values(values: list[Any]) -> Schema:
    """Return an enumeration; null among the values is an arm of its own.

    Python takes 1 for True and 0 for False: of these only the type is written, and the values are checked beside it.
    """
    present = [value for value in values if value is not None]
    kinds = {_kind_of(value) for value in present}
    if not values or "" in kinds:
        return {}
    if kinds == {"string"} or (kinds <= {"string", "integer"} and not {0, 1} & {*present}):
        body: Schema = {"enum": present} if len(present) != 1 else {"const": present[0]}
        if len(kinds) == 1:
            body["type"] = kinds.pop()
    else:
        arms: list[Schema] = [{"type": kind} for kind in sorted(kinds)]
        body = arms[0] if len(arms) == 1 else {"anyOf": arms}
    if len(present) == len(values):
        return body
    return {"anyOf": [body, {"type": "null"}]} if present else {"type": "null"}
