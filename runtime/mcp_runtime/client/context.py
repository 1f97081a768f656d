"""The context of a client's handlers."""

from __future__ import annotations

from ..endpoint.context import Context


class ClientContext(Context):
    """The context of a client's handler: the message, and requests to the server.

    Attributes:
        state: The client.
        request_id: The id of the request; None for a notification.
        meta: The `_meta` of the params.
        capabilities: The capabilities that the server has declared.
        revision: The negotiated protocol version.
    """
