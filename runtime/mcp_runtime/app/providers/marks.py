"""Decorators that mark functions of a file, for `FileSystemProvider`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

TOOL_MARK: Final = "__mcp_tool__"
RESOURCE_MARK: Final = "__mcp_resource__"
PROMPT_MARK: Final = "__mcp_prompt__"


def resource(uri: str, **settings: Any) -> Callable[[F], F]:
    """Mark a function as a resource; the arguments are those of `App.resource`, and are checked when the file is
    loaded."""
    if callable(uri):
        raise TypeError('resource() needs a URI before the function: write @resource("scheme://path")')

    def mark(function: F) -> F:
        setattr(function, RESOURCE_MARK, {"uri": uri, **settings})
        return function

    return mark


def prompt(function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
    """Mark a function as a prompt: `@prompt`, `@prompt("name")` or with the keywords of `App.prompt`, which are checked
    when the file is loaded."""

    def mark(marked: F) -> F:
        own_name = function if isinstance(function, str) else name
        setattr(marked, PROMPT_MARK, {"name": own_name, **settings})
        return marked

    return mark(function) if callable(function) else mark
