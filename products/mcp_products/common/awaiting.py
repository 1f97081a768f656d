"""Calls of asynchronous methods of a context without `await`, in plain `def` functions: they would do nothing.

Python drops such a call with a warning on stderr. Here the function that makes it fails, with the line to write.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from functools import lru_cache, partial, wraps
from pathlib import Path
from types import NoneType
from typing import Any, Final, NamedTuple, cast

from mcp_runtime.aio.threads import worker_threads
from mcp_runtime.endpoint.context import Watched
from mcp_runtime.errors import LocalError

_log: Final = logging.getLogger("mcp_runtime.app.context.awaiting")

# The methods of `ctx.sync`.
_SYNC_METHODS: Final = frozenset(("log", "debug", "info", "warning", "error", "progress", "report_progress"))


# Types of most results. None of them is awaitable, which costs more to find out.
_PLAIN: Final = frozenset({str, int, float, bool, NoneType, list, dict, tuple, bytes})


class _UnawaitedCall(NamedTuple):
    """A call of an asynchronous method."""

    coroutine: Coroutine[Any, Any, Any]
    method: str
    file: str
    line: int


class _Watching(Watched):
    """The base of the classes of twins."""


def watch(value: Any, calls: list[_UnawaitedCall] | None = None) -> Any:
    """Return a twin of a Watched object, which adds the calls of its asynchronous methods to a list.

    The twin has the attributes of the object, and shares their values with it.

    Args:
        value: The object; one of another class is returned as it is.
        calls: The list; by default that of the object, which is created here.
    """
    if not isinstance(value, Watched) or isinstance(value, _Watching):
        return value
    twin = cast(Any, object.__new__(_watching_class(cast(Any, type(value)))))
    twin.__dict__ = vars(value)
    if twin.unawaited is None:
        twin.unawaited = [] if calls is None else calls
    return twin


@lru_cache(maxsize=128)
def _watching_class(base: type) -> type:
    """Return a subclass whose asynchronous methods add their calls to the list of the object."""
    methods: dict[str, Any] = {"__module__": base.__module__}
    for name in dir(base):
        method: Any = getattr(base, name, None)
        if not name.startswith("_") and inspect.iscoroutinefunction(method):
            methods[name] = _recorded(name, method)
    if isinstance(session := getattr(base, "session", None), property):
        methods["session"] = property(lambda ctx: watch(session.__get__(ctx), ctx.unawaited))
    return type(base.__name__, (base, _Watching), methods)


def _recorded(name: str, method: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
    @wraps(method)
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        coroutine = method(self, *arguments, **keywords)
        calls: list[_UnawaitedCall] | None = self.unawaited
        if calls is not None:
            while calls and inspect.getcoroutinestate(calls[-1].coroutine) == inspect.CORO_CLOSED:
                calls.pop()
            frame = inspect.currentframe()
            caller = None if frame is None else frame.f_back
            file, line = ("", 0) if caller is None else (Path(caller.f_code.co_filename).name, caller.f_lineno)
            calls.append(_UnawaitedCall(coroutine, name, file, line))
        return coroutine

    return call


def refusal(value: Any, description: str, thread: bool = True) -> str | None:
    """Return the message for the first call of a Watched object that nobody has awaited; None if there is none.

    All of these calls are closed, so that Python warns of none.

    Args:
        value: The object.
        description: The function that has made the calls.
        thread: Whether it ran in a worker thread, where `ctx.sync` is possible.
    """
    calls: list[_UnawaitedCall] | None = getattr(value, "unawaited", None)
    if not calls:
        return None
    unstarted = [call for call in calls if inspect.getcoroutinestate(call.coroutine) == inspect.CORO_CREATED]
    calls.clear()
    if not unstarted:
        return None
    for call in unstarted:
        call.coroutine.close()
    _, method, file, line = unstarted[0]
    remedy = f"write `async def`, and `await ctx.{method}(…)`"
    if thread and method in _SYNC_METHODS:
        remedy = f"write `ctx.sync.{method}(…)` in a plain `def`, or {remedy[6:]}"
    return f"{description}: {method}() in line {line} of {file} is not awaited, so that it does nothing:\n{remedy}"


async def call_plain(function: Callable[..., Any], description: str, arguments: dict[str, Any], thread: bool) -> Any:
    """Return the result of a plain `def` function with these arguments; see `run_plain`."""
    twins = {name: watch(value) for name, value in arguments.items()}
    return await run_plain(partial(function, **twins), twins.values(), description, thread=thread)


async def run_plain(
    function: Callable[..., Any], arguments: Collection[Any], description: str, *, thread: bool = True
) -> Any:
    """Return the result of a plain `def` function; an awaitable one is awaited.

    Args:
        function: The function, with its arguments.
        arguments: Its arguments, some of which `watch` may have returned.
        description: What the function is, for errors.
        thread: Whether it runs in a worker thread.

    Raises LocalError if the function has called an asynchronous method of them without `await`.
    """
    values = [value for value in arguments if isinstance(value, _Watching)] if arguments else ()
    message: str | None = None
    try:
        result = await worker_threads().run(function) if thread else function()
        if type(result) not in _PLAIN and inspect.isawaitable(result):
            result = await result
    except Exception:
        if message := _refusal_of(values, description, thread):
            _log.error("%s", message)
        raise
    if values and any(value.unawaited for value in values):
        await asyncio.sleep(0)  # Calls for which the function has created an asyncio task begin.
        message = _refusal_of(values, description, thread)
    if message is not None:
        raise LocalError(message)
    return result


def _refusal_of(values: Iterable[Any], description: str, thread: bool) -> str | None:
    return next((message for value in values if (message := refusal(value, description, thread))), None)


def plain_to_async(function: Callable[..., Any], description: str) -> Callable[..., Awaitable[Any]]:
    """Return an async function that runs a plain `def` with the same positional arguments in a worker thread."""

    async def in_thread(*arguments: Any) -> Any:
        twins = [*map(watch, arguments)]
        return await run_plain(partial(function, *twins), twins, description)

    return in_thread
