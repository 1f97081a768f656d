"""Read schema/docs.toml: one sentence for each type and property.

[types]
CallToolResult = "What a tool call gave."

[properties]
nextCursor = "Where the next page starts; absent on the last page."      # wherever the property occurs
"CallToolResult.isError" = "The tool failed; `content` says why."         # in this type

[plain]
names = ["name"]                                                          # need no sentence: the name says it all
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CodegenError
from .ir import Alias, Object


@dataclass(frozen=True)
class Docs:
    """The sentences, by type name and by property (`Type.property`, or `property` for all types)."""

    types: dict[str, str] = field(default_factory=dict[str, str])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    plain: tuple[str, ...] = ()

    def of_type(self, name: str) -> str:
        return self.types.get(name, "")

    def of_property(self, owner: str, wire: str) -> str:
        return self.properties.get(f"{owner}.{wire}", self.properties.get(wire, ""))


def read_docs(path: Path) -> Docs:
    """Read docs.toml; a folder of schemas without one has no descriptions."""
    if not path.exists():
        return Docs()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CodegenError(f"{path}: cannot be read: {error}") from error
    return Docs(tables.get("types", {}), tables.get("properties", {}), tuple(tables.get("plain", {}).get("names", ())))


def undocumented(types: Mapping[str, Object | Alias], docs: Docs) -> list[str]:
    """Return the types without a sentence, and the properties that have none although their name does not say it
    all."""
    missing = [name for name, definition in types.items() if not definition.doc]
    for definition in types.values():
        fields = definition.fields if isinstance(definition, Object) else ()
        missing += [
            f"{definition.name}.{field.wire}" for field in fields if not field.doc and field.wire not in docs.plain
        ]
    return missing
