"""A synthetic server: 1,000 tools of 20 systems, and questions that each have one of them as their answer."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent
_ID: Final = {"type": "string", "description": "The id."}
_LIMIT: Final = {"type": "integer", "default": 20, "minimum": 1, "maximum": 100, "description": "How many, at most."}
_FIELDS: Final = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "The title that people see."},
        "description": {"type": "string", "description": "A longer text."},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "Words to find it by."},
        "state": {"enum": ["open", "active", "closed"], "description": "The state."},
    },
    "required": ["title"],
}
_VERBS: Final[dict[str, tuple[str, dict[str, Any], list[str]]]] = {
    "create": ("Create or add a new {thing} in the {system}: {gloss}.", {"fields": _FIELDS}, ["fields"]),
    "list": (
        "List or search each {thing} in the {system}: {gloss}.",
        {"text": {"type": "string"}, "limit": _LIMIT},
        [],
    ),
    "get": ("Get or show one {thing} of the {system}: {gloss}.", {"id": _ID}, ["id"]),
    "update": (
        "Update or change one {thing} of the {system}: {gloss}.",
        {"id": _ID, "fields": _FIELDS},
        ["id", "fields"],
    ),
    "delete": ("Delete or remove one {thing} of the {system}: {gloss}.", {"id": _ID}, ["id"]),
}
_OUTPUT: Final = {
    "type": "object",
    "properties": {"id": {"type": "string"}, **_FIELDS["properties"]},
    "required": ["id"],
}


def tools() -> Iterator[dict[str, Any]]:
    """Yield the definitions of the tools as a server lists them."""
    catalog = tomllib.loads((FOLDER / "catalog.toml").read_text(encoding="utf-8"))
    for system, table in catalog.items():
        for row in table["things"]:
            thing, _, gloss = row.partition(": ")
            for verb, (text, properties, required) in _VERBS.items():
                words = {"thing": thing.replace("_", " "), "system": table["title"], "gloss": gloss}
                yield {
                    "name": f"{system}_{verb}_{thing}",
                    "description": text.format(**words),
                    "inputSchema": {"type": "object", "properties": properties, "required": required},
                    "outputSchema": _OUTPUT,
                }


def questions(path: Path) -> list[tuple[str, str]]:
    """Return the tool and the question of each line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    return [(tool, question) for tool, _, question in rows]
