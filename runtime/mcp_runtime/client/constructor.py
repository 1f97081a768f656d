"""What the arguments of a client's constructor must be."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypedDict, get_args

from ..aio.rate_limit import RateLimit
from ..protocol.revision import Handshake, Revision
from ..session.options import RequestOptions
from ..usage.rules import FLAG, FUNCTION, MAPPING, SECONDS, TEXT, Rule, is_items
from .cache import ClientResponseCache
from .roots import FileRoots

if TYPE_CHECKING:
    from .observation.observer import OnClose, OnError


class EventKeywords(TypedDict, total=False):
    """The keywords of a client for what the server requests, and for what happens to the connection.

    Attributes:
        rate_limits: How many requests of the server the client answers, by handler, such as
            `{"on_elicit": RateLimit(per_second=0.1, burst=5)}`; further ones get an error. `on_create_message` and
            `on_elicit` are limited to 1 a second (after the first 60) unless their value here is None.
        on_close: A function, or an `async def`, that is called when the connection has ended: with None if this
            client has closed it, else with the error.
        on_error: A function, or an `async def`, that is called with errors that no call raises: of a handler, and of
            an invalid message of the server.
        strict: True to refuse a message of the server of which any part is wrong, for tests of servers. By default such
            a part, such as a tool of a list or an icon of a tool, is left out with a warning in the log.
    """

    rate_limits: Mapping[str, RateLimit | None] | None
    on_close: OnClose | None
    on_error: OnError | None
    strict: bool


def _are_packages(value: Any) -> bool:
    return is_items(value) and all(hasattr(item, "methods") for item in value)


def _are_rate_limits(value: Any) -> bool:
    return MAPPING.accepts(value) and all(item is None or isinstance(item, RateLimit) for item in value.values())


RULES: Final[Mapping[str, Rule]] = {
    "connect": Rule(FUNCTION.accepts, "an async function: write Client.http(url), or Client.stdio(*words)"),
    "name": TEXT,
    "version": TEXT,
    "capabilities": Rule(MAPPING.accepts, 'a dict, such as {"roots": {}}').or_none(),
    "connect_options": Rule(lambda value: isinstance(value, RequestOptions), "RequestOptions(timeout=…)"),
    "ping_interval": SECONDS.or_none(),
    "timeout": SECONDS.or_none(),
    "rate_limits": Rule(_are_rate_limits, 'a dict such as {"on_elicit": RateLimit(1, burst=5)}').or_none(),
    "strict": FLAG,
    "on_close": Rule(callable, "a function of an error or None").or_none(),
    "on_error": Rule(callable, "a function of an exception").or_none(),
    "extensions": Rule(_are_packages, "a list of packages of mcp_generated.extensions"),
    "cache": Rule(lambda value: isinstance(value, (bool, ClientResponseCache)), "True, False or a ClientResponseCache"),
    "roots": Rule(lambda value: isinstance(value, FileRoots), 'FileRoots("folder", …)').or_none(),
}


def capabilities_property(revision: Revision) -> tuple[Any, str]:
    """Return the type of the message that declares the client's capabilities, and the property of it."""
    lifecycle = revision.lifecycle
    if isinstance(lifecycle, Handshake):
        return lifecycle.initialize_request.params, lifecycle.fields.client_capabilities
    annotation = lifecycle.discover.params.__pydantic_fields__["meta"].annotation
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]  # Of optional metadata.
    return (kinds or [annotation])[0], "client_capabilities"
