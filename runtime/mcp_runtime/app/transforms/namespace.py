"""A transform that adds a prefix to all names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import JSONRPCError, LocalError
from ...protocol.jsonrpc import INVALID_PARAMS
from ...server.context import ServerContext
from ...usage.rules import shown
from ...usage.shortened import quoted
from ..components.prefixes import add_prefix, strip_name_prefix, strip_prefix, with_prefixed_name, with_prefixed_uri
from .transform import CallNext, Transform


class Namespace(Transform):
    """Name tools and prompts `prefix_name`, and resources `scheme://prefix/path`, as `mount` does."""

    def __init__(self, prefix: str) -> None:
        """Create the transform. Raises LocalError if the prefix is no identifier."""
        if not _is_identifier(prefix):
            raise LocalError(f'Namespace() needs an identifier, such as "api"; {shown(prefix)} is not')
        self.prefix = prefix

    async def list_tools(self, tools: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the tools with the prefix."""
        return [with_prefixed_name(self.prefix, tool) for tool in tools]

    async def list_prompts(self, prompts: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the prompts with the prefix."""
        return [with_prefixed_name(self.prefix, prompt) for prompt in prompts]

    async def list_resources(self, resources: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the resources with the prefix."""
        return [item.model_copy(update={"uri": add_prefix(self.prefix, item.uri)}) for item in resources]

    async def list_resource_templates(self, templates: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the resource templates with the prefix."""
        return [
            item.model_copy(update={"uri_template": add_prefix(self.prefix, item.uri_template)}) for item in templates
        ]

    async def call_tool(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Call the tool without the prefix."""
        return await call_next(ctx, self._renamed("tool", params))

    async def get_prompt(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Get the prompt without the prefix."""
        return await call_next(ctx, self._renamed("prompt", params))

    async def read_resource(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Read the resource without the prefix."""
        uri = strip_prefix(self.prefix, params.uri)
        if uri is None:
            raise JSONRPCError(INVALID_PARAMS, f"resource not found: {quoted(params.uri)}", {"uri": params.uri})
        return with_prefixed_uri(await call_next(ctx, params.model_copy(update={"uri": uri})), uri, params.uri)

    def _renamed(self, kind: str, params: Any) -> Any:
        name = strip_name_prefix(self.prefix, params.name)
        if name is None:
            raise JSONRPCError(INVALID_PARAMS, f"unknown {kind}: {quoted(params.name)}")
        return params.model_copy(update={"name": name})


def _is_identifier(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()
