"""Start MCP servers from command lines and configurations, and collect their tools."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from model import Call, Result, Tool
from pydantic import BaseModel, Field, ValidationError

from mcp_generated import MCPError
from mcp_generated.v2025_03_26 import Client
from mcp_generated.v2025_03_26 import types as t

START_SECONDS: Final = 20.0  # The time limit for a server to start and to list its tools.
CALL_SECONDS: Final = 60.0

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of a server, its name in the chat, and its environment. Default name: that of its `serverInfo`."""

    command: tuple[str, ...]
    name: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def label(self) -> str:
        """Return the name, or the command line."""
        return self.name or shlex.join(self.command)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running server, and its tools."""

    name: str
    client: Client
    tools: tuple[t.Tool, ...]


# ---- what to start ---------------------------------------------------------------------------------------------------


class _Entry(BaseModel):
    command: str = Field(min_length=1)
    args: list[str] = []
    env: dict[str, str] = {}


class _Configuration(BaseModel):
    servers: dict[str, object] = Field(alias="mcpServers")


def parse_launches(arguments: Iterable[str], show: Show) -> list[Launch]:
    """Return the servers of the arguments: configurations (paths that end in .json), scripts and command lines.

    Invalid entries of a configuration are reported and skipped. Raises ValueError with a one-line message.
    """
    launches: list[Launch] = []
    for argument in arguments:
        if argument.endswith(".json"):
            launches += _configured(Path(argument), show)
        else:
            launches.append(Launch(_command(argument)))
    return launches


def _command(line: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise ValueError(f"{line!r} is not a command line: {error}") from None
    match words:
        case ():
            raise ValueError("an empty command line starts no server")
        case (script,) if script.endswith(".py"):
            return sys.executable, script
        case (script,) if script.endswith(".js"):
            return "node", script
        case _:
            return words


def _configured(path: Path, show: Show) -> list[Launch]:
    """Return the servers of a file such as claude_desktop_config.json."""
    try:
        servers = _Configuration.model_validate(json.loads(path.read_bytes())).servers
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValidationError:
        raise ValueError(f"{str(path)!r} has no object 'mcpServers'") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is not JSON: {error}") from None
    launches: list[Launch] = []
    for name, value in servers.items():
        try:
            entry = _Entry.model_validate(value, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the entry"
            show(f"server {name!r} is left out: in {str(path)!r}, {where}: {first['msg']}")
        else:
            launches.append(Launch((entry.command, *entry.args), name, entry.env))
    return launches


# ---- starting --------------------------------------------------------------------------------------------------------


async def start_servers(
    launches: Sequence[Launch], closing: AsyncExitStack, show: Show, show_stderr: bool
) -> list[RunningServer]:
    """Start the servers concurrently, and report the ones that fail. `closing` ends them."""
    started = await asyncio.gather(*(_start(launch, closing, show, show_stderr) for launch in launches))
    names: Counter[str] = Counter()
    servers: list[RunningServer] = []
    for server in started:
        if server is not None:
            names[server.name] += 1
            number = names[server.name]
            name = server.name if number == 1 else f"{server.name}-{number}"
            servers.append(RunningServer(name, server.client, server.tools))
    return servers


async def _start(launch: Launch, closing: AsyncExitStack, show: Show, show_stderr: bool) -> RunningServer | None:
    def on_stderr(line: str) -> None:
        if show_stderr:
            show(f"[{launch.label}] {line}")

    client = Client.stdio(*launch.command, env=launch.env, stderr=on_stderr, name="chatbot", version="1.0")
    try:
        async with asyncio.timeout(START_SECONDS):
            await closing.enter_async_context(client)
            initialized = client.server
            assert isinstance(initialized, t.InitializeResult), "a 2025-03-26 server responds to initialize"
            has_tools = initialized.capabilities.tools is not None
            tools = {tool.name: tool async for tool in client.iter_tools()} if has_tools else {}
    except TimeoutError:
        show(f"server {launch.label!r} is left out: it was not ready within {START_SECONDS:g} s")
    except MCPError as error:
        show(f"server {launch.label!r} is left out: {_one_line(error)}")
    else:
        return RunningServer(launch.name or initialized.server_info.name, client, tuple(tools.values()))
    await client.close()
    return None


def _one_line(error: MCPError) -> str:
    """Return the error and, if the server wrote to standard error, the last line of it."""
    first, *more = str(error).splitlines() or [type(error).__name__]
    return f"{first} {more[-1].strip()}" if more else first


# ---- using -----------------------------------------------------------------------------------------------------------


class Toolbox:
    """The tools of all servers under unique names: a name that two servers have gets the server's name as a prefix."""

    def __init__(self, servers: Sequence[RunningServer]) -> None:
        shared = Counter(tool.name for server in servers for tool in server.tools)
        used = {name for name, count in shared.items() if count == 1}
        self._origins: dict[str, tuple[Client, str]] = {}
        self.tools: list[Tool] = []
        for server in servers:
            for tool in server.tools:
                name = tool.name
                if shared[name] > 1:
                    name = _unused(_prefixed(server.name, name), used)
                    used.add(name)
                self._origins[name] = server.client, tool.name
                self.tools.append(Tool(name, tool.description or "", tool.input_schema.model_dump()))

    async def run(self, call: Call) -> Result:
        """Run a call. An error is a result too, because a model can often correct it."""
        if call.tool not in self._origins:
            return Result(call.id, f"There is no tool called {call.tool!r}.", failed=True)
        client, name = self._origins[call.tool]
        try:
            result = await client.call_tool(name, call.arguments, timeout=CALL_SECONDS)
        except MCPError as error:
            return Result(call.id, _one_line(error), failed=True)
        return Result(call.id, "\n".join(map(_text, result.content)), failed=bool(result.is_error))


def _prefixed(server: str, tool: str) -> str:
    # Models accept few characters in the names of tools.
    return f"{re.sub('[^A-Za-z0-9_-]', '_', server)}__{tool}"


def _unused(name: str, used: set[str]) -> str:
    number, free = 1, name
    while free in used:
        number += 1
        free = f"{name}-{number}"
    return free


def _text(content: t.ContentBlock) -> str:
    match content:
        case t.TextContent():
            return content.text
        case t.ImageContent() | t.AudioContent():
            return f"[{content.type}: {content.mime_type}]"
        case t.EmbeddedResource(resource=t.TextResourceContents() as resource):
            return resource.text
        case t.EmbeddedResource():
            return f"[resource: {content.resource.uri}]"
