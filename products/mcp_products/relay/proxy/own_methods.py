"""Methods of vendors that a proxy passes on: the protocol does not have them, so that no table says what they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from mcp_products.app.methods import OwnMethod
from mcp_products.app.registry import Registry
from mcp_products.host.own_messages import check_name
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.revision import Notification, Request, Sent
from mcp_runtime.server.context import ServerContext

from ..upstream.raw import FROM_CLIENT, FROM_SERVER

Send = Callable[[ServerContext, str, type[Sent], dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends the params of a message of a method and a kind on, and returns the result."""

_KINDS: Final = (Request, Notification)


def check_methods(methods: Sequence[str], package: str) -> None:
    """Raise LocalError unless all methods are names with the prefixes of vendors, and differ."""
    for method in methods:
        if methods.count(method) > 1:
            raise LocalError(f"methods has {method!r} twice: leave one out")
        for direction in (FROM_CLIENT, FROM_SERVER):
            check_name("methods", method, package, direction, lambda _: "leave it out, it passes anyway")


class PassedMethods:
    """The methods that an app answers by passing them on, through its middleware."""

    def __init__(self, registry: Registry) -> None:
        """Create no methods of an app."""
        self._registry = registry
        self._passed: set[str] = set()

    def replace(self, senders: Mapping[str, Send]) -> None:
        """Pass these methods, and no others, each by its function.

        Raises LocalError, and changes nothing, if the app has a function of its own for one.
        """
        own = {method for method, _ in self._registry.methods} - self._passed
        if both := sorted(own.intersection(senders)):
            raise LocalError(f"methods: the app has a function for {both[0]!r}: leave one of them out")
        for method in self._passed:
            for kind in _KINDS:
                del self._registry.methods[method, kind]
        for method, send in senders.items():
            for kind in _KINDS:
                function = _sending(send, method, kind)
                self._registry.methods[method, kind] = OwnMethod(self._registry, function, method, ())
        self._passed = set(senders)


def _sending(send: Send, method: str, kind: type[Sent]) -> Callable[..., Awaitable[dict[str, Any]]]:
    async def sent(ctx: ServerContext, params: dict[str, Any]) -> dict[str, Any]:
        return await send(ctx, method, kind, params)

    return sent
