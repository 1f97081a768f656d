"""Rules that decide whether an operation becomes a tool, a resource or nothing; their names are those of FastMCP."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from ...errors import LocalError
from .openapi_document import Operation


class MCPType(Enum):
    """What an operation becomes. Both kinds of resources read by GET; one with path parameters is a template."""

    TOOL = "TOOL"
    RESOURCE = "RESOURCE"
    RESOURCE_TEMPLATE = "RESOURCE_TEMPLATE"
    EXCLUDE = "EXCLUDE"


@dataclass(kw_only=True, frozen=True)
class RouteMap:
    """A rule: operations with these methods, a path that the pattern matches, and all these tags become this type.

    Args:
        mcp_type: What the operations become.
        methods: HTTP methods in upper case, or "*" for all.
        pattern: A regular expression to search in the path.
        tags: Tags that an operation must have, all of them.
        mcp_tags: Tags of the tools and resources.
    """

    mcp_type: MCPType
    methods: Sequence[str] | Literal["*"] = "*"
    pattern: str | re.Pattern[str] = r".*"
    tags: set[str] = field(default_factory=set[str])
    mcp_tags: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        if isinstance(self.methods, str) and self.methods != "*":
            raise LocalError(f"RouteMap(): methods={self.methods!r} must be a list; write methods=[{self.methods!r}]")

    def matches(self, operation: Operation) -> bool:
        """Return True if the rule applies to the operation."""
        return (
            (self.methods == "*" or operation.method in {method.upper() for method in self.methods})
            and re.search(self.pattern, operation.path) is not None
            and self.tags <= set(operation.tags)
        )


RouteMapFunction = Callable[[Operation, MCPType], MCPType | None]


def choose_type(
    operation: Operation, maps: Sequence[RouteMap], function: RouteMapFunction | None
) -> tuple[MCPType, set[str]]:
    """Return what an operation becomes by the first rule that applies, else a tool; and the tags of the rule.

    Raises LocalError for a resource that is not read by GET.
    """
    rule = next((rule for rule in maps if rule.matches(operation)), RouteMap(mcp_type=MCPType.TOOL))
    kind: Any = rule.mcp_type
    if function is not None:
        kind = function(operation, kind) or kind
    if not isinstance(kind, MCPType):
        raise LocalError(f"route_map_fn returned {kind!r} for {operation}; return an MCPType, or None to keep its type")
    if kind in (MCPType.RESOURCE, MCPType.RESOURCE_TEMPLATE) and operation.method != "GET":
        raise LocalError(
            f'{operation} cannot be a resource: resources are read by GET; add methods=["GET"] to the RouteMap'
        )
    return kind, rule.mcp_tags
