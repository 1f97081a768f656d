"""A Contract goes in, the text of a module comes out: a typed function for each tool, prompt and resource template.

A server's text is hostile input. It reaches the module in three ways alone: as a name made by `names`, as a literal,
or as a docstring; `watch` then looks at the result and makes sure.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from uritemplate import URITemplate

from ..errors import CodegenError
from ..json_types import is_list, is_object
from ..model.ir import (
    Array,
    Field,
    HTTPProfile,
    Lifecycle,
    Map,
    Plain,
    Ref,
    Revision,
    Type,
    Union,
    Values,
)
from ..model.names import callable_name, field_names, parameter_name, snake
from ..paths import Templates
from ..render.package import declared_types
from ..render.source import GENERATOR, format_module, print_template
from ..render.types import docstring, literal
from ..render.verify import verify_types_module
from .contract import Contract, Json
from .schema_types import (
    NULL,
    SHADOWED_BUILTINS,
    Arguments,
    SchemaTypeReader,
    described,
    shortened,
)
from .verify import verify_wrappers_module

_ENDPOINT_CLASSES: Final = ("Tools", "Prompts", "Resources")
# What the module itself uses, so that no class made from a server's words can be called so.
_USED: Final = frozenset(
    {
        *("Unset", "UNSET", "RequestOptions", "ResultT", "TypedTools"),
        *("TypedPrompts", "TypedResources", "SyncTypedTools", "SyncTypedPrompts", "SyncTypedResources"),
        *(f"{sync}{face}" for sync in ("", "Sync") for face in _ENDPOINT_CLASSES),
    }
)
_WIDTH: Final = 108


def wrap(contract: Contract, source: str, templates: Templates) -> str:
    """The module, formatted. Raises CodegenError where it would be anything but typed calls."""
    reader = SchemaTypeReader(_USED)
    context: dict[str, Any] = {
        "generator": GENERATOR,
        "source": literal(shortened(source))[1:-1],
        "doc": docstring(f"What {shortened(contract.server) or 'a server'} offers, as typed calls.", ""),
        "tools": _named(contract.tools, lambda name, tool: _tool(reader, name, tool)),
        "prompts": _named(contract.prompts, _prompt),
        "resources": _named(contract.resource_templates, _resource),
    }
    context["types"] = _types(reader, templates)
    module = format_module(print_template("tools/wrappers.py.jinja2", context, templates), "the wrappers")
    verify_wrappers_module(
        module,
        set(reader.types),
        {face: {each["name"] for each in context[face.lower()]} for face in _ENDPOINT_CLASSES},
    )
    return module


def _types(reader: SchemaTypeReader, templates: Templates) -> str:
    """The classes, as datamodel-code-generator gives them."""
    if not reader.types:
        return ""
    revision = Revision(
        id="the wrappers",
        constants={},
        types=reader.types,
        methods=(),
        lifecycle=Lifecycle("", {}),
        http=HTTPProfile(False, False, False, False, {}, {}),
        reserved_codes=(),
        batches=False,
        null_ids=False,
        sha256="",
    )
    text = declared_types(revision, templates)
    verify_types_module(text, revision)
    return text


def _named(items: Mapping[str, Json], make: Callable[[str, Json], dict[str, Any]]) -> list[dict[str, Any]]:
    """One function for each item; where two would have the same name, the later gets underscores behind."""
    taken: set[str] = set()
    made: list[dict[str, Any]] = []
    for wire, item in items.items():
        name = _function(wire)
        while name in taken or name in SHADOWED_BUILTINS:
            name += "_"
        taken.add(name)
        made.append({"name": name, "wire": literal(wire), **make(wire, item)})
    return made


def _function(wire: str) -> str:
    name = snake(wire)[:80].strip("_")
    return callable_name(name if name and not name[0].isdigit() else f"call_{name}".rstrip("_"))


def _tool(reader: SchemaTypeReader, name: str, tool: Json) -> dict[str, Any]:
    given = reader.arguments(tool.get("inputSchema"), f"{name} argument")
    output = tool.get("outputSchema")
    result = annotation(reader.read(output, f"{name} result")) if is_object(output) else None
    params = [] if given is None else [_param(field, given) for field in given.shape.fields]
    _set_apart(params)
    rest = None if given is not None and given.rest is None else _rest(given, params)
    lines = [(param["name"], param["doc"]) for param in params if param["doc"]]
    return {
        "params": sorted(params, key=lambda param: param["default"] is not None),
        "rest": rest,
        "result": result,
        "doc": paragraphs(described(tool) or f"Call the tool {name!a}.", lines, "        "),
    }


def _param(field: Field, given: Arguments) -> dict[str, Any]:
    """One keyword. `plain` is whether None is sent: where it means that nothing was given, it is not."""
    written = annotation(field.type)
    default = _default(field.type, given.defaults[field.wire]) if field.wire in given.defaults else None
    plain = field.required or default is not None
    if not plain:
        plain = _nullable(field.type)
        written, default = (f"{written} | Unset", "UNSET") if plain else (f"{written} | None", "None")
    return {
        "name": field.name,
        "wire": literal(field.wire),
        "type": written,
        "default": default,
        "plain": plain,
        "doc": field.doc,
    }


def _rest(given: Arguments | None, params: list[dict[str, Any]]) -> dict[str, str]:
    """The keyword for what has no keyword of its own."""
    name = "arguments" if given is None else "more"
    while name in {param["name"] for param in params}:
        name += "_"
    kept = given.rest if given is not None else None
    return {"name": name, "type": annotation(Map(kept if kept is not None else Plain("any")))}


def _set_apart(params: list[dict[str, Any]]) -> None:
    taken = {param["name"] for param in params}
    for param in params:
        name = parameter_name(param["name"])
        while name != param["name"] and name in taken:
            name += "_"
        taken.add(name)
        param["name"] = name


def _prompt(name: str, prompt: Json) -> dict[str, Any]:
    arguments = prompt.get("arguments")
    listed = arguments if is_list(arguments) else []
    known: dict[str, Json] = {
        each["name"]: each for each in listed if is_object(each) and isinstance(each.get("name"), str)
    }
    needed = {wire for wire, each in known.items() if each.get("required") is True}
    return _strings(known, needed, described(prompt) or f"Get the prompt {name!a}.", {w: "str" for w in known})


def _resource(name: str, template: Json) -> dict[str, Any]:
    uri = template.get("uriTemplate")
    if not isinstance(uri, str):
        raise CodegenError(f"the resource template {name!a} has no uriTemplate")
    kinds: dict[str, str] = {}
    for variable in URITemplate(uri).variables:
        for wire, how in variable.variables:
            kinds[wire] = "str | list[str]" if how.get("explode") else "str"
    needed = {wire for v in URITemplate(uri).variables if v.operator.value == "" for wire, _ in v.variables}
    doc = described(template) or f"Read a resource of the template {name!a}."
    return {"template": literal(uri), **_strings({wire: {} for wire in kinds}, needed, doc, kinds)}


def _strings(known: dict[str, Json], needed: set[str], doc: str, kinds: dict[str, str]) -> dict[str, Any]:
    """The keywords of what takes strings alone."""
    names = field_names(known)
    params: list[dict[str, Any]] = [
        {
            "name": names[wire],
            "wire": literal(wire),
            "type": kinds[wire] if wire in needed else f"{kinds[wire]} | None",
            "default": None if wire in needed else "None",
            "doc": described(each),
        }
        for wire, each in known.items()
    ]
    _set_apart(params)
    lines = [(param["name"], param["doc"]) for param in params if param["doc"]]
    return {
        "params": sorted(params, key=lambda param: param["default"] is not None),
        "doc": paragraphs(doc, lines, "        "),
    }


def annotation(written: Type) -> str:
    """A type as Python writes it."""
    match written:
        case Ref(name):
            return name
        case Plain(kind):
            return _PLAIN[kind]
        case Values(values):
            return f"Literal[{', '.join(literal(each) if isinstance(each, str) else repr(each) for each in values)}]"
        case Array(items):
            return f"list[{annotation(items)}]"
        case Map(values):
            return f"dict[str, {annotation(values)}]"
        case Union(arms):
            return " | ".join(dict.fromkeys(map(annotation, arms)))


_PLAIN: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "any": "Any",
}


def _nullable(written: Type) -> bool:
    return written in (NULL, Plain("any")) or (isinstance(written, Union) and NULL in written.arms)


def _default(written: Type, value: object) -> str | None:
    """A default as Python writes it, where it is one that can be written and fits the type."""
    match written, value:
        case Plain("string"), str():
            return literal(value)
        case Plain("boolean"), bool():
            return repr(value)
        case Plain("integer" | "number"), int() if not isinstance(value, bool):
            return repr(value)
        case Plain("number"), float() if math.isfinite(value):
            return repr(value)
        case Plain("null"), None:
            return "None"
        case Values(values), str() | int() if any(value == each and type(value) is type(each) for each in values):
            return literal(value) if isinstance(value, str) else repr(value)
        case Union(arms), _:
            return next((found for arm in arms if (found := _default(arm, value)) is not None), None)
        case _:
            return None


def paragraphs(text: str, lines: Iterable[tuple[str, str]], indent: str) -> str:
    """A docstring with a line for each argument behind it; nothing in the texts can end it."""
    listed = list(lines)
    if not listed:
        return docstring(text, indent)
    wrapped = [*textwrap.wrap(_harmless(text), _WIDTH, break_long_words=False), ""]
    for name, doc in listed:
        wrapped += textwrap.wrap(f"{name}: {_harmless(doc)}", _WIDTH, subsequent_indent="  ", break_long_words=False)
    body = "\n".join(f"{indent}{line}".rstrip() for line in wrapped)
    return f'{indent}"""{body.lstrip()}\n{indent}"""'


def _harmless(text: str) -> str:
    safe = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(char if char.isprintable() else " " for char in safe)
