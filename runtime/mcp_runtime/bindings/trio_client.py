"""Clients in a program that runs trio: the client runs in an asyncio event loop of a thread of its own.

While a client is connected, the methods that its class inherits from this package may be awaited in trio. Its handlers
and callbacks run in trio, except plain `def` handlers, which run in worker threads as they always do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial, wraps
from typing import Any, Final, TypeVar, cast

from ..aio.trio_programs.asyncio_thread import AsyncioThread
from ..client.core import ClientCore
from ..client.subscriptions import Subscription
from ..endpoint.base import Handler, to_async
from ..endpoint.context import Context
from ..session.options import RequestOptions

T = TypeVar("T")

_PROTOCOLS: Final = ("__aenter__", "__aexit__", "__anext__")  # Special methods that are coroutine functions.


async def enter(client: Any, *parts: Any) -> Any:
    """Connect a client in an event loop of its own thread. It stays there until it is closed.

    Args:
        client: A client, or a client of several servers.
        parts: The clients of the servers.
    """
    thread = AsyncioThread()
    objects = (client, *parts)
    for item in objects:
        _adopt(item, thread)
    try:
        await thread.run(client.__aenter__)
    except BaseException:
        await _release(thread, objects)
        raise
    client._release = partial(_release, thread, objects)
    return client


async def _release(thread: AsyncioThread, objects: tuple[Any, ...]) -> None:
    """End the event loop of a client, which may be connected again."""
    try:
        await thread.stop()
    finally:
        for item in objects:
            item.__class__ = type(item).__base__
            _renew_handlers(item, None)
            for name in ("_release", "_asyncio_thread", "_to_async"):
                item.__dict__.pop(name, None)


def _adopt(item: Any, thread: AsyncioThread) -> None:
    """Let the methods of an object, and the handlers of a client, run in the event loops that they are written for."""
    item.__class__ = _trio_class(cast(Any, type(item)))
    item._asyncio_thread = thread
    _renew_handlers(item, partial(_in_trio, thread))


def _renew_handlers(item: Any, wrap: Callable[[Handler], Handler] | None) -> None:
    """Collect the handlers of a client anew; `wrap` makes handlers for asyncio of async functions and of callbacks."""
    if not isinstance(item, ClientCore):
        return
    client: Any = item

    def wrapped(handler: Handler) -> Handler:
        return wrap(handler) if wrap is not None and inspect.iscoroutinefunction(handler) else to_async(handler)

    client._to_async = wrapped
    client._handlers = client._overridden_handlers()
    client._prepare_handlers()
    if client._observer is not None:
        client._observer.wrap = wrap


def _in_trio(thread: AsyncioThread, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async function for asyncio that calls a function in a task of trio."""

    async def call(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, Context):
                _adopt(argument, thread)
        return await thread.run_in_trio(function, *arguments)

    return call


@cache
def _trio_class(base: type[Any]) -> type[Any]:
    """Return a subclass whose methods run in the asyncio thread of the object when a task of trio calls them."""
    methods: dict[str, Any] = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    for name in dir(base):
        owner = next((owner for owner in base.__mro__ if name in vars(owner)), base)
        function = vars(owner).get(name)
        is_public = not name.startswith(("_", "on_")) or name in _PROTOCOLS
        if is_public and inspect.isfunction(function) and _is_of_package(owner):
            methods[name] = _method(function)
    return type(base.__name__, (base,), methods)


def _is_of_package(owner: type[Any]) -> bool:
    """Return True for classes of this package and for generated ones: methods of other classes are written for trio."""
    is_generated = "revision" in vars(owner) and "_is_composed" not in vars(owner)
    return is_generated or owner.__module__.startswith(("mcp_runtime.", "mcp_generated."))


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls another one in the asyncio thread of its object."""
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            thread: AsyncioThread = self._asyncio_thread
            if thread.is_current:
                return await function(self, *arguments, **keywords)
            _use_trio_for_progress(thread, keywords)
            if function.__name__ not in ("close", "__aexit__"):
                return await thread.run(function, self, *arguments, **keywords)
            release = self.__dict__.get("_release")
            with thread.shielded():
                try:
                    return await thread.run(function, self, *arguments, **keywords)
                finally:
                    if release is not None:
                        await release()

        return call

    @wraps(function)
    def plain(self: Any, *arguments: Any, **keywords: Any) -> Any:
        thread: AsyncioThread = self._asyncio_thread
        if thread.is_current:
            return function(self, *arguments, **keywords)
        _use_trio_for_progress(thread, keywords)
        result: Any = function(self, *arguments, **keywords)
        if inspect.isasyncgen(result):
            return thread.iterate(cast(Any, result))
        if isinstance(result, Subscription):
            _adopt(result, thread)
        return cast(Any, result)

    return plain


def _use_trio_for_progress(thread: AsyncioThread, keywords: dict[str, Any]) -> None:
    """Replace the callback for progress by one that asyncio can call."""
    if (callback := keywords.get("on_progress")) is not None:
        keywords["on_progress"] = _in_trio(thread, callback)
    options = keywords.get("options")
    if isinstance(options, RequestOptions) and options.on_progress is not None:
        keywords["options"] = replace(options, on_progress=_in_trio(thread, options.on_progress))
