"""Valid messages of a revision, from random instances of its schema; and the validation of messages from elsewhere."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft202012Validator

from ..errors import CodegenError, Json, is_list, is_object
from ..importer.references import REF, Schema
from ..model.ir import Method, Object, Revision
from ..model.names import matching_text

# Random valid instances of a JSON Schema.

_WORDS: Final = ("", "a", "text", "é😀", "https://example.com/x", "aGk=", "20250101T000000Z", "object", "form")
_FORMATS: Final = {"uri": "file:///a/b.txt", "uri-template": "file:///{path}", "byte": "aGk="}
_NO_FIXED_VALUES: Final[Mapping[str, Json]] = {}
_CAPABILITIES_TYPES: Final[Mapping[str, str]] = {"client": "ClientCapabilities", "server": "ServerCapabilities"}
_MAX_DESCRIPTION: Final = 300  # Characters.


class InstanceGenerator:
    """Random instances of the definitions of one schema.

    `fixed` has the value of a definition, or of every property of that name; a namespace before the name is ignored.
    """

    def __init__(self, definitions: Mapping[str, Any], seed: int, fixed: Mapping[str, Json] = _NO_FIXED_VALUES) -> None:
        self._definitions = definitions
        self._fixed = fixed
        self._random = random.Random(seed)

    def valid(self, name: str) -> Json:
        """Return an instance of a definition."""
        return self._make(self._definitions[name], 0)

    def _make(self, schema: dict[str, Any], depth: int) -> Json:
        choose = self._random.choice
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return (
                copy.deepcopy(self._fixed[name]) if name in self._fixed else self._make(self._definitions[name], depth)
            )
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return choose(schema["enum"])
        if "anyOf" in schema:
            return self._make(choose(schema["anyOf"]), depth + 1)
        if "allOf" in schema:
            merged: dict[str, Json] = {}
            for part in schema["allOf"]:
                merged |= self._make(part, depth)
            return merged
        kind = schema.get("type")
        match choose(kind) if is_list(kind) else kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                least = schema.get("minItems", 0)
                size = (
                    least if depth > 6 else self._random.randint(least, max(least, min(3, schema.get("maxItems", 3))))
                )
                return [self._make(schema.get("items", {}), depth + 1) for _ in range(size)]
            case "string":
                return _FORMATS.get(str(schema.get("format"))) or _fitted(choose(_WORDS), schema)
            case "integer":
                return self._random.randint(schema.get("minimum", -3), schema.get("maximum", 10**6))
            case "number":
                return choose([schema.get("minimum", -1.5), 0.5, 1])
            case "boolean":
                return choose([True, False])
            case "null":
                return None
            case _:
                return choose([None, 1, "any", {"k": [1]}, [], True])

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Json]:
        required = schema.get("required", [])
        instance: dict[str, Json] = {}
        for name, inner in schema.get("properties", {}).items():
            if name in required or self._random.random() < (0.5 if depth < 4 else 0.05):
                stem = name.rpartition("/")[2]
                instance[name] = self._fixed[stem] if stem in self._fixed else self._make(inner, depth + 1)
        if "additionalProperties" in schema and depth < 6 and self._random.random() < 0.5:
            additional = schema["additionalProperties"]
            instance[self._random.choice(["x", "com.example/key"])] = self._make(
                additional if is_object(additional) else {}, depth + 1
            )
        return instance


def _fitted(word: str, schema: dict[str, Any]) -> str:
    """Return a word with the length and the form that a schema requires."""
    pattern = schema.get("pattern")
    if pattern is not None and re.search(pattern, word) is None:
        word = matching_text(pattern) or word
    return word[: schema.get("maxLength")].ljust(schema.get("minLength", 0), "x")


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """The path of an invalid value, the message of the validator, and the schema that the value violates."""

    path: tuple[Any, ...]
    message: str
    schema: Any = None

    @property
    def describe(self) -> str:
        """Return both in one sentence of limited length."""
        text = ": ".join([*([".".join(map(str, self.path))] if self.path else []), self.message])
        return text if len(text) <= _MAX_DESCRIPTION else f"{text[:_MAX_DESCRIPTION]}…"


class MessageFactory:
    """Generated messages of a revision, the same for the same seed. Their sender supports this revision only, and
    declares every capability."""

    def __init__(self, revision: Revision, normalized: Schema, seed: int) -> None:
        self.revision = revision
        self._definitions: dict[str, Any] = normalized["$defs"]
        capabilities = {_CAPABILITIES_TYPES[side]: self.declared_capabilities(side) for side in _CAPABILITIES_TYPES}
        versions = {"protocolVersion": revision.id, "supportedVersions": [revision.id]}
        self._instances = InstanceGenerator(self._definitions, seed, {**capabilities, **versions})

    def declared_capabilities(self, side: str) -> dict[str, Any]:
        """Return capabilities of a side that cover every request and notification of the method table."""
        capabilities: dict[str, Any] = {}
        for row in self.revision.methods:
            owner, *path = row.capability.split(".")
            at = capabilities
            for segment in path if owner == side else ():
                at = at.setdefault(segment, {})
        self._switch_on(_CAPABILITIES_TYPES[side], capabilities)
        return capabilities

    def _switch_on(self, name: str, capabilities: dict[str, Any]) -> None:
        """Set capabilities that the schema declares as booleans to `true`, and those of which it requires properties to
        the first valid object."""
        violation = self.first_violation(name, capabilities)
        while violation is not None:
            missing = self._missing(violation, capabilities)
            if missing:
                capabilities |= missing
                violation = self.first_violation(name, capabilities)
                continue
            if not violation.path:
                raise CodegenError(
                    f"{self.revision.id}: no valid {name} is known: {violation.describe}; correct the type"
                )
            *path, last = violation.path
            holder = capabilities
            for segment in path:
                holder = holder[segment]
            before = holder[last]
            for required in self._required_sets(violation.schema):
                holder[last] = {wire: {} for wire in required}
                further = self.first_violation(name, capabilities)
                if further is None or further.path[: len(violation.path)] != violation.path:
                    break
                holder[last] = before
            if before is True and holder[last] is True:
                raise CodegenError(
                    f"{self.revision.id}: no valid {name} declares all capabilities that the methods need: "
                    f"{violation.describe}; correct [[capability]] in overlay.toml"
                )
            if not holder[last]:
                holder[last] = True
            violation = self.first_violation(name, capabilities)

    def _missing(self, violation: SchemaViolation, capabilities: dict[str, Any]) -> dict[str, Any]:
        """Return a value for each capability that the type itself requires, and that is not declared."""
        properties: dict[str, Any] = violation.schema.get("properties", {}) if is_object(violation.schema) else {}
        return {
            wire: InstanceGenerator({**self._definitions, "": properties[wire]}, seed=0).valid("")
            for wire in violation.schema.get("required", ())
            if not violation.path and wire in properties and wire not in capabilities
        }

    def _required_sets(self, schema: Any) -> Iterator[list[str]]:
        """Yield the required properties of an object type, or of each arm of a union."""
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].removeprefix(REF)]
        if "required" in schema:
            yield schema["required"]
        for arm in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            yield from self._required_sets(arm)

    def request(self, row: Method, id: int | str) -> dict[str, Any]:
        """Return a request, or a notification, which has no id."""
        message = self._instances.valid(self._check_defined(row.type))
        id_member = {} if row.kind == "notification" else {"id": id}
        return {"jsonrpc": "2.0", **id_member, **{key: message[key] for key in ("method", "params") if key in message}}

    def result(self, row: Method) -> Json:
        """Return a final result of a request, with the default values of its properties."""
        result = self._instances.valid(self._check_defined(row.result or ""))
        type = self.revision.types[row.result or ""]
        fields = type.fields if isinstance(type, Object) else ()
        return result | {field.wire: field.default for field in fields if field.default is not None}

    def first_violation(self, name: str, value: Json) -> SchemaViolation | None:
        """Return the first violation of a type by a value, or None if the value is valid."""
        schema = {"$ref": f"#/$defs/{self._check_defined(name)}", "$defs": self._definitions}
        validator: Any = Draft202012Validator(schema)
        for violation in validator.iter_errors(value):
            return SchemaViolation(tuple(violation.absolute_path), violation.message, violation.schema)
        return None

    def _check_defined(self, name: str) -> str:
        if name not in self._definitions:
            raise CodegenError(
                f"{self.revision.id}: the type {name} is not a named definition of the schema, so no instance "
                "can be generated"
            )
        return name
