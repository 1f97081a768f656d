"""The import of the schema.ts of an extension: its own definitions, and references to those of the core by name."""

from __future__ import annotations

import json
import re
from typing import Final

from ..errors import SchemaError
from ..importer.normalize import normalize
from ..importer.schema_references import REF, Schema
from ..importer.syntax import InterfaceDeclaration, ObjectLiteral
from ..importer.typescript import parse
from ..json_types import is_object

_IMPORT: Final = re.compile(r'^import\s+type\s*\{([^}]*)\}\s*from\s*"[^"]*";?[ \t]*$', re.MULTILINE)


def extension_schema(text: str, name: str) -> Schema:
    """Return the normalized schema of one schema.ts. `x-imports` has the names it imports from the core protocol.
    Raises SchemaError."""
    imported: dict[str, str] = {}
    for match in _IMPORT.finditer(text):
        for clause in filter(None, (part.strip() for part in match[1].split(","))):
            core, _, local = (word.strip() for word in clause.partition(" as "))
            imported[local or core] = core
    declared = parse(_IMPORT.sub("", text), f"{name}: schema.ts")
    if clash := imported.keys() & {declaration.name for declaration in declared}:
        raise SchemaError(f"{name}: {min(clash)} is both imported and declared; rename one of the two")
    stubs = [InterfaceDeclaration(local, (), ObjectLiteral(()), {}) for local in imported]
    schema = normalize([*stubs, *declared], name)
    schema["title"] = f"The extension {name} of the Model Context Protocol"
    schema["$defs"] = {key: body for key, body in schema["$defs"].items() if key not in imported}
    schema["x-imports"] = sorted(set(imported.values()))
    renamed: Schema = json.loads(json.dumps(schema), object_hook=lambda item: _renamed(item, imported))
    return renamed


def _renamed(schema: Schema, imported: dict[str, str]) -> Schema:
    """Return an object of the schema in which local names of imports are replaced by the names in the core protocol."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix(REF)
        schema["$ref"] = REF + imported.get(name, name)
    if "x-extends" in schema and not is_object(schema["x-extends"]):
        schema["x-extends"] = [imported.get(name, name) for name in schema["x-extends"]]
    return schema
