"""Start MCP servers of every protocol version, from command lines, URLs and configurations, and follow their tools."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from model import Call, Result, Tool
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from mcp_generated import MCPError, MultiClient
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t

START_SECONDS: Final = 20.0  # The time limit for a server to start and to list its tools.
CALL_SECONDS: Final = 60.0
_RUNNERS: Final = {".py": (sys.executable,), ".js": ("node",), ".jar": ("java", "-jar")}

Show = Callable[[str], None]
Confirm = Callable[[str], Awaitable[bool]]  # Shows a question to the user, and returns True for "yes".


@dataclass(frozen=True, slots=True)
class Launch:
    """One entry of a configuration, and its name in the chat. Default name: that of the server's information."""

    entry: Any
    name: str | None = None

    @property
    def label(self) -> str:
        """Return the name, or the URL or command line."""
        if self.name is not None:
            return self.name
        if "url" in self.entry:
            return str(self.entry["url"])
        return shlex.join([str(self.entry.get("command")), *map(str, self.entry.get("args", ()))])


@dataclass(slots=True)
class RunningServer:
    """A running server, and its tools as they are at present."""

    name: str
    client: Client
    tools: tuple[t.Tool, ...] = ()

    async def load_tools(self) -> None:
        """Request the list of tools."""
        self.tools = tuple({tool.name: tool async for tool in self.client.iter_tools()}.values())


# ---- what to start ---------------------------------------------------------------------------------------------------


class _Configuration(BaseModel):
    servers: dict[str, Any] = Field(validation_alias=AliasChoices("mcpServers", "servers"))


def parse_launches(arguments: Iterable[str]) -> list[Launch]:
    """Return the servers of the arguments: configurations (paths that end in .json), URLs, scripts and command lines.

    Raises ValueError with a one-line message.
    """
    launches: list[Launch] = []
    for argument in arguments:
        if argument.endswith(".json"):
            launches += _configured(Path(argument))
        elif argument.startswith(("http://", "https://")):
            launches.append(Launch({"url": argument}))
        else:
            program, *words = _command(argument)
            launches.append(Launch({"command": program, "args": words}))
    return launches


def _command(line: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise ValueError(f"{line!r} is not a command line: {error}") from None
    if not words:
        raise ValueError("an empty command line starts no server")
    runner = _RUNNERS.get(Path(words[0]).suffix, ()) if len(words) == 1 else ()
    return (*runner, *words)


def _configured(path: Path) -> list[Launch]:
    """Return the servers of a file such as claude_desktop_config.json. Its entries are checked when they start."""
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
        entries = _Configuration.model_validate(content).servers
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValidationError:
        raise ValueError(f"{str(path)!r} has no object 'mcpServers'") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is not JSON: {error}") from None
    return [Launch(entry, name) for name, entry in entries.items()]


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
            server.name = server.name if number == 1 else f"{server.name}-{number}"
            servers.append(server)
    return servers


async def _start(launch: Launch, closing: AsyncExitStack, show: Show, show_stderr: bool) -> RunningServer | None:
    def on_stderr(name: str, line: str) -> None:
        if show_stderr:
            show(f"[{name}] {line}")

    label = launch.label
    # The loader of configurations checks the entry, fills in environment variables, and chooses the transport.
    entries = {"mcpServers": {label or "?": launch.entry}}
    multi = MultiClient.from_config(entries, stderr=on_stderr, name="chatbot", version="1.0")
    for error in multi.errors.values():
        show(f"server {label!r} is left out: {error}")
    for client in multi.clients.values():
        try:
            async with asyncio.timeout(START_SECONDS):
                await closing.enter_async_context(client)
                server = RunningServer(launch.name or client.server.name or label, client)
                await _follow_tools(server, closing, show)
        except TimeoutError:
            show(f"server {label!r} is left out: it was not ready within {START_SECONDS:g} s")
        except MCPError as error:
            show(f"server {label!r} is left out: {_one_line(error)}")
        else:
            return server
        await client.close()
    return None


async def _follow_tools(server: RunningServer, closing: AsyncExitStack, show: Show) -> None:
    """Load the tools, and load them again when the server notifies that they have changed."""
    tools = server.client.server.capabilities.tools
    if tools is None:
        return
    if tools.list_changed:
        # Subscribe first: a change between the list and the subscription would be missed.
        changes = await closing.enter_async_context(server.client.listen(tool_list_changed=True))

        async def follow() -> None:
            try:
                async for _ in changes:
                    await server.load_tools()
                    show(f"[{server.name}: the tools have changed: {', '.join(tool.name for tool in server.tools)}]")
            except MCPError as error:
                show(f"[{server.name}: changes of its tools cannot be followed: {_one_line(error)}]")

        await server.load_tools()
        closing.callback(asyncio.create_task(follow()).cancel)
    else:
        await server.load_tools()


def _one_line(error: MCPError) -> str:
    """Return the error and, if the server wrote to standard error, the last line of it."""
    first, *more = str(error).splitlines() or [type(error).__name__]
    return f"{first} {more[-1].strip()}" if more else first


# ---- using -----------------------------------------------------------------------------------------------------------


class Toolbox:
    """The tools of all servers under unique names: a name that two servers have gets the server's name as a prefix."""

    def __init__(self, servers: Sequence[RunningServer], confirm: Confirm) -> None:
        self._servers = servers
        self._confirm = confirm

    @property
    def tools(self) -> list[Tool]:
        """The tools as they are at present, for a model."""
        return [
            Tool(name, tool.description or "", tool.input_schema.model_dump())
            for name, (_, tool) in self._named().items()
        ]

    async def run(self, calls: Sequence[Call]) -> list[Result]:
        """Run calls concurrently, and return their results. What a tool that acts would do is shown to the user first.

        An error is a result too, because a model can often correct it.
        """
        named = self._named()
        allowed = [await self._is_allowed(call, named) for call in calls]
        return list(
            await asyncio.gather(
                *(_run(call, named, is_allowed) for call, is_allowed in zip(calls, allowed, strict=True))
            )
        )

    async def _is_allowed(self, call: Call, named: Mapping[str, tuple[RunningServer, t.Tool]]) -> bool:
        """Let the user decide, unless the tool only reads. A tool without hints may do anything.

        The hints are those of the server: start only servers that you trust.
        """
        if call.tool not in named:
            return True  # Nothing is called.
        server, tool = named[call.tool]
        if tool.hints.read_only:
            return True
        effect = "may change or delete things" if tool.hints.destructive else "adds things"
        return await self._confirm(f"{tool.name} of {server.name} {effect}. Run it? [y/N]")

    def _named(self) -> dict[str, tuple[RunningServer, t.Tool]]:
        shared = Counter(tool.name for server in self._servers for tool in server.tools)
        used = {name for name, count in shared.items() if count == 1}
        named: dict[str, tuple[RunningServer, t.Tool]] = {}
        for server in self._servers:
            for tool in server.tools:
                name = tool.name
                if shared[name] > 1:
                    name = _unused(_prefixed(server.name, name), used)
                    used.add(name)
                named[name] = server, tool
        return named


async def _run(call: Call, named: Mapping[str, tuple[RunningServer, t.Tool]], is_allowed: bool) -> Result:
    if call.tool not in named:
        return Result(call.id, f"There is no tool called {call.tool!r}.", failed=True)
    if not is_allowed:
        return Result(call.id, "The user did not allow this call.", failed=True)
    server, tool = named[call.tool]
    try:
        result = await server.client.call_tool(tool.name, call.arguments, timeout=CALL_SECONDS)
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
        case t.ResourceLink():
            return f"[link: {content.uri}]"
