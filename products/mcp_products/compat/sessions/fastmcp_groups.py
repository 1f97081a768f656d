"""Several servers for FastMCP's client: `MCPConfig`, the configuration of a host, and `ClientGroup`, their clients."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, Unpack

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mcp_runtime.protocol.models import is_object

from . import fastmcp_client
from .fastmcp_client import CallKeywords, Client, ClientTransport


class StdioMCPServer(BaseModel):
    """A server that is started as a child process."""

    model_config = ConfigDict(extra="allow")

    command: str
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, Any] = Field(default_factory=dict[str, Any])
    cwd: str | None = None

    def to_transport(self) -> ClientTransport:
        """Return the transport of the server."""
        env = {key: str(item) for key, item in self.env.items()}
        return fastmcp_client.StdioTransport(self.command, self.args, env, self.cwd)


class RemoteMCPServer(BaseModel):
    """A server at a URL."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    url: str
    transport: str | None = None
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    auth: Any = None

    def to_transport(self) -> ClientTransport:
        """Return the transport of the server."""
        kind = self.transport or fastmcp_client.infer_transport_type_from_url(self.url)
        made = fastmcp_client.SSETransport if kind == "sse" else fastmcp_client.StreamableHttpTransport
        return made(self.url, self.headers, self.auth)


class MCPConfig(BaseModel):
    """The configuration of a host: its servers by their names."""

    model_config = ConfigDict(extra="allow")

    mcpServers: dict[str, StdioMCPServer | RemoteMCPServer] = {}  # noqa: N815

    @model_validator(mode="before")
    @classmethod
    def _wrap_servers_at_root(cls, values: Any) -> Any:
        """Return a configuration whose servers stand at its root with the key that they belong to."""
        if not is_object(values) or "mcpServers" in values:
            return values
        servers = {name: item for name, item in values.items() if is_object(item)}
        return {**{name: item for name, item in values.items() if name not in servers}, "mcpServers": servers}

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> Self:
        """Return a configuration. Raises ValidationError."""
        return cls.model_validate(config)

    @classmethod
    def from_file(cls, file_path: Path) -> Self:
        """Return the configuration of a JSON file, an empty one if there is none. Raises ValidationError."""
        text = file_path.read_text(encoding="utf-8").strip() if file_path.exists() else ""
        return cls.model_validate_json(text) if text else cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as JSON."""
        return self.model_dump(exclude_none=True, exclude_unset=True)

    def write_to_file(self, file_path: Path) -> None:
        """Write the configuration into a JSON file."""
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file_path.write_text(self.model_dump_json(indent=2, exclude_none=True, exclude_unset=True), encoding="utf-8")


@dataclass(frozen=True)
class ToolRoute:
    """The client that has a tool of a group, and the name of the tool there."""

    server_name: str
    client: Client[Any]
    upstream_name: str


class ClientGroup:
    """A client for each of several servers: `async with` connects them all. The name of a tool begins with that of its
    server."""

    def __init__(self, clients: Mapping[str, Client[Any]]) -> None:
        """Create a group. Raises ValueError without a client."""
        if not clients:
            raise ValueError("ClientGroup requires at least one client")
        self._clients = {**clients}
        self._stacks: list[AsyncExitStack] = []
        self._routes: dict[str, ToolRoute] | None = None

    @classmethod
    def from_config(cls, config: MCPConfig | Mapping[str, Any], *, default_mode: str = "auto") -> Self:
        """Return the group of a configuration; `default_mode` is the `mode` of each client without one of its own."""
        read = config if isinstance(config, MCPConfig) else MCPConfig.from_dict(config)
        return cls(
            {
                name: Client(item.to_transport(), name, mode=(item.model_extra or {}).get("mode", default_mode))
                for name, item in read.mcpServers.items()
            }
        )

    @property
    def clients(self) -> Mapping[str, Client[Any]]:
        """The clients by the names of their servers."""
        return MappingProxyType(self._clients)

    @property
    def protocol_versions(self) -> dict[str, str | None]:
        """The negotiated protocol versions by the names of the servers."""
        return {name: client.protocol_version for name, client in self._clients.items()}

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for client in self._clients.values():
                await stack.enter_async_context(client)
            self._stacks.append(stack.pop_all())
        return self

    async def __aexit__(self, *exception: Any) -> None:
        self._routes = self._routes if self._stacks[1:] else None
        await self._stacks.pop().__aexit__(*exception)

    async def list_tools(self, *, cache_mode: Any = None) -> list[Any]:
        """Return the tools of all servers; `cache_mode` has no effect. Raises ValueError for two of one name."""
        routes: dict[str, ToolRoute] = {}
        tools: list[Any] = []
        for server, client in self._clients.items():
            for tool in await client.list_tools():
                name = f"{server}_{tool.name}"
                if name in routes:
                    raise ValueError(f"Tool name collision: {name!r}")
                routes[name] = ToolRoute(server, client, tool.name)
                tools.append(tool.model_copy(update={"name": name}))
        self._routes = routes
        return tools

    async def resolve_tool(self, name: str) -> ToolRoute:
        """Return where a tool is. Raises KeyError for a name that was not listed last."""
        if self._routes is None:
            await self.list_tools()
        if (route := (self._routes or {}).get(name)) is None:
            raise KeyError(f"Unknown tool: {name!r}; list_tools() reads the lists of the servers again")
        return route

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, **options: Unpack[CallKeywords]
    ) -> fastmcp_client.CallToolResult:
        """Call a tool by its name in the group, as `Client.call_tool` does."""
        route = await self.resolve_tool(name)
        return await route.client.call_tool(route.upstream_name, arguments, **options)
