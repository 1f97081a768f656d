"""Changes of tools: new names and texts, hidden and fixed arguments, and functions around the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypedDict

from ...errors import LocalError


class _Unset:
    """The value of a change that is not made."""

    def __repr__(self) -> str:
        return "unset"


UNSET: Final[Any] = _Unset()


@dataclass(frozen=True, kw_only=True)
class ArgTransform:
    """The changes of one argument of a tool.

    Args:
        name: Its new name.
        description: Its new description; None removes it.
        default: The value of the argument if the client passes none; the argument is optional then.
        default_factory: Returns such a value for each call, for a hidden argument.
        type: A type hint instead of that of the argument; its values must fit the tool as well.
        hide: True removes the argument from the schema; its value is that of `default` or `default_factory`, else the
            default of the tool.
        required: True makes an optional argument required.
        examples: Examples of values, for the schema.

    Raises LocalError for changes that contradict each other.
    """

    name: str = UNSET
    description: str | None = UNSET
    default: Any = UNSET
    default_factory: Callable[[], Any] = UNSET
    type: Any = UNSET
    hide: bool = False
    required: Literal[True] = UNSET
    examples: Any = UNSET

    def __post_init__(self) -> None:
        has_default, has_factory = self.default is not UNSET, self.default_factory is not UNSET
        if has_default and has_factory:
            raise LocalError("ArgTransform() takes `default` or `default_factory`, not both")
        if has_factory and not self.hide:
            raise LocalError("ArgTransform(): `default_factory` needs hide=True: a schema has a fixed default")
        if self.required is not UNSET:
            if self.required is not True:
                raise LocalError("ArgTransform(): required=False makes nothing optional: set `default` instead")
            if has_default or has_factory or self.hide:
                raise LocalError("ArgTransform(): a required argument has no default and is not hidden")
        if self.hide and self.name is not UNSET:
            raise LocalError(f"ArgTransform(): a hidden argument has no name: remove name={self.name!r} or hide=True")
        name: Any = self.name
        if name is not UNSET and not (isinstance(name, str) and name):
            raise LocalError(f"ArgTransform(): name={self.name!r} is not the name of an argument")


class ToolChanges(TypedDict, total=False):
    """The keywords of `Tool.from_tool`; what is absent is that of the tool.

    `title`, `description`, `tags`, `annotations` and `meta` replace those of the tool. `transform_args` are the changes
    of its arguments, by name. `transform_fn` is a function that is called instead of the tool: it calls it with
    `forward(…)`, and its parameters are the arguments of the new tool; with `**kwargs` it gets all others of the tool.
    `output_schema=None` removes the output schema, and with it the structured content.
    """

    title: str | None
    description: str | None
    tags: Collection[str]
    annotations: Any
    meta: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    transform_fn: Callable[..., Any] | None
    transform_args: Mapping[str, ArgTransform] | None


class ToolTransform:
    """A changed copy of a tool, before it is added to an app."""

    def __init__(self, source: Any, name: str | None, changes: ToolChanges) -> None:
        """Describe a copy. Raises TypeError for an unknown keyword and for changes of the wrong type."""
        unknown = sorted(changes.keys() - ToolChanges.__optional_keys__)
        if unknown:
            names = ", ".join(sorted(ToolChanges.__optional_keys__))
            raise TypeError(f"from_tool() has no keyword argument {unknown[0]!r}; the keywords are {names}")
        argument_changes: Mapping[str, Any] = changes.get("transform_args") or {}
        for argument, change in argument_changes.items():
            if not isinstance(change, ArgTransform):
                raise TypeError(f"from_tool(): transform_args[{argument!r}] must be ArgTransform(…), not {change!r}")
        self.source = source
        self.name = name
        self.changes = changes


class Forwarding(Protocol):
    """The call of a changed tool, which calls the tool itself."""

    def forward(self, arguments: Mapping[str, Any]) -> Awaitable[Any]: ...

    def forward_raw(self, arguments: Mapping[str, Any]) -> Awaitable[Any]: ...


CURRENT: Final[ContextVar[Forwarding]] = ContextVar("mcp_changed_tool")


async def forward(**arguments: Any) -> Any:
    """Call the tool that a `transform_fn` changes, with the arguments of the changed tool; return its CallToolResult.

    Raises what the tool raises, ToolError for arguments that it does not have, and LocalError outside of a
    `transform_fn`.
    """
    return await _current("forward").forward(arguments)


async def forward_raw(**arguments: Any) -> Any:
    """Call the tool that a `transform_fn` changes, with the tool's own arguments; return its CallToolResult.

    Hidden arguments get no value. Raises what the tool raises, and LocalError outside of a `transform_fn`.
    """
    return await _current("forward_raw").forward_raw(arguments)


def _current(function: str) -> Forwarding:
    current = CURRENT.get(None)
    if current is None:
        raise LocalError(f"{function}() can only be called in the `transform_fn` of Tool.from_tool()")
    return current
