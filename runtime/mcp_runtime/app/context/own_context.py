"""The context of an app's functions: the tools, resources and prompts of the app itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from .input_context import InputContext

if TYPE_CHECKING:
    from .own_requests import ResourceContentList


class OwnContext(InputContext):
    """The context of a handler that reads resources of its own app, and lists what the app has."""

    request_values: dict[str, Any] | None = None
    """The values of `set_state` that last for this request."""

    @property
    def fastmcp(self) -> Any:
        """The app; another name of `app`."""
        return self.app

    @property
    def mcp_server(self) -> Any:
        """The app; another name of `app`."""
        return self.app

    @property
    def app(self) -> Any:
        """The app that serves the request; the outermost one if it is mounted."""
        return self._served.app

    @property
    def _served(self) -> Any:
        """The server object of the app."""
        return self._connection_state.origin

    def nested(self) -> Self:
        """Return a context for a request of this function to its own app."""
        nested = type(self)(self._connection_state, self._channel, self._message)
        nested._mrtr = self._mrtr
        nested.request_values = self.request_values
        return nested

    async def read_resource(self, uri: Any) -> ResourceContentList:
        """Read a resource of this app; the items have `content` (text or bytes) and `mime_type`.

        Raises JSONRPCError if there is none at the URI.
        """
        from .own_requests import read_resource

        return await read_resource(self, str(uri))

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Any:
        """Return the GetPromptResult of a prompt of this app. Raises JSONRPCError if there is none with the name."""
        from .own_requests import own_request

        return await own_request(self, "get_prompt", {"name": name, "arguments": dict(arguments or {})})

    async def list_tools(self) -> list[Any]:
        """Return the definitions of the tools that this client may call."""
        from .own_requests import own_items

        return await own_items(self, "list_tools", "tools")

    async def list_resources(self) -> list[Any]:
        """Return the definitions of the resources that this client may read."""
        from .own_requests import own_items

        return await own_items(self, "list_resources", "resources")

    async def list_resource_templates(self) -> list[Any]:
        """Return the definitions of the resource templates that this client may use."""
        from .own_requests import own_items

        return await own_items(self, "list_resource_templates", "resource_templates")

    async def list_prompts(self) -> list[Any]:
        """Return the definitions of the prompts that this client may get."""
        from .own_requests import own_items

        return await own_items(self, "list_prompts", "prompts")
