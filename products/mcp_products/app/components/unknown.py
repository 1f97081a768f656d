"""The error of a request for something that a server does not have."""

from __future__ import annotations

from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS
from mcp_runtime.usage.texts import quoted


class UnknownItemError(JSONRPCError):
    """A request names a tool, a prompt or a resource that the server does not have, or not for this client.

    Args:
        kind: "tools", "prompts" or "resources".
        name: The name or the URI that the request has.
        reason: What the message says after it.
    """

    def __init__(self, kind: str, name: str, reason: str = "") -> None:
        is_resource = kind == "resources"
        text = "resource not found" if is_resource else f"unknown {kind[:-1]}"
        super().__init__(INVALID_PARAMS, f"{text}: {quoted(name)}{reason}", {"uri": name} if is_resource else None)
