"""The schema.ts of an extension goes in, our edition of it comes out: its own definitions, those of the core by name."""

from __future__ import annotations

import json
import re
from typing import Final

from ..errors import SchemaError
from ..importer.normalize import REF, Schema, normalize
from ..importer.typescript import InterfaceDeclaration, ObjectLiteral, parse
from ..json_types import is_object

_IMPORT: Final = re.compile(r'^import\s+type\s*\{([^}]*)\}\s*from\s*"[^"]*";?[ \t]*$', re.MULTILINE)


def extension_schema(text: str, name: str) -> Schema:
    """The edition of one schema.ts; `x-imports` names what it takes from the core. Raises SchemaError."""
    imported: dict[str, str] = {}
    for match in _IMPORT.finditer(text):
        for each in filter(None, (part.strip() for part in match[1].split(","))):
            core, _, local = (word.strip() for word in each.partition(" as "))
            imported[local or core] = core
    declared = parse(_IMPORT.sub("", text), f"{name}: schema.ts")
    if clash := imported.keys() & {each.name for each in declared}:
        raise SchemaError(f"{name}: {min(clash)} is both imported and declared")
    stubs = [InterfaceDeclaration(local, (), ObjectLiteral(()), {}) for local in imported]
    schema = normalize([*stubs, *declared], name)
    schema["title"] = f"The extension {name} of the Model Context Protocol"
    schema["$defs"] = {each: body for each, body in schema["$defs"].items() if each not in imported}
    schema["x-imports"] = sorted(set(imported.values()))
    renamed: Schema = json.loads(json.dumps(schema), object_hook=lambda found: _renamed(found, imported))
    return renamed


def _renamed(found: Schema, imported: dict[str, str]) -> Schema:
    """An object of the schema with the core's own name where the extension has another for it."""
    reference = found.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix(REF)
        found["$ref"] = REF + imported.get(name, name)
    if "x-extends" in found and not is_object(found["x-extends"]):
        found["x-extends"] = [imported.get(name, name) for name in found["x-extends"]]
    return found
