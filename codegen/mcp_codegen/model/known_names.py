"""The names of properties that the runtime has by hand, though it uses them in messages of every revision.

What belongs to an app is in one revision, and reaches all others by conversion. The lifecycle is not: it is that of
each connection. Rows of `[[rename]]` may give properties other names: the tables of a revision tell the runtime those
of `FROM_TABLES`, and those of `BY_HAND` stop an import.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..errors import Finding
from .ir import Object, Revision
from .overlay import Overlay
from .types import NamedTypes

_OWN: Final = "io.modelcontextprotocol/"
# By the type that has the property: the properties, and what the runtime does with them.
BY_HAND: Final = {
    "RequestMetaObject": (
        (
            "progressToken",
            *(f"{_OWN}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities", "logLevel")),
        ),
        "read which version and client a request is of",
    ),
    "ResultMetaObject": ((f"{_OWN}serverInfo",), "say which server a result is of"),
    "NotificationMetaObject": ((f"{_OWN}subscriptionId",), "pass a change to its subscription"),
    "CancelledNotificationParams": (("requestId", "reason"), "cancel a request"),
    "ProgressNotificationParams": (("progressToken", "progress", "total", "message"), "report progress"),
    "LoggingMessageNotificationParams": (("level", "data", "logger"), "send log messages"),
    "DiscoverResult": (("supportedVersions", "capabilities", "instructions"), "discover a server"),
    "CacheableResult": (("ttlMs", "cacheScope"), "keep results"),
    "PaginatedResult": (("nextCursor",), "follow the pages of a list"),
    "PaginatedRequestParams": (("cursor",), "follow the pages of a list"),
    "InputRequiredResult": (("inputRequests", "requestState"), "ask for input"),
    "InputResponseRequestParams": (("inputResponses", "requestState"), "answer requests for input"),
    "SubscriptionsListenRequestParams": (("notifications",), "subscribe"),
    "SubscriptionsAcknowledgedNotificationParams": (("notifications",), "subscribe"),
    "ResourceUpdatedNotificationParams": (("uri",), "notify subscribers"),
}


# Those that the runtime takes from the tables of a revision: the rules of HTTP for the headers of tools.
FROM_TABLES: Final = ("Tool.inputSchema", "Tool.name", "ListToolsResult.tools", "CallToolRequestParams.arguments")


def other_names(types: NamedTypes, overlay: Overlay) -> dict[str, str]:
    """Return the properties of `FROM_TABLES` that have other names in these types, by their places."""
    names: dict[str, str] = {}
    for place in FROM_TABLES:
        name, _, wire = place.partition(".")
        defined = types.get(name)
        if isinstance(defined, Object) and defined.field(wire) is None:
            present = overlay.present(place, {f"{name}.{field.wire}" for field in defined.fields})
            names |= {place: present.removeprefix(f"{name}.")} if present != place else {}
    return names


def check_known_names(revision: Revision, overlay: Overlay) -> Iterator[Finding]:
    """Yield a finding for each property with another name in this revision, which the runtime has by hand."""
    for name, (wires, use) in BY_HAND.items():
        defined = revision.types.get(name)
        for wire in wires if isinstance(defined, Object) else ():
            assert isinstance(defined, Object)
            place = f"{name}.{wire}"
            present = overlay.present(place, {f"{name}.{field.wire}" for field in defined.fields})
            if present != place and defined.field(wire) is None:
                text = (
                    f"{revision.id}: {place} has the name {present.removeprefix(f'{name}.')!r} now, but the runtime "
                    f"has the old one by hand to {use}; write the code that takes it from the tables of a revision, "
                    "and remove it from mcp_codegen/model/known_names.py"
                )
                yield Finding("names", place, text)
