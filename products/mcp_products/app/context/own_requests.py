"""Requests of an app's function to its own app: they pass the app's middleware, as a client's requests do."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import validator
from mcp_runtime.protocol.result_types import FollowedPages

_MAX_PAGES: Final = 10_000


@dataclass(frozen=True)
class ResourceContent:
    """A content of a resource: `content` is text or bytes."""

    content: str | bytes
    mime_type: str | None = None
    uri: str = ""
    meta: Mapping[str, Any] | None = None


class ResourceContentList(list[ResourceContent]):
    """The contents of a resource; most have one item."""

    @property
    def contents(self) -> list[ResourceContent]:
        """The items; FastMCP's name."""
        return self


async def own_request(ctx: Any, name: str, params: dict[str, Any]) -> Any:
    """Return the result of a request to the app of a function; `name` is that of the handler."""
    row: Any = next(row for row in ctx.revision.rows if row.name == name and row.direction == "client_to_server")
    if ctx.meta:
        params = {**params, "_meta": {key: value for key, value in ctx.meta.items() if key != "progressToken"}}
    nested = ctx.nested()
    return await nested.app.handle_nested(name, nested, validator(row.params)(params))


async def own_items(ctx: Any, name: str, items: str) -> list[Any]:
    """Return the items of all pages of a list of the app."""
    result: list[Any] = []
    followed, cursor = FollowedPages(name, _MAX_PAGES, sys.maxsize), None
    while True:
        page = await own_request(ctx, name, {} if cursor is None else {"cursor": cursor})
        listed = getattr(page, items)
        result += listed
        if (cursor := followed.add(len(listed), page.next_cursor)) is None:
            return result


async def read_resource(ctx: Any, uri: str) -> ResourceContentList:
    """Return the contents of a resource of the app."""
    result = await own_request(ctx, "read_resource", {"uri": uri})
    contents: list[Any] | None = getattr(result, "contents", None)
    if contents is None:
        raise LocalError(f"read_resource({uri!r}): the resource requests input, and returns it itself: use ctx.elicit")
    return ResourceContentList(
        ResourceContent(
            base64.b64decode(blob) if (blob := getattr(content, "blob", None)) is not None else content.text,
            content.mime_type,
            content.uri,
            content.meta,
        )
        for content in contents
    )
