"""Lifespans that are composed of others with the operator `|`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, cast

from ...errors import LocalError
from ...usage.functions import check_accepts_one, check_lifespan
from ...usage.rules import shown

LifespanFunction = Callable[[Any], AbstractAsyncContextManager[Any] | AsyncIterator[Any]]


class Lifespan:
    """One or more functions that run around the life of an app: `App(lifespan=first | second)`.

    They start from left to right, and end in the opposite order. Those of a composed one yield dicts, which are merged;
    the value of the last one takes precedence.
    """

    def __init__(self, function: LifespanFunction) -> None:
        """Wrap an async generator function with one `yield`, or a function that returns an async context manager.

        Raises LocalError for another function.
        """
        start: Any = function
        if inspect.isasyncgenfunction(function):
            check_accepts_one(function, f"lifespan(): {function.__name__!r}", "app")
            start = asynccontextmanager(cast("Callable[[Any], AsyncGenerator[Any]]", function))
        elif not isinstance(function, Lifespan):
            check_lifespan(function, "lifespan")
        self._functions: list[Callable[[Any], AbstractAsyncContextManager[Any]]] = [start]
        self.__name__ = getattr(function, "__name__", "lifespan")

    @asynccontextmanager
    async def __call__(self, app: Any) -> AsyncGenerator[Any]:
        """Enter the functions. Raises LocalError if one of several yields no dict."""
        async with AsyncExitStack() as stack:
            values = [await stack.enter_async_context(function(app)) for function in self._functions]
            if len(values) == 1:
                yield values[0]
                return
            merged: dict[str, Any] = {}
            for function, value in zip(self._functions, values, strict=True):
                if value is not None and not isinstance(value, Mapping):
                    name = getattr(function, "__name__", "function")
                    raise LocalError(
                        f"lifespan {name!r}: one of several must yield a dict or nothing, not {shown(value)}"
                    )
                merged |= dict(cast("Mapping[str, Any]", value or {}))
            yield merged

    def __or__(self, other: object) -> Lifespan:
        """Return a lifespan that enters this one, then the other one. Raises TypeError for another object."""
        if not isinstance(other, Lifespan):
            raise TypeError(f"{shown(other)} is no Lifespan: write first | lifespan(second)")
        composed = Lifespan(self._functions[0])
        composed._functions = [*self._functions, *other._functions]
        composed.__name__ = f"{self.__name__} | {other.__name__}"
        return composed


def lifespan(function: LifespanFunction) -> Lifespan:
    """Make a function with one `yield` a lifespan: decorate an `async def f(app)` with `@lifespan`.

    A function that returns an async context manager is wrapped as well. Raises LocalError for another one.
    """
    return Lifespan(function)
