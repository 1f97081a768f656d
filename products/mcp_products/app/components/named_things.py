"""What a message names: the one table by which rules of access find the tools, prompts, resources and tasks in it.

The table is derived from the types of the params of each message, so that it holds for every protocol version. A rule
that asks it holds for every message that names a thing, and not only for the one that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS
from mcp_runtime.protocol.models import is_list, is_model, is_object, plain_of
from mcp_runtime.protocol.revision import Notification, Revision
from mcp_runtime.usage.texts import quoted

ThingKind = Literal["tool", "prompt", "resource", "template", "task"]


class NamedThing(NamedTuple):
    """A tool or a prompt by its name, a resource by its URI, a resource template by its URI template, a task by its
    id."""

    kind: ThingKind
    id: str


_Reader = Callable[[str, Any, Collection[str]], Iterator[NamedThing]]

ENDING: Final = frozenset({"unsubscribe"})
"""Handlers of messages that end what a client has: no rule refuses them, since they give nothing."""


def things_named(name: str, params: Any, task_lists: Collection[str] = ()) -> list[NamedThing]:
    """Return the things that a message names.

    Args:
        name: The name of its handler, such as "call_tool".
        params: Its params, as a model or as the record that stands for one.
        task_lists: The lists of a subscription filter that have ids of tasks: those of `task_lists_of`.
    """
    return [thing for read in _readers(name, params.__class__) for thing in read(name, params, task_lists)]


def names_things(name: str, params: type) -> bool:
    """Return True if messages with a handler of this name and params of this type name things."""
    return bool(_readers(name, params))


@cache
def task_lists_of(revision: Revision) -> frozenset[str]:
    """Return the lists of a subscription filter of a protocol version that have ids of tasks."""
    return frozenset(row.listed[0] for row in revision.rows if isinstance(row, Notification) and row.listed is not None)


@cache
def _readers(name: str, params: Any) -> tuple[_Reader, ...]:
    if name in ENDING:
        return ()
    names: Any = getattr(params, "names", None)  # Of a record that stands for a model.
    fields: Any = getattr(params, "__pydantic_fields__", {}) if names is None else names
    return tuple(reader for field, reader in _READERS.items() if field in fields)


def _named(name: str, params: Any, task_lists: Collection[str]) -> Iterator[NamedThing]:
    if name.endswith("_tool"):
        yield NamedThing("tool", params.name)
    elif name.endswith("_prompt"):
        yield NamedThing("prompt", params.name)


def _located(name: str, params: Any, task_lists: Collection[str]) -> Iterator[NamedThing]:
    yield NamedThing("resource", params.uri)


def _referred(name: str, params: Any, task_lists: Collection[str]) -> Iterator[NamedThing]:
    uri: str | None = getattr(params.ref, "uri", None)
    yield NamedThing("prompt", params.ref.name) if uri is None else NamedThing("template", uri)


def _task(name: str, params: Any, task_lists: Collection[str]) -> Iterator[NamedThing]:
    yield NamedThing("task", params.task_id)


def _watched(name: str, params: Any, task_lists: Collection[str]) -> Iterator[NamedThing]:
    """Yield what a subscription filter lists. Its flags are for whole lists, which show what their client may see."""
    filter = params.notifications
    plain = plain_of(filter) if is_model(filter) else filter if is_object(filter) else {}
    for key, value in plain.items():
        if is_list(value):
            kind: ThingKind = "task" if key in task_lists else "resource"
            yield from (NamedThing(kind, id) for id in value if isinstance(id, str))


_READERS: Final[Mapping[str, _Reader]] = {
    "name": _named,
    "uri": _located,
    "ref": _referred,
    "task_id": _task,
    "notifications": _watched,
}


class UnknownItemError(JSONRPCError):
    """A request names a tool, a prompt or a resource that the server does not have, or not for this client.

    Args:
        kind: "tools", "prompts" or "resources".
        name: The name or the URI that the request has.
        reason: What the message says after it.
    """

    def __init__(self, kind: str, name: str, reason: str = "") -> None:
        is_resource = kind == "resources"
        text = "resource not found" if is_resource else f"unknown {kind[:-1]}"
        super().__init__(INVALID_PARAMS, f"{text}: {quoted(name)}{reason}", {"uri": name} if is_resource else None)
