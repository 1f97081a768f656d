"""The base class of providers: objects that list and serve tools, resources and prompts at each request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

from ...errors import JSONRPCError
from ...protocol.jsonrpc import INVALID_PARAMS
from ...server.context import ServerContext
from ...usage.shortened import quoted

ProvidedList = Literal["tools", "prompts", "resources", "resource_templates"]
PROVIDED_LISTS: Final[tuple[ProvidedList, ...]] = ("tools", "prompts", "resources", "resource_templates")


class Provider:
    """A source of tools, resources and prompts: override the methods for what it has, and pass it to
    `App.add_provider`.

    The methods that list return definitions, such as `types.Tool` of the newest protocol version. The other methods are
    called with the params of the request, whose name or URI has no prefix of the app.
    """

    forwards = False
    """Whether the methods of `forward` serve whole requests, list requests with their cursors included."""

    def attach(self, app: Any, prefix: str) -> None:
        """Add this provider to an app; with a prefix, to an app that is mounted in it."""
        if prefix:
            inner = type(app)(f"{app.name} {prefix}")
            app.mount(inner, prefix)
            app = inner
        app._registry.providers.append(self)

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[Any]:
        """Open what the provider needs while `app` is served, and close it at the end."""
        yield None

    async def list_tools(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of all tools."""
        return ()

    async def list_prompts(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of all prompts."""
        return ()

    async def list_resources(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of all resources."""
        return ()

    async def list_resource_templates(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of all resource templates."""
        return ()

    async def call_tool(self, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a tool call: a `CallToolResult`."""
        raise JSONRPCError(INVALID_PARAMS, f"unknown tool: {quoted(params.name)}")

    async def get_prompt(self, ctx: ServerContext, params: Any) -> Any:
        """Return a `GetPromptResult`."""
        raise JSONRPCError(INVALID_PARAMS, f"unknown prompt: {quoted(params.name)}")

    async def read_resource(self, ctx: ServerContext, params: Any) -> Any:
        """Return a `ReadResourceResult`."""
        raise JSONRPCError(INVALID_PARAMS, f"resource not found: {quoted(params.uri)}", {"uri": params.uri})

    async def complete(self, ctx: ServerContext, params: Any) -> Any:
        """Return a `CompleteResult`; None if the provider has no suggestions."""
        return None

    async def forward(self, name: str, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a whole request, if `forwards` is set; `name` is the name of its handler."""
        raise NotImplementedError

    async def handle_lifecycle(
        self,
        name: str,
        ctx: ServerContext,
        params: Any,
        prefixes: tuple[str, ...],
        call_next: Callable[[ServerContext, Any], Awaitable[Any]],
    ) -> Any:
        """Return the result of `call_next`, which handles a message of the lifecycle or a notification of the client.

        Args:
            name: The name of the handler.
            ctx: The context of the message, in the protocol version of the client.
            params: Its params, in that version.
            prefixes: The prefixes that the apps between the client and this provider add, the outermost first.
            call_next: Handles the message.
        """
        return await call_next(ctx, params)

    def provides(self, kind: str) -> bool:
        """Return True if the class overrides a method for a kind: "tools", "resources", "prompts" or "completions"."""
        names = {"resources": ("list_resources", "list_resource_templates"), "completions": ("complete",)}
        return any(
            getattr(type(self), name) is not getattr(Provider, name) for name in names.get(kind, (f"list_{kind}",))
        )
