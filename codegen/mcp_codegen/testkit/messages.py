"""Valid messages of a revision, and the validation of messages from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft202012Validator

from ..errors import CodegenError
from ..importer.schema_references import REF, Schema
from ..json_types import Json, is_object
from ..model.ir import Method, Object, Revision
from .instances import InstanceGenerator

_CAPABILITIES_TYPES: Final[Mapping[str, str]] = {"client": "ClientCapabilities", "server": "ServerCapabilities"}
_MAX_DESCRIPTION: Final = 300  # Characters.


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
