"""One revision goes in; valid messages of it come out, and what is wrong with those that come from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft202012Validator

from ..errors import CodegenError
from ..importer.normalize import Schema
from ..model.ir import Method, Object, Revision
from .instances import Instances, Json

_DECLARES: Final[Mapping[str, str]] = {"client": "ClientCapabilities", "server": "ServerCapabilities"}
_LONGEST: Final = 300  # Characters of a sentence about a fault.


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """Where a value is wrong, and how."""

    path: tuple[Any, ...]
    message: str

    @property
    def describe(self) -> str:
        """Both in one sentence, which is never long."""
        said = ": ".join([*([".".join(map(str, self.path))] if self.path else []), self.message])
        return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


class Messages:
    """Messages of a revision, the same for the same seed. Whoever sends them speaks this revision and can do it all."""

    def __init__(self, revision: Revision, edition: Schema, seed: int) -> None:
        self.revision = revision
        self._definitions: dict[str, Any] = edition["$defs"]
        capabilities = {_DECLARES[side]: self.declared(side) for side in _DECLARES}
        versions = {"protocolVersion": revision.id, "supportedVersions": [revision.id]}
        self._made = Instances(self._definitions, seed, {**capabilities, **versions})

    def declared(self, side: str) -> dict[str, Any]:
        """The capabilities under which a side may be asked, or may tell, everything that the table has."""
        found: dict[str, Any] = {}
        for row in self.revision.methods:
            owner, *path = row.capability.split(".")
            at = found
            for segment in path if owner == side else ():
                at = at.setdefault(segment, {})
        self._switch_on(_DECLARES[side], found)
        return found

    def _switch_on(self, name: str, capabilities: dict[str, Any]) -> None:
        """A capability that the schema has as a boolean is declared by `true`."""
        fault = self.first_violation(name, capabilities)
        while fault is not None:
            *path, last = fault.path
            holder = capabilities
            for segment in path:
                holder = holder[segment]
            if holder[last] is True:
                raise CodegenError(
                    f"{self.revision.id}: no {name} declares all that the methods need: {fault.describe}"
                )
            holder[last] = True
            fault = self.first_violation(name, capabilities)

    def request(self, row: Method, id: int | str) -> dict[str, Any]:
        """A request, or a notification, which has no id."""
        made = self._made.valid(self._known(row.type))
        answers = {} if row.kind == "notification" else {"id": id}
        return {"jsonrpc": "2.0", **answers, **{key: made[key] for key in ("method", "params") if key in made}}

    def result(self, row: Method) -> Json:
        """What answers a request at last. It says of itself what the results of its revision usually say."""
        made = self._made.valid(self._known(row.result or ""))
        each = self.revision.types[row.result or ""]
        fields = each.fields if isinstance(each, Object) else ()
        return made | {field.wire: field.default for field in fields if field.default is not None}

    def first_violation(self, name: str, value: Json) -> SchemaViolation | None:
        """The first thing that is wrong with a value of a type."""
        schema = {"$ref": f"#/$defs/{self._known(name)}", "$defs": self._definitions}
        validator: Any = Draft202012Validator(schema)
        for found in validator.iter_errors(value):
            return SchemaViolation(tuple(found.absolute_path), found.message)
        return None

    def _known(self, name: str) -> str:
        if name not in self._definitions:
            raise CodegenError(f"{self.revision.id}: the type {name} is no definition of its own, so it cannot be made")
        return name
