"""`ClientSessionGroup` of the official SDK: the sessions of several servers, and all that they have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, Unpack

from mcp_products.app.components.kinds import LISTS, ListKind

from ..forms.errors import McpError
from ..forms.form import FORM, Seconds, field_of
from ..transports import StdioServerParameters, sse_client, stdio_client, streamablehttp_client
from .client_session import Callback, ClientSession, ToolCallKeywords


@dataclass
class SseServerParameters:
    """How a server with HTTP+SSE is reached; see `sse_client`."""

    url: str
    headers: dict[str, Any] | None = None
    timeout: float = 5.0
    sse_read_timeout: float = 300.0


@dataclass
class StreamableHttpParameters:
    """How a server at a URL is reached; see `streamablehttp_client`."""

    url: str
    headers: dict[str, Any] | None = None
    timeout: Seconds = timedelta(seconds=30)
    sse_read_timeout: Seconds = timedelta(seconds=300)
    terminate_on_close: bool = True


@dataclass
class ClientSessionParameters:
    """The keywords of a `ClientSession`."""

    read_timeout_seconds: Seconds = None
    sampling_callback: Callback | None = None
    elicitation_callback: Callback | None = None
    list_roots_callback: Callback | None = None
    logging_callback: Callback | None = None
    message_handler: Callback | None = None
    client_info: Any = None


class ClientSessionGroup:
    """The sessions of several servers. `tools`, `resources` and `prompts` are those of all, by their names."""

    def __init__(self, exit_stack: AsyncExitStack | None = None, component_name_hook: Callable[..., str] | None = None):
        """Create a group.

        Args:
            exit_stack: Closes the connections; by default the group does.
            component_name_hook: Returns the name of a component from its own and the `Implementation` of its server.
        """
        self._stack = exit_stack or AsyncExitStack()
        self._owns_stack = exit_stack is None
        self._name_hook = component_name_hook
        self._stacks: dict[ClientSession, AsyncExitStack] = {}
        self._owners: dict[tuple[ListKind, str], ClientSession] = {}
        self.tools: dict[str, Any] = {}
        self.resources: dict[str, Any] = {}
        self.prompts: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for session in [*self._stacks]:
            await self.disconnect_from_server(session)
        if self._owns_stack:
            await self._stack.aclose()

    @property
    def sessions(self) -> list[ClientSession]:
        """The sessions."""
        return [*self._stacks]

    async def connect_to_server(
        self,
        server_params: StdioServerParameters | SseServerParameters | StreamableHttpParameters,
        session_params: ClientSessionParameters | None = None,
    ) -> ClientSession:
        """Connect to a server, and return its session. Raises McpError for a name that another server has."""
        async with AsyncExitStack() as stack:
            if isinstance(server_params, StdioServerParameters):
                streams: Any = stdio_client(server_params)
            else:
                connect: Any = sse_client if isinstance(server_params, SseServerParameters) else streamablehttp_client
                streams = connect(**vars(server_params))
            read, write, *_ = await stack.enter_async_context(streams)
            session = ClientSession(read, write, **vars(session_params or ClientSessionParameters()))
            await stack.enter_async_context(session)
            result = await session.initialize()
            await self.connect_with_session(field_of(result, "server_info"), session)
            self._stacks[session] = stack.pop_all()
        return session

    async def connect_with_session(self, server_info: Any, session: ClientSession) -> ClientSession:
        """Add what the server of a session has. Raises McpError for a name that another server has."""
        found: dict[tuple[ListKind, str], Any] = {}
        for kind in LISTS:
            if getattr(session.server_capabilities, kind, None) is None:
                continue
            for item in getattr(await getattr(session, f"list_{kind}")(), kind):
                name = item.name if self._name_hook is None else self._name_hook(item.name, server_info)
                if name in getattr(self, kind):
                    raise McpError(FORM.types.INVALID_PARAMS, f"{kind}: {name!r} is the name of another server's too")
                found[kind, name] = item
        for (kind, name), item in found.items():
            getattr(self, kind)[name] = item
            self._owners[kind, name] = session
        self._stacks.setdefault(session, AsyncExitStack())
        return session

    async def disconnect_from_server(self, session: ClientSession) -> None:
        """Close a session, and remove what its server has. Raises McpError for a session of no server of the group."""
        if session not in self._stacks:
            raise McpError(FORM.types.INVALID_PARAMS, "Provided session is not managed or already disconnected.")
        for kind, name in [key for key, owner in self._owners.items() if owner is session]:
            del getattr(self, kind)[name], self._owners[kind, name]
        await self._stacks.pop(session).aclose()

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, **options: Unpack[ToolCallKeywords]
    ) -> Any:
        """Call a tool of the server that has it."""
        return await self._owners["tools", name].call_tool(self.tools[name].name, arguments, **options)
