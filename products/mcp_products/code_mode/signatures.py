"""Tools as lines of typed Python: what a model reads instead of their schemas, and the names that programs call.

The text of a server is untrusted: a name becomes an identifier, and a description stays within its quotes.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from mcp_products.json_schema.cost import NOTHING, pointed
from mcp_runtime.protocol.models import is_object

Json = Mapping[str, Any]

_MAX_DEPTH: Final = 4
_MAX_CHOICES: Final = 12
_MAX_SUMMARY: Final = 300  # Characters of the description of a tool.
_MAX_NOTE: Final = 100  # Characters of the description of an argument.
_MAX_NAME: Final = 80
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_RESULT: Final = "result"  # The only property of a result that is not an object.


@dataclass(frozen=True, slots=True)
class Function:
    """A tool as a function: its name in programs, and the names of its arguments there and in the call."""

    name: str
    tool: str
    arguments: Mapping[str, str]
    text: str
    is_wrapped: bool
    """Whether the structured content is an object around the value."""

    def wire_arguments(self, positional: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the call. Raises TypeError for one that the function has not, and for no JSON."""
        names = list(self.arguments)
        if len(positional) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} arguments: {', '.join(names)}")
        given = dict(zip(names, positional, strict=False))
        if twice := sorted(given.keys() & keywords.keys()):
            raise TypeError(f"{self.name}() got {twice[0]!r} twice")
        if unknown := [name for name in keywords if name not in self.arguments]:
            raise TypeError(f"{self.name}() has no argument {unknown[0]!r}; it has {', '.join(names) or 'none'}")
        given |= keywords
        try:
            values: dict[str, Any] = json.loads(json.dumps(given, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{self.name}(): the arguments must be JSON: {error}") from None
        return {self.arguments[name]: value for name, value in values.items()}


def functions_of(tools: Iterable[Json]) -> dict[str, Function]:
    """Return the functions of tools by their names in programs; of two with one name, the later gets an underscore."""
    functions: dict[str, Function] = {}
    for tool in tools:
        name = _identifier(str(tool.get("name")), functions)
        functions[name] = _function(name, tool)
    return functions


def _function(name: str, tool: Json) -> Function:
    schema = tool.get("inputSchema")
    root: Json = schema if is_object(schema) else {}
    properties = root.get("properties")
    listed: Json = properties if is_object(properties) else {}
    needed = set(map(str, list_of(root.get("required"))))
    arguments: dict[str, str] = {}
    parameters: list[tuple[bool, str]] = []
    notes: list[str] = []
    for wire, value in sorted(listed.items(), key=lambda row: row[0] not in needed):
        argument = _identifier(wire, arguments)
        arguments[argument] = wire
        part: Json = value if is_object(value) else {}
        default = "" if wire in needed else f" = {_literal(part['default'])}" if "default" in part else " = None"
        parameters.append((wire in needed, f"{argument}: {type_of(part, root)}{default}"))
        if note := _line(part.get("description"), _MAX_NOTE):
            notes.append(f"    {argument}: {note}")
    output = tool.get("outputSchema")
    result, is_wrapped = _result(output if is_object(output) else None)
    head = f"def {name}({', '.join(text for _, text in parameters)}) -> {result}:"
    summary = _line(tool.get("description") or tool.get("title"), _MAX_SUMMARY)
    quoted = "\n".join([f'    """{summary}', *notes]) + '"""' if summary or notes else "    ..."
    return Function(name, str(tool.get("name")), arguments, f"{head}\n{quoted}", is_wrapped)


def _result(schema: Json | None) -> tuple[str, bool]:
    """Return the type of what a function returns, and whether it is taken out of an object."""
    if schema is None:
        return "str", False
    properties = schema.get("properties")
    if is_object(properties) and list(properties) == [_RESULT] and schema.get("required") == [_RESULT]:
        return type_of(properties[_RESULT], schema), True
    return type_of(schema, schema), False


def type_of(schema: Any, root: Json, depth: int = 0) -> str:
    """Return a JSON Schema as a type of Python; an object is written with its properties: `{'id': str, 'note'?: str}`.

    What has no short form is `Any`. References are followed within the document `root`.
    """
    if not is_object(schema) or depth > _MAX_DEPTH:
        return "Any"
    if isinstance(pointer := schema.get("$ref"), str):
        return type_of(_resolved(pointer, root), root, depth + 1)
    if "const" in schema:
        return _literal(schema["const"])
    if choices := list_of(schema.get("enum")):
        return " | ".join(map(_literal, choices)) if len(choices) <= _MAX_CHOICES else _scalar(choices[0])
    if arms := list_of(schema.get("anyOf") or schema.get("oneOf")):
        return _union(type_of(arm, root, depth + 1) for arm in arms)
    kind = schema.get("type")
    if kinds := list_of(kind):
        return _union(type_of({**schema, "type": item}, root, depth + 1) for item in kinds)
    if kind == "array":
        return f"list[{type_of(schema.get('items'), root, depth + 1)}]"
    if kind == "object" or is_object(schema.get("properties")):
        return _object(schema, root, depth)
    return _SCALARS.get(str(kind), "Any")


def list_of(value: object) -> list[Any]:
    """Return a list as it is, and an empty one for something else."""
    return value if _is_list(value) else []


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _object(schema: Json, root: Json, depth: int) -> str:
    properties = schema.get("properties")
    if not is_object(properties) or not properties:
        values = schema.get("additionalProperties")
        return f"dict[str, {type_of(values, root, depth + 1) if is_object(values) else 'Any'}]"
    needed = set(map(str, list_of(schema.get("required"))))
    parts = [
        f"{name[:_MAX_NAME]!r}{'' if name in needed else '?'}: {type_of(value, root, depth + 1)}"
        for name, value in properties.items()
    ]
    return f"{{{', '.join(parts)}}}"


def _resolved(pointer: str, root: Json) -> Any:
    value = pointed(root, pointer) if pointer.startswith("#") else NOTHING
    return None if value is NOTHING else value


def _union(types: Iterable[str]) -> str:
    arms = list(dict.fromkeys(types))
    return "Any" if "Any" in arms or not arms else " | ".join(arms)


def _scalar(value: object) -> str:
    return type(value).__name__ if isinstance(value, (str, int, float, bool)) else "Any"


def _literal(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_NOTE and text.isprintable() else "..."


def _identifier(text: str, taken: Mapping[str, object]) -> str:
    """Return a name of Python that is not taken."""
    name = re.sub(r"\W+", "_", text[:_MAX_NAME], flags=re.ASCII).strip("_") or "tool"
    name = f"_{name}" if name[0].isdigit() else name
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def _line(text: object, limit: int) -> str:
    """Return a text as one line that cannot end its quotes, cut at a sentence or a word."""
    if not isinstance(text, str):
        return ""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    line = line.replace("\\", "/").replace('"', "'")
    if len(line) <= limit:
        return line
    cut = line[:limit]
    end = max(cut.rfind(". "), cut.rfind("; "))
    return cut[: end + 1] if end > limit // 2 else f"{cut.rpartition(' ')[0]} …"
