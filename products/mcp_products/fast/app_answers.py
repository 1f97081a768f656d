"""Answers of an app that are written as JSON: no model is built of what nobody reads."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Mapping
from functools import cache, cached_property
from math import isfinite
from typing import Any, Final, cast

from pydantic_core import SchemaValidator

from mcp_runtime.protocol.models import PreSerialized, Read, read_as_model
from mcp_runtime.protocol.revision import Request, Sent
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.lists import paginate

from .records import as_model, read_as_record, result_constants
from .switches import ENABLED

_CORE_SCHEMAS: Final[Mapping[Any, dict[str, Any]]] = {
    str: {"type": "str"},
    int: {"type": "int"},
    float: {"type": "float", "allow_inf_nan": False},
    bool: {"type": "bool"},
}
_TYPES: Final[Mapping[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class ResultTypes(dict[str, tuple[type, ...]]):
    """The types of the results of requests, by the names of their handlers; they are loaded when they are needed."""

    def __init__(self, rows: Iterable[Request[Any]]) -> None:
        self._rows = {row.name: row for row in rows}

    @cached_property
    def of_calls(self) -> Mapping[str, Any] | None:
        """The properties that all results of a tool have; None if only the model tells them."""
        return result_constants(self._rows["call_tool"]) if ENABLED else None

    @cached_property
    def of_lists(self) -> Mapping[str, Any] | None:
        """The properties that all lists of tools have; None if only the model tells them."""
        return result_constants(self._rows["list_tools"]) if ENABLED else None

    def __missing__(self, name: str) -> tuple[type, ...]:
        self[name] = types = self._rows[name].result_types
        return types


def answer(registry: Any, name: str, ctx: ServerContext, params: Any, states: Mapping[Any, Any]) -> Awaitable[Any]:
    """Return the awaitable result of a request of a client, as `Registry.handle` does; `name` is that of the handler.

    The params may be a record, and the result JSON, where nothing but the app itself reads them.
    """
    if not registry.answers_as_json or name not in _ANSWERS or registry.middleware or registry.transforms:
        result: Awaitable[Any] = registry.handle(name, ctx, as_model(params), states)
        return result
    ctx.state = states.get(registry)
    return _ANSWERS[name](registry, ctx, params, states)


def runs_in_thread(registry: Any, name: str, params: Any) -> bool:
    """Return True if a request runs code of users in a worker thread only; `name` is that of its handler."""
    if name != "call_tool" or not registry.answers_as_json or registry.middleware or registry.transforms:
        return False
    tool = registry.tools.get(params.name)
    return tool is not None and tool.answers_as_json and tool.runs_in_thread


def _call_tool(registry: Any, ctx: ServerContext, params: Any, states: Mapping[Any, Any]) -> Awaitable[Any]:
    tool = registry.tools.get(params.name)
    session = ctx.connection_state.visibility
    if (  # A client may get another version of the tool, or none.
        (tool is None or not tool.answers_as_json)
        or (registry.visibility or session)
        or (registry.versions or registry.version_ranges)
    ):
        result: Awaitable[Any] = registry.call_tool(ctx, as_model(params), states)
    else:
        result = tool.call(ctx, params.arguments, registry.results, registry.shown_exceptions)
    return result


async def _list_tools(registry: Any, ctx: ServerContext, params: Any, states: Mapping[Any, Any]) -> Any:
    constants, session = registry.results.of_lists, ctx.connection_state.visibility
    is_changed = registry.visibility or session or registry.versions or registry.version_ranges
    if constants is None or is_changed or registry.mounted or registry.has_providers:
        return await registry.list_tools(ctx, as_model(params), states)
    tools, cursor = paginate([*registry.tools.values()], params.cursor, registry.page_size)
    listed = {**constants, "tools": [tool.as_json() for tool in tools]}
    return PreSerialized(listed if cursor is None else {**listed, "nextCursor": cursor})


# What answers a request, by the name of its handler.
_ANSWERS: Final = {"call_tool": _call_tool, "list_tools": _list_tools} if ENABLED else {}
# The names of the handlers that read the model of their params.
_READ_MODELS: Final = (
    *("list_resources", "list_resource_templates", "read_resource", "subscribe", "unsubscribe"),
    *("list_prompts", "get_prompt", "set_level"),
)


@cache
def read_params(row: Sent) -> Read:
    """Return the function that reads the params of a message: as a record, but as the model where a handler needs it.

    A record that becomes a model is a second copy of what the client has sent.
    """
    return read_as_record(row) if ENABLED and row.name not in _READ_MODELS else read_as_model(row)


# Strings, numbers and booleans: JSON Schemas and validators. Most functions need no others, and no model.


def scalar_type(hint: object) -> str | None:
    """Return the JSON type of `str`, `int`, `float` and `bool`; None for other type hints."""
    return _TYPES.get(hint) if ENABLED and type(hint) is type else None


def scalars_schema(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], descriptions: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the JSON Schema of an object with these parameters; None if one is not a scalar, or its default is not."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in parameters.items():
        kind = scalar_type(hints.get(name))
        if kind is None:
            return None
        schema = properties[name] = dict[str, Any]()
        if parameter.default is parameter.empty:
            required.append(name)
        elif _is_plain(parameter.default, hints[name]):
            schema["default"] = parameter.default
        else:
            return None
        if descriptions.get(name):
            schema["description"] = inspect.cleandoc(descriptions[name])
        schema["type"] = kind
    required_names = {"required": required} if required else {}
    return {"type": "object", "additionalProperties": False, "properties": properties, **required_names}


class Arguments:
    """The arguments of a function, as pydantic_core validates them."""

    __slots__ = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


def scalars_validator(
    keys: Mapping[str, str], parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
) -> SchemaValidator:
    """Return the validator of arguments that are scalars, as that of their model would be.

    Args:
        keys: The attributes of the validated arguments, by the names of the parameters.
        parameters: The parameters.
        hints: Their type hints.
    """
    fields: dict[str, Any] = {}
    for name, key in keys.items():
        schema = _CORE_SCHEMAS[hints[name]]
        if (default := parameters[name].default) is not inspect.Parameter.empty:
            schema = {"type": "default", "schema": schema, "default": default}
        fields[key] = {"type": "model-field", "schema": schema, "validation_alias": name, "serialization_alias": name}
    schema = {
        "type": "model",
        "cls": Arguments,
        "schema": {"type": "model-fields", "model_name": "Arguments", "fields": fields, "extra_behavior": "forbid"},
        "config": {"title": "Arguments"},
    }
    return SchemaValidator(cast(Any, schema))


def _is_plain(default: Any, hint: Any) -> bool:
    """Return True for a default that has the type of its parameter, and that JSON can express."""
    if type(default) is not hint:
        return False
    return default.isascii() if hint is str else hint is not float or isfinite(default)
