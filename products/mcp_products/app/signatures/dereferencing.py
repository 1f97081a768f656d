"""JSON Schemas without references, for clients that do not resolve them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_list, is_object

_PREFIX: Final = "#/$defs/"
_MAX_PARTS: Final = 20_000  # Objects and arrays of the result; definitions that use others twice grow exponentially.


def dereference(schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    """Return a schema with the definitions in the place of their references.

    References of a definition to itself stay, and so does that definition. Raises LocalError for a result that is too
    large.

    Args:
        schema: The JSON Schema.
        description: What has the schema, for errors.
    """
    definitions: Mapping[str, Any] = schema.get("$defs") or {}
    rewriting = _Rewriting(definitions, description)
    result: dict[str, Any] = rewriting.rewrite({key: value for key, value in schema.items() if key != "$defs"}, ())
    defined: dict[str, Any] = {}
    while rewriting.recursive - defined.keys():
        name = min(rewriting.recursive - defined.keys())
        defined[name] = rewriting.rewrite(definitions[name], (name,))
    return {**result, "$defs": defined} if defined else result


def dereferenced_definition(definition: Any) -> Any:
    """Return the definition of a tool with schemas that have no references."""
    fields = definition.model_dump()
    for name in ("inputSchema", "outputSchema"):
        if fields.get(name) is not None:
            fields[name] = dereference(fields[name], f"the tool {definition.name!r}")
    return definition.model_validate(fields)


class _Rewriting:
    """One schema that is rewritten; `recursive` are the names of the definitions that stay."""

    def __init__(self, definitions: Mapping[str, Any], description: str) -> None:
        self.recursive: set[str] = set()
        self._definitions = definitions
        self._description = description
        self._parts = 0

    def rewrite(self, schema: Any, path: tuple[str, ...]) -> Any:
        """Return a part of the schema, inside of these definitions, without references."""
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise LocalError(
                f"{self._description}: without references its schema is too large: dereference_schemas=False"
            )
        if is_list(schema):
            return [self.rewrite(item, path) for item in schema]
        if not is_object(schema):
            return schema
        reference = schema.get("$ref")
        name = reference.removeprefix(_PREFIX) if isinstance(reference, str) else ""
        if name not in self._definitions or reference == name:
            return {key: self.rewrite(value, path) for key, value in schema.items()}
        if name in path or self._is_recursive(name):
            self.recursive.add(name)
            return dict(schema)
        others = {key: self.rewrite(value, path) for key, value in schema.items() if key != "$ref"}
        return {**self.rewrite(self._definitions[name], (*path, name)), **others}

    def _is_recursive(self, name: str) -> bool:
        reached, open_names = set[str](), [name]
        while open_names:
            for name_inside in _references(self._definitions[open_names.pop()]):
                if name_inside in self._definitions and name_inside not in reached:
                    reached.add(name_inside)
                    open_names.append(name_inside)
        return name in reached


def _references(schema: Any) -> set[str]:
    """Return the names of the definitions that a part of a schema refers to."""
    if is_list(schema):
        return {name for item in schema for name in _references(item)}
    if not is_object(schema):
        return set()
    reference = schema.get("$ref")
    own = (
        {reference.removeprefix(_PREFIX)}
        if isinstance(reference, str) and reference.startswith(_PREFIX)
        else set[str]()
    )
    return own.union(*map(_references, schema.values()))
