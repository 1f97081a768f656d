"""Resources and prompts as tools, for clients that have only tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import LocalError
from ..context.app_context import AppContext
from ..context.own_requests import own_request
from .transform import Transform, TransformAdapter


class _OfOneApp(Transform):
    def __init__(self, app: Any = None) -> None:
        """Create the transform; `app` may be the app that it is added to, as in FastMCP."""
        self._app = app

    def adapter(self, app: Any) -> TransformAdapter:
        """Return this transform as a middleware of an app. Raises LocalError for another app than the constructor's."""
        if self._app is not None and self._app is not app:
            name = type(self).__name__
            raise LocalError(f"add_transform(): {name}(…) was created for another app: write {name}()")
        return super().adapter(app)


class ResourcesAsTools(_OfOneApp):
    """Add the tools `list_resources` and `read_resource`, which return what clients can read."""

    def functions(self) -> Sequence[Callable[..., Any]]:
        """Return the two functions."""
        return (list_resources, read_resource)


class PromptsAsTools(_OfOneApp):
    """Add the tools `list_prompts` and `get_prompt`, which return what clients can get."""

    def functions(self) -> Sequence[Callable[..., Any]]:
        """Return the two functions."""
        return (list_prompts, get_prompt)


async def list_resources(ctx: AppContext[Any, Any, Any]) -> list[dict[str, Any]]:
    """List the resources with their URIs, and the resource templates with their URI templates."""
    definitions = [*await ctx.list_resources(), *await ctx.list_resource_templates()]
    return [definition.model_dump() for definition in definitions]


async def read_resource(uri: str, ctx: AppContext[Any, Any, Any]) -> list[dict[str, Any]]:
    """Read a resource.

    Args:
        uri: Its URI; that of a resource template has values for the variables.
    """
    result = await own_request(ctx, "read_resource", {"uri": uri})
    return [content.model_dump() for content in result.contents]


async def list_prompts(ctx: AppContext[Any, Any, Any]) -> list[dict[str, Any]]:
    """List the prompts with their arguments."""
    return [definition.model_dump() for definition in await ctx.list_prompts()]


async def get_prompt(
    name: str, ctx: AppContext[Any, Any, Any], arguments: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Get the messages of a prompt.

    Args:
        name: Its name.
        arguments: Its arguments.
    """
    result = await ctx.get_prompt(name, arguments)
    return [message.model_dump() for message in result.messages]
