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

from mcp_runtime.client.core import ClientCore
from mcp_runtime.client.subscriptions import Subscription
from mcp_runtime.endpoint.base import Handler, to_async
from mcp_runtime.endpoint.context import Context
from mcp_runtime.session.requests import RequestOptions

from .trio import AsyncioThread
from .trio import run_in_asyncio_thread as run_in_asyncio_thread

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
    client.release_loop = partial(_release, thread, objects)
    return client


async def _release(thread: AsyncioThread, objects: tuple[Any, ...]) -> None:
    """End the event loop of a client, which may be connected again."""
    try:
        await thread.stop()
    finally:
        for item in objects:
            item.__class__ = type(item).__base__
            if isinstance(item, ClientCore):
                item.parts.unwrap_handlers()
            for name in ("release_loop", "asyncio_thread"):
                item.__dict__.pop(name, None)


def _adopt(item: Any, thread: AsyncioThread) -> None:
    """Let the methods of an object, and the handlers of a client, run in the event loops that they are written for."""
    item.__class__ = _trio_class(cast(Any, type(item)))
    item.asyncio_thread = thread
    if isinstance(item, ClientCore):
        _wrap_handlers(item, partial(in_trio, thread))


def _wrap_handlers(client: ClientCore, wrap: Callable[[Handler], Handler]) -> None:
    """Let a client call its async handlers and its callbacks through `wrap`."""

    def wrapped(handler: Handler) -> Handler:
        return wrap(handler) if inspect.iscoroutinefunction(handler) else to_async(handler)

    client.parts.wrap_handlers(wrapped, wrap)


def in_trio(thread: AsyncioThread, function: Callable[..., Any]) -> Callable[..., Any]:
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
    return is_generated or owner.__module__.startswith(("mcp_runtime.", "mcp_products.", "mcp_generated."))


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls another one in the asyncio thread of its object."""
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            thread: AsyncioThread = self.asyncio_thread
            if thread.is_current:
                return await function(self, *arguments, **keywords)
            _use_trio_for_progress(thread, keywords)
            if function.__name__ not in ("close", "__aexit__"):
                return await thread.run(function, self, *arguments, **keywords)
            release = self.__dict__.get("release_loop")
            with thread.shielded():
                try:
                    return await thread.run(function, self, *arguments, **keywords)
                finally:
                    if release is not None:
                        await release()

        return call

    @wraps(function)
    def plain(self: Any, *arguments: Any, **keywords: Any) -> Any:
        thread: AsyncioThread = self.asyncio_thread
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
        keywords["on_progress"] = in_trio(thread, callback)
    options = keywords.get("options")
    if isinstance(options, RequestOptions) and options.on_progress is not None:
        keywords["options"] = replace(options, on_progress=in_trio(thread, options.on_progress))
