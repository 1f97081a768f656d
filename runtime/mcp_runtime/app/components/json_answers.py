"""Answers of an app that are written as JSON: no model is built of what nobody reads."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, Final

from ...protocol.models import PreSerialized, Read, read_as_model
from ...protocol.revision import Request, Sent
from ...protocol.wire.core_records import as_model, read_as_record, result_constants
from ...server.context import ServerContext
from ...server.lists import paginate


class ResultTypes(dict[str, tuple[type, ...]]):
    """The types of the results of requests, by the names of their handlers; they are loaded when they are needed."""

    def __init__(self, rows: Iterable[Request[Any]]) -> None:
        self._rows = {row.name: row for row in rows}

    @cached_property
    def of_calls(self) -> Mapping[str, Any] | None:
        """The properties that all results of a tool have; None if only the model tells them."""
        return result_constants(self._rows["call_tool"])

    @cached_property
    def of_lists(self) -> Mapping[str, Any] | None:
        """The properties that all lists of tools have; None if only the model tells them."""
        return result_constants(self._rows["list_tools"])

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
    session = ctx._connection_state.visibility  # pyright: ignore[reportPrivateUsage]
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
_ANSWERS: Final = {"call_tool": _call_tool, "list_tools": _list_tools}
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
    return read_as_model(row) if row.name in _READ_MODELS else read_as_record(row)
