"""Results of a target of which a part cannot be sent on: that part is left out, with a warning, and the rest arrives.

A server checks what its own functions return, and refuses a result as a whole, so that its author sees the mistake. A
proxy has only the results of others.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, Final

from mcp_runtime.endpoint.checks import RESULT_CHECKS
from mcp_runtime.errors import InvalidMessageError, JSONRPCError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR

_log: Final = logging.getLogger("mcp_runtime.relay.proxy.wrong_parts")

# The list of a result whose items are checked, and whether the result may lose all of them.
_LISTS: Final = {
    "list_resources": ("resources", True),
    "read_resource": ("contents", False),
    "get_prompt": ("messages", False),
}


def without_wrong_parts(name: str, result: Any, target: str) -> Any:
    """Return a result of a target without the items that cannot be sent.

    Args:
        name: The name of the handler, such as "read_resource".
        result: The result, which is changed.
        target: The name of the target, for messages.

    Raises JSONRPCError if none of the content can be sent.
    """
    items_name, may_be_empty = _LISTS.get(name, ("", True))
    items: list[Any] = getattr(result, items_name, None) or []
    kept, reason = list[Any](), ""
    for number, item in enumerate(items):
        _name_type_of_embedded(item)
        try:
            RESULT_CHECKS[name](None, SimpleNamespace(**{items_name: [item]}))
        except InvalidMessageError as error:
            reason = f"{items_name}[{number}]: {error}"
            _log.warning("%r of %r: left out, because it cannot be sent: %s", name, target, reason)
        else:
            kept.append(item)
    if items and not kept and not may_be_empty:
        raise JSONRPCError(INTERNAL_ERROR, f"the result of the target {target!r} cannot be sent: {reason}")
    if len(kept) < len(items):
        setattr(result, items_name, kept)
    return result


def _name_type_of_embedded(message: Any) -> None:
    """Set the MIME type of a resource in a prompt: prompts need it, and servers of others leave it out."""
    resource = getattr(getattr(message, "content", None), "resource", None)
    if resource is not None and resource.mime_type is None:
        resource.mime_type = "text/plain" if getattr(resource, "text", None) is not None else "application/octet-stream"
