"""schema/docs.toml goes in, the one-sentence description of each type and property comes out.

    [types]
    CallToolResult = "What a tool call gave."

    [properties]
    nextCursor = "Where the next page starts; absent on the last page."      # wherever the property occurs
    "CallToolResult.isError" = "The tool failed; `content` says why."         # in this type
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .errors import CodegenError


@dataclass(frozen=True)
class Docs:
    """The sentences, by type name and by property (`Type.property`, or `property` for all types)."""

    types: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

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
    except (OSError, ValueError) as fault:
        raise CodegenError(f"{path}: cannot be read: {fault}") from fault
    return Docs(tables.get("types", {}), tables.get("properties", {}))
