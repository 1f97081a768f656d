"""What datamodel-code-generator gets of each type: its definition and the options of its class, without texts.

It never sees a string of the schema: property names, values and sentences are handed to it as tokens and put back as
Python literals afterwards, so that no schema text can become Python syntax.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final, TypeGuard

from ..cache import digest
from ..model import ir

Schema = dict[str, Any]

# A docstring that is a token, or a string that is one. One expression for both, so that nothing is put back twice.
_TOKEN: Final = re.compile(
    r'''^(?P<indent>[ ]*)"""\s*mcp-token-(?P<sentence>\d+)\s*"""$'''
    r"""|(?P<quote>["'])mcp-(?:token-(?P<text>\d+)|value-(?P<value>[0-9a-f]+)|name-(?P<name>\w+))(?P=quote)""",
    re.MULTILINE,
)
_WIDTH: Final = 116
_PUBLISHED: Final = re.compile(r"\d{4}-\d{2}-\d{2}")

_FORMATS: Final = {"byte": "EncodedBytes", "uri": "Uri", "uri-template": "UriTemplate"}
_PLAIN: Final[dict[str, Schema]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer", "customTypePath": "mcp_runtime.protocol.wire_models.Int"},
    "number": {"type": "number", "customTypePath": "mcp_runtime.protocol.wire_models.Number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "any": {},
}


def second_names(revision: ir.Revision, own: Collection[str] | None = None) -> dict[str, str]:
    """Return the declarations that datamodel-code-generator does not write, by name; only of `own` types, if they are
    named."""
    texts: dict[str, str] = {}
    for definition in revision.types.values():
        if own is not None and definition.name not in own:
            continue
        if is_matched_alias(definition):
            target = f'"{definition.type.name}"' if isinstance(definition.type, ir.Ref) else "Any"
            written = f"Annotated[{target}, Matches({literal(definition.matches)})]"
            text = docstring(sentence(definition), "") if definition.doc else ""
            texts[definition.name] = (
                f'{definition.name} = TypeAliasType("{definition.name}", {written})\n{text}'.strip()
            )
        elif is_second_name(definition):
            target = definition.type.name if isinstance(definition.type, ir.Ref) else "dict[str, Any]"
            address = "" if own is not None else link(revision, definition.name)
            text = docstring(sentence(definition), "", address) if definition.doc or address else ""
            texts[definition.name] = f"{definition.name}: TypeAlias = {target}\n{text}".strip()
    return texts


class Masker:
    """The strings of a type that datamodel-code-generator must not see. Types that differ only in their sentences have
    equal tokens."""

    def __init__(self, revision: ir.Revision, unlinked: Collection[str]) -> None:
        self.types = revision.types
        self._revision = revision
        self._unlinked = unlinked
        self._texts: list[str] = []
        self._addresses: dict[int, str] = {}
        self._properties: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self.attributes: dict[str, str | list[str]] = {}

    def own(self, defined: ir.Object) -> list[ir.Field]:
        """Return the fields that no Python base of the object has."""
        return self._revision.own_fields(defined)

    def mask(self, text: str) -> str:
        """Return a token for the text; its hyphens keep it apart from every name."""
        self._texts.append(text)
        return f"mcp-token-{len(self._texts) - 1}"

    def mask_value(self, value: ir.Scalar) -> ir.Scalar:
        """Return a token for a text, or another value as it is. The values of discriminators stay different."""
        if not isinstance(value, str):
            return value
        name = digest([value])
        self._values[name] = value
        return f"mcp-value-{name}"

    def mask_property(self, field: ir.Field) -> str:
        """Return a token for a property name; datamodel-code-generator gets the attribute that belongs to it."""
        if field.wire == field.name:
            return field.name  # A name of our own making, so a harmless one.
        token = f"mcp-name-{field.name}"
        self._properties[field.name] = field.wire
        self.attributes[token] = field.name
        return token

    def describe(self, defined: ir.Object | ir.Alias) -> Schema:
        """Return the description of a type in its definition, as a token."""
        address = "" if defined.name in self._unlinked else link(self._revision, defined.name)
        text = sentence(defined)
        if not text and not address:
            return {}
        token = self.mask(text)
        self._addresses[len(self._texts) - 1] = address
        return {"description": token}

    def unmask(self, source: str) -> str:
        """Return the declaration of the type with its texts."""
        return _TOKEN.sub(self._put_back, source)

    def _put_back(self, match: re.Match[str]) -> str:
        if match["sentence"] is not None:
            number = int(match["sentence"])
            return docstring(self._texts[number], match["indent"], self._addresses.get(number, ""))
        if match["name"] is not None:
            return literal(self._properties[match["name"]])
        return literal(self._values[match["value"]] if match["value"] else self._texts[int(match["text"])])


def is_second_name(definition: ir.Object | ir.Alias) -> TypeGuard[ir.Alias]:
    """Whether a type is another one, or a plain dictionary, under a second name: a plain assignment says that best."""
    if not isinstance(definition, ir.Alias) or definition.matches:
        return False
    return isinstance(definition.type, ir.Ref) or definition.type == ir.Map(ir.Plain("any"))


def is_matched_alias(definition: ir.Object | ir.Alias) -> TypeGuard[ir.Alias]:
    """Whether a type is another one, whose values match a JSON Schema as well."""
    return isinstance(definition, ir.Alias) and definition.matches != ""


def sentence(definition: ir.Object | ir.Alias | ir.Field) -> str:
    """Return the docstring of a type or property."""
    return f"{definition.doc} Deprecated.".strip() if definition.deprecated else definition.doc


def deprecation(what: str, revision: ir.Revision) -> str:
    """Return the message of the warning for a deprecated type or property."""
    return f"{what} is deprecated in {revision.protocol} {revision.id}"


def literal(text: str) -> str:
    """Return a Python string literal in ASCII, in double quotes unless the text has quotes or escapes."""
    source = ascii(text)
    return source if '"' in source or "\\" in source else f'"{source[1:-1]}"'


def annotation(written: ir.Type, module: str = "", number: str = "float") -> str:
    """Return a type as a Python annotation. `module` stands before the names of types, and `number` is any number."""
    match written:
        case ir.Ref(name):
            return f"{module}{name}"
        case ir.Plain("number"):
            return number
        case ir.Plain(kind):
            return ir.PYTHON_TYPES[kind]
        case ir.Values(values):
            return f"Literal[{', '.join(map(value_text, values))}]"
        case ir.Array(items):
            return f"list[{annotation(items, module, number)}]"
        case ir.Map(values):
            return f"dict[str, {annotation(values, module, number)}]"
        case ir.Union(arms):
            return " | ".join(dict.fromkeys(annotation(arm, module, number) for arm in arms))


def value_text(value: ir.Scalar) -> str:
    """Return a value as Python."""
    return literal(value) if isinstance(value, str) else repr(value)


def link(revision: ir.Revision, name: str) -> str:
    """Return the address of a type on the schema page; empty for the types without a category, which the page omits."""
    page = schema_page(revision)
    return f"{page}#{name.lower()}" if page and name in revision.types and revision.types[name].category else ""


def schema_page(revision: ir.Revision) -> str:
    """Return the address of the schema page of a published revision; empty if its specification has none."""
    shown = any(defined.category for defined in revision.types.values()) and _PUBLISHED.fullmatch(revision.id)
    return f"https://modelcontextprotocol.io/specification/{revision.id}/schema" if shown else ""


def docstring(text: str, indent: str, address: str = "") -> str:
    """Return an indented docstring, wrapped; nothing in the text can end it. The address stands on a line of its
    own."""
    if address:
        start = docstring(text, indent).removesuffix('"""').rstrip() + "\n\n" + indent if text else f'{indent}"""'
        return f'{start}{address}\n{indent}"""'
    safe = text.replace("\\", "\\\\").replace('"', '\\"' if '"""' in text or text.endswith('"') else '"')
    safe = "".join(char if char.isprintable() else " " for char in safe)
    width = _WIDTH - len(indent)
    if len(safe) + 6 <= width:
        return f'{indent}"""{safe}"""'
    lines = textwrap.wrap(safe, width, break_long_words=False, break_on_hyphens=False)
    body = f"\n{indent}".join(lines)
    return f'{indent}"""{body}\n{indent}"""'


def class_options(definition: ir.Object, revision: ir.Revision, tokens: Masker) -> Schema:
    """Return what the template of the class gets besides its definition."""

    def mark(what: str) -> str:
        return repr(tokens.mask(deprecation(what, revision)))

    return {
        "mixin": _mixin(definition, revision),
        "deprecated": mark(definition.name) if definition.deprecated else "",
        "deprecations": {
            field.name: mark(f"{definition.name}.{field.name}") for field in definition.fields if field.deprecated
        },
        "closed": definition.closed,
        "matches": repr(tokens.mask(definition.matches)) if definition.matches else "",
        "defaults": [field.name for field in definition.fields if field.default is not None],
        "optional": [field.name for field in definition.fields if not field.required],
        "essential": [field.name for field in definition.fields if field.essential],
        "constants": {
            field.name: repr(tokens.mask_value(field.constant))
            for field in definition.fields
            if field.constant is not None
        },
    }


def _mixin(definition: ir.Object, revision: ir.Revision) -> str:
    """Return the class of the runtime with the methods of this type, which its properties tell; empty for most, and
    for all types of other protocols."""
    if revision.protocol != "MCP":
        return ""
    fields = {field.wire: field.type for field in definition.fields}
    if {"capabilities", "instructions"} <= fields.keys():
        return "ServerDetails"
    if {"name", "description", "inputSchema"} <= fields.keys():
        return "ToolMethods"
    match fields.get("tools"):
        case ir.Array(ir.Ref(name)):
            item = revision.types[name]
            return "ToolListMethods" if isinstance(item, ir.Object) and _mixin(item, revision) == "ToolMethods" else ""
        case _:
            return ""


def definition_schema(definition: ir.Object | ir.Alias, revision: ir.Revision, tokens: Masker) -> Schema:
    """Return the definition of a type in JSON Schema."""
    marks = tokens.describe(definition)
    if isinstance(definition, ir.Alias):
        return marks | _type(definition.type, tokens)
    own = {tokens.mask_property(field): _property(field, tokens) for field in revision.own_fields(definition)}
    body: Schema = {"type": "object", "properties": own, "required": list(own)}
    if definition.bases:
        return marks | {"allOf": [*({"$ref": f"#/$defs/{base}"} for base in definition.bases), body]}
    return marks | body


def _property(field: ir.Field, tokens: Masker) -> Schema:
    marks = {"description": tokens.mask(sentence(field))} if sentence(field) else {}
    return marks | _type(field.type, tokens)


def _type(written: ir.Type, tokens: Masker) -> Schema:
    match written:
        case ir.Ref(name):
            definition = tokens.types[name]
            return _type(definition.type, tokens) if is_second_name(definition) else {"$ref": f"#/$defs/{name}"}
        case ir.Plain():
            return _plain(written, tokens)
        case ir.Values(values):
            return {"enum": [tokens.mask_value(value) for value in values]}
        case ir.Array(items, maximum, minimum):
            # A tag inside a list makes datamodel-code-generator take the list for the tagged type.
            inner = replace(items, tag=None) if isinstance(items, ir.Union) else items
            return {"type": "array", "items": _type(inner, tokens)} | _present(maxItems=maximum, minItems=minimum)
        case ir.Map(values):
            return {"type": "object", "additionalProperties": _type(values, tokens) or True}
        case ir.Union(arms, tag):
            return {"anyOf": [_type(arm, tokens) for arm in arms], **_discriminator(arms, tag, tokens)}


def _plain(written: ir.Plain, tokens: Masker) -> Schema:
    pattern = None if written.pattern is None else tokens.mask(written.pattern)
    lengths = _present(minLength=written.min_length, maxLength=written.max_length, pattern=pattern)
    if written.format in _FORMATS and not lengths:
        return {"type": "string", "customTypePath": f"mcp_runtime.protocol.wire_models.{_FORMATS[written.format]}"}
    return _PLAIN[written.kind] | _present(minimum=written.minimum, maximum=written.maximum) | lengths


def _present(**bounds: float | str | None) -> Schema:
    """Return the bounds there are."""
    return {key: value for key, value in bounds.items() if value is not None}


def _discriminator(arms: tuple[ir.Type, ...], tag: str | None, tokens: Masker) -> Schema:
    """Return what tells the arms apart, where it has the same attribute name in all of them, and none inherits it:
    datamodel-code-generator would declare an inherited one again."""
    if tag is None:
        return {}
    objects = [tokens.types[arm.name] for arm in arms if isinstance(arm, ir.Ref)]
    fields = [field for obj in objects if isinstance(obj, ir.Object) for field in tokens.own(obj) if field.wire == tag]
    names = {tokens.mask_property(field) for field in fields}
    return {"discriminator": {"propertyName": names.pop()}} if len(names) == 1 and len(fields) == len(arms) else {}
