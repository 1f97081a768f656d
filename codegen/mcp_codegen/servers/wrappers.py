"""The modules for the tools of a server: a typed function for each tool, prompt and resource template of a contract, or
a program with a command for each tool.

The text of a server is untrusted. It enters a module only as a name made by `names`, as a literal, or as a docstring;
a module of wrappers is then checked to have nothing but types and typed calls.
"""

from __future__ import annotations

import ast
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from uritemplate import URITemplate

from ..errors import CodegenError, JsonObject, is_list, is_object
from ..model import ir
from ..model.names import callable_name, field_names, parameter_name, snake
from ..paths import Templates
from ..render.package import declared_types
from ..render.source import GENERATOR, format_module, print_template, verify_types_module
from ..render.types import annotation, docstring, literal, value_text
from .contract import Contract
from .probe import ServerTarget
from .schema_types import NULL, SHADOWED_BUILTINS, Arguments, SchemaTypeReader, description_of, shorten

# The check that a module of wrappers has nothing but types and typed calls.

_CALLS: Final = frozenset({"Field", "TypeAliasType", "const"})
_METHODS: Final = frozenset({"_call", "_get", "_read", "_structured_content"})
_STATEMENTS: Final = (ast.Expr, ast.Return, ast.Assign, ast.AnnAssign)
_TOP_LEVEL: Final = (ast.ImportFrom, ast.ClassDef, ast.Assign, ast.Expr)

_ENDPOINT_CLASSES: Final = ("Tools", "Prompts", "Resources")
# Names that the module itself uses, which no class may have.
_RESERVED: Final = frozenset(
    {
        *("Unset", "UNSET", "RequestOptions", "ResultT", "TypedTools"),
        *("TypedPrompts", "TypedResources", "SyncTypedTools", "SyncTypedPrompts", "SyncTypedResources"),
        *(f"{sync}{endpoint}" for sync in ("", "Sync") for endpoint in _ENDPOINT_CLASSES),
    }
)
# Names in a class of wrappers that no function may have.
_USED_NAMES: Final = SHADOWED_BUILTINS | {"last_result"}
_WIDTH: Final = 108
_SHOWN: Final = ("description", "inputSchema")


def verify_wrappers_module(source: str, types: set[str], endpoints: Mapping[str, set[str]]) -> None:
    """Raise CodegenError unless the module has exactly these classes, with these functions, which only make calls."""
    tree = ast.parse(source)
    expected = {f"{sync}{endpoint}": names for endpoint, names in endpoints.items() if names for sync in ("", "Sync")}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if set(classes) != types | set(expected):
        raise _error(f"the classes {sorted(set(classes) ^ (types | set(expected)))} are missing or unexpected")
    for line in tree.body:
        if not isinstance(line, _TOP_LEVEL) or (
            isinstance(line, ast.Expr) and not isinstance(line.value, ast.Constant)
        ):
            raise _error(f"a {type(line).__name__} at line {line.lineno}")
    for name, names in expected.items():
        functions = [node for node in classes[name].body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        if {function.name for function in functions} != names or len(functions) != len(names):
            raise _error(f"{name} has other functions than {sorted(names)}")
        for function in functions:
            _check_function(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not _is_harmless(node):
            raise _error(f"a call at line {node.lineno}")
        if isinstance(node, (ast.Lambda, ast.Await)) and not (isinstance(node, ast.Await) and _is_call(node.value)):
            raise _error(f"a {type(node).__name__} at line {node.lineno}")


def _check_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if function.decorator_list:
        raise _error(f"a decorator at line {function.lineno}")
    for statement in function.body:
        if not isinstance(statement, _STATEMENTS):
            raise _error(f"a {type(statement).__name__} at line {statement.lineno}")


def _is_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _is_harmless(node)


def _is_harmless(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr in _METHODS and isinstance(function.value, ast.Name) and function.value.id == "self"
    return isinstance(function, ast.Name) and function.id in _CALLS


def _error(text: str) -> CodegenError:
    return CodegenError(f"the generated wrappers have unexpected code: {text}; please report this")


def wrap(contract: Contract, source: str, templates: Templates) -> str:
    """Return the module, formatted. Raises CodegenError if it has anything but typed calls."""
    reader = SchemaTypeReader(_RESERVED)
    context: dict[str, Any] = {
        "generator": GENERATOR,
        "source": literal(shorten(source))[1:-1],
        "doc": docstring(f"Typed calls of {shorten(contract.server) or 'a server'}.", ""),
        "tools": _named(contract.tools, lambda name, tool: _tool(reader, name, tool)),
        "prompts": _named(contract.prompts, _prompt),
        "resources": _named(contract.resource_templates, _resource),
    }
    context["types"] = _types(reader, templates)
    module = format_module(print_template("tools/wrappers.py.jinja2", context, templates), "the wrappers")
    verify_wrappers_module(
        module,
        set(reader.types),
        {endpoint: {item["name"] for item in context[endpoint.lower()]} for endpoint in _ENDPOINT_CLASSES},
    )
    return module


def _types(reader: SchemaTypeReader, templates: Templates) -> str:
    """Return the classes, as datamodel-code-generator writes them."""
    if not reader.types:
        return ""
    revision = ir.Revision(id="the wrappers", types=reader.types)
    text = declared_types(revision, templates)
    verify_types_module(text, revision)
    return text


def _named(items: Mapping[str, JsonObject], make: Callable[[str, JsonObject], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one function for each item. Of two with the same name, the later gets a trailing underscore."""
    names: set[str] = set()
    functions: list[dict[str, Any]] = []
    for wire, item in items.items():
        name = _function(wire)
        while name in names or name in _USED_NAMES:
            name += "_"
        names.add(name)
        functions.append({"name": name, "wire": literal(wire), **make(wire, item)})
    return functions


def _function(wire: str) -> str:
    name = snake(wire)[:80].strip("_")
    return callable_name(name if name and not name[0].isdigit() else f"call_{name}".rstrip("_"))


def _tool(reader: SchemaTypeReader, name: str, tool: JsonObject) -> dict[str, Any]:
    arguments = reader.arguments(tool.get("inputSchema"), f"{name} argument")
    output = tool.get("outputSchema")
    result = annotation(reader.read(output, f"{name} result")) if is_object(output) else None
    params = [] if arguments is None else [_param(field, arguments) for field in arguments.shape.fields]
    _make_names_unique(params)
    rest = None if arguments is not None and arguments.rest is None else _rest_param(arguments, params)
    lines = [(param["name"], param["doc"]) for param in params if param["doc"]]
    return {
        "params": sorted(params, key=lambda param: param["default"] is not None),
        "rest": rest,
        "result": result,
        "doc": paragraphs(description_of(tool) or f"Call the tool {name!a}.", lines, "        "),
    }


def _param(field: ir.Field, arguments: Arguments) -> dict[str, Any]:
    """Return one keyword parameter. With `plain`, None is sent as a value; otherwise None means that the argument is
    absent."""
    written = annotation(field.type)
    default = _default(field.type, arguments.defaults[field.wire]) if field.wire in arguments.defaults else None
    sends_none = field.required or default is not None
    if not sends_none:
        sends_none = _nullable(field.type)
        written, default = (f"{written} | Unset", "UNSET") if sends_none else (f"{written} | None", "None")
    return {
        "name": field.name,
        "wire": literal(field.wire),
        "type": written,
        "default": default,
        "plain": sends_none,
        "doc": field.doc,
    }


def _rest_param(arguments: Arguments | None, params: list[dict[str, Any]]) -> dict[str, str]:
    """Return the keyword parameter for further arguments."""
    name = "arguments" if arguments is None else "more"
    while name in {param["name"] for param in params}:
        name += "_"
    value_type = arguments.rest if arguments is not None else None
    return {"name": name, "type": annotation(ir.Map(value_type if value_type is not None else ir.Plain("any")))}


def _make_names_unique(params: list[dict[str, Any]]) -> None:
    names = {param["name"] for param in params}
    for param in params:
        name = parameter_name(param["name"])
        while name != param["name"] and name in names:
            name += "_"
        names.add(name)
        param["name"] = name


def _prompt(name: str, prompt: JsonObject) -> dict[str, Any]:
    arguments = prompt.get("arguments")
    listed = arguments if is_list(arguments) else []
    by_name: dict[str, JsonObject] = {
        argument["name"]: argument
        for argument in listed
        if is_object(argument) and isinstance(argument.get("name"), str)
    }
    required = {wire for wire, argument in by_name.items() if argument.get("required") is True}
    return _string_params(
        by_name, required, description_of(prompt) or f"Get the prompt {name!a}.", {wire: "str" for wire in by_name}
    )


def _resource(name: str, template: JsonObject) -> dict[str, Any]:
    uri = template.get("uriTemplate")
    if not isinstance(uri, str):
        raise CodegenError(f"the resource template {name!a} needs a `uriTemplate`")
    kinds: dict[str, str] = {}
    for variable in URITemplate(uri).variables:
        for wire, modifiers in variable.variables:
            kinds[wire] = "str | list[str]" if modifiers.get("explode") else "str"
    required = {wire for v in URITemplate(uri).variables if v.operator.value == "" for wire, _ in v.variables}
    doc = description_of(template) or f"Read a resource of the template {name!a}."
    return {"template": literal(uri), **_string_params({wire: {} for wire in kinds}, required, doc, kinds)}


def _string_params(items: dict[str, JsonObject], required: set[str], doc: str, kinds: dict[str, str]) -> dict[str, Any]:
    """Return the keyword parameters of a function that takes only strings."""
    names = field_names(items)
    params: list[dict[str, Any]] = [
        {
            "name": names[wire],
            "wire": literal(wire),
            "type": kinds[wire] if wire in required else f"{kinds[wire]} | None",
            "default": None if wire in required else "None",
            "doc": description_of(item),
        }
        for wire, item in items.items()
    ]
    _make_names_unique(params)
    lines = [(param["name"], param["doc"]) for param in params if param["doc"]]
    return {
        "params": sorted(params, key=lambda param: param["default"] is not None),
        "doc": paragraphs(doc, lines, "        "),
    }


def _nullable(written: ir.Type) -> bool:
    return written in (NULL, ir.Plain("any")) or (isinstance(written, ir.Union) and NULL in written.arms)


def _default(written: ir.Type, value: object) -> str | None:
    """Return a default as a Python expression; None if it cannot be written or does not fit the type."""
    match written, value:
        case ir.Plain("string"), str():
            return literal(value)
        case ir.Plain("boolean"), bool():
            return repr(value)
        case ir.Plain("integer" | "number"), int() if not isinstance(value, bool):
            return repr(value)
        case ir.Plain("number"), float() if math.isfinite(value):
            return repr(value)
        case ir.Plain("null"), None:
            return "None"
        case ir.Values(values), str() | int() if any(value == item and type(value) is type(item) for item in values):
            return value_text(value)
        case ir.Union(arms), _:
            return next((default for arm in arms if (default := _default(arm, value)) is not None), None)
        case _:
            return None


def paragraphs(text: str, lines: Iterable[tuple[str, str]], indent: str) -> str:
    """Return a docstring with a line for each argument below it. No text can end the docstring."""
    listed = list(lines)
    if not listed:
        return docstring(text, indent)
    wrapped = [*textwrap.wrap(_escaped(text), _WIDTH, break_long_words=False), ""]
    for name, doc in listed:
        wrapped += textwrap.wrap(f"{name}: {_escaped(doc)}", _WIDTH, subsequent_indent="  ", break_long_words=False)
    body = "\n".join(f"{indent}{line}".rstrip() for line in wrapped)
    return f'{indent}"""{body.lstrip()}\n{indent}"""'


def _escaped(text: str) -> str:
    safe = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(char if char.isprintable() else " " for char in safe)


# A program whose commands are the tools of a server.
#
# The text of a server is untrusted. It enters the program only as string literals and as a docstring.


def tool_command(contract: Contract, target: ServerTarget, source: str, templates: Templates) -> str:
    """Return the program, formatted. The values of the target's variables and its headers are not in it."""
    tools = [{"name": name, **_shown(tool)} for name, tool in contract.tools.items()]
    words = ", ".join(map(literal, target.command))
    folder = target.cwd or (str(Path.cwd()) if target.label else "")  # There a file or a module is found.
    variables = "" if target.label else ", ".join(map(literal, sorted(target.env)))
    context: dict[str, Any] = {
        "generator": GENERATOR,
        "source": literal(shorten(source))[1:-1],
        "doc": docstring(f"Call the tools of {shorten(contract.server) or 'a server'}.", ""),
        "server": literal(target.url) if target.url else f"[{words}]",
        "folder": literal(folder) if folder else "None",
        "variables": f"[{variables}]",
        "tools": literal(json.dumps(tools)),
    }
    return format_module(print_template("tools/command.py.jinja2", context, templates), "the command")


def _shown(tool: JsonObject) -> Mapping[str, object]:
    return {name: tool[name] for name in _SHOWN if name in tool}
