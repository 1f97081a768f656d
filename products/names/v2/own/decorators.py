"""`@tool`, `@resource` and `@prompt` without a server: the function gets a mark that `add_tool` and the like read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mcp_products.compat.registered import MARK

DecoratedTool = DecoratedResource = DecoratedPrompt = Callable[..., Any]


class Meta:
    """The keywords of a decorator; one that was not given is None."""

    type = "component"

    def __init__(self, **settings: Any) -> None:
        """Create the mark."""
        self._given = settings

    def given(self) -> dict[str, Any]:
        """Return the keywords that were given."""
        return {name: value for name, value in self._given.items() if value is not None}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._given.get(name)


class ToolMeta(Meta):
    """The keywords of `@tool`."""

    type = "tool"


class ResourceMeta(Meta):
    """The keywords of `@resource`."""

    type = "resource"


class PromptMeta(Meta):
    """The keywords of `@prompt`."""

    type = "prompt"


def _mark(target: Any, mark: Meta) -> Any:
    if isinstance(target, classmethod):
        raise TypeError(f"To decorate a classmethod, use @classmethod above @{mark.type}")
    setattr(getattr(target, "__func__", target), MARK, mark)
    return target


def _decorator(kind: type[Meta]) -> Callable[..., Any]:
    def decorate(name_or_fn: Any = None, *, name: str | None = None, **settings: Any) -> Any:
        """Mark a function; the keywords are those of the decorator of a server. Raises TypeError for two names."""
        if callable(name_or_fn) or isinstance(name_or_fn, classmethod):
            return _mark(name_or_fn, kind(name=name, **settings))
        if name_or_fn is not None and name is not None:
            raise TypeError(f"Cannot specify a name both as an argument and as a keyword of @{kind.type}")

        def mark(function: Any) -> Any:
            return _mark(function, kind(name=name_or_fn or name, **settings))

        return mark

    return decorate


tool = _decorator(ToolMeta)
prompt = _decorator(PromptMeta)


def resource(uri: str, **settings: Any) -> Callable[[Any], Any]:
    """Mark a function as a resource; the keywords are those of `@mcp.resource`. Raises TypeError without a URI."""
    if inspect.isroutine(uri):
        raise TypeError("The @resource decorator was used incorrectly: it requires a URI, @resource('uri')")
    return lambda function: _mark(function, ResourceMeta(uri=uri, **settings))
