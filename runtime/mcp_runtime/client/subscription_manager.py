"""The subscription manager of a client: passes change notifications to the open subscriptions and to the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from pydantic import BaseModel

from ..protocol.revision import Notification, Request, Revision
from ..session.options import Params, RequestOptions
from ..session.session import Session
from .cache import ClientResponseCache


class NotificationListener(Protocol):
    """An open subscription."""

    def notify(self, row: Notification, params: dict[str, Any]) -> None:
        """Handle a notification of the server."""
        ...


class SubscriptionManager:
    """The open subscriptions of a client, and the functions that they use.

    Attributes:
        listeners: The open subscriptions.
        subscribed_uris: How many subscriptions a resource has, by its URI.
    """

    def __init__(
        self,
        revision: Revision,
        require_session: Callable[[], Session],
        send_request: Callable[[Request[Any], Params, RequestOptions | None], Awaitable[Any]],
        build_params: Callable[[Request[Any], Params, RequestOptions], Any],
        cache: ClientResponseCache | None,
        to_handler: Callable[[Notification, dict[str, Any]], dict[str, Any] | None] | None = None,
    ) -> None:
        """Create a manager without subscriptions.

        Args:
            revision: The protocol version of the connection.
            require_session: A function that returns the session, or raises ConnectionClosedError.
            send_request: A function that sends a request and returns its result.
            build_params: A function that adds the metadata of a request to its params.
            cache: The cache whose results change notifications invalidate; None for no cache.
            to_handler: A function that converts the params of a notification to the protocol version of the client; it
                returns None if that version does not have the notification. By default params are not converted.
        """
        self.revision = revision
        self.require_session = require_session
        self.send_request = send_request
        self.build_params = build_params
        self.cache = cache
        self.to_handler = to_handler
        self.listeners: dict[NotificationListener, None] = {}
        self.subscribed_uris: Counter[str] = Counter()

    def dispatch(self, row: Notification, params: BaseModel | None) -> None:
        """Pass a notification to the cache and to all open subscriptions."""
        if self.cache is not None:
            self.cache.handle_change(row, getattr(params, "uri", None))
        if self.listeners:
            fields = {} if params is None else params.model_dump()
            for listener in list(self.listeners):
                listener.notify(row, fields)
