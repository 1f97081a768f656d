"""Command lines and configurations of servers go in, open conversations with them and a box of their tools come out."""

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

from mcp_generated.v2025_03_26 import Client
from mcp_generated.v2025_03_26 import types as t
from mcp_runtime.errors import MCPError
from mcp_runtime.session.options import RequestOptions
from model import Call, Result, Tool
from pydantic import BaseModel, Field, ValidationError

PATIENCE: Final = 20.0  # Seconds a server gets to start and to list its tools.
CALL: Final = RequestOptions(timeout=60.0)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started, and what it is called here; without a name, it is called what it calls itself."""

    command: tuple[str, ...]
    name: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def label(self) -> str:
        return self.name or shlex.join(self.command)


@dataclass(frozen=True, slots=True)
class Opened:
    """A server that is running, and its tools."""

    name: str
    client: Client
    tools: tuple[t.Tool, ...]


# ---- what to start ------------------------------------------------------------------------------------------------------


class _Entry(BaseModel):
    command: str = Field(min_length=1)
    args: list[str] = []
    env: dict[str, str] = {}


class _Configuration(BaseModel):
    servers: dict[str, object] = Field(alias="mcpServers")


def launches(arguments: Iterable[str], say: Say) -> list[Launch]:
    """What the arguments name: each is a configuration (a path that ends in .json), a script or a command line.

    An entry of a configuration that cannot be one is said and left out. Raises ValueError with one clear line.
    """
    found: list[Launch] = []
    for argument in arguments:
        if argument.endswith(".json"):
            found += _configured(Path(argument), say)
        else:
            found.append(Launch(_command(argument)))
    return found


def _command(line: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(line))
    except ValueError as fault:
        raise ValueError(f"{line!r} is not a command line: {fault}") from None
    match words:
        case ():
            raise ValueError("an empty command line starts no server")
        case (script,) if script.endswith(".py"):
            return sys.executable, script
        case (script,) if script.endswith(".js"):
            return "node", script
        case _:
            return words


def _configured(path: Path, say: Say) -> list[Launch]:
    """The servers of a file such as claude_desktop_config.json."""
    try:
        servers = _Configuration.model_validate(json.loads(path.read_bytes())).servers
    except OSError as fault:
        raise ValueError(f"{str(path)!r} cannot be read: {fault.strerror}") from None
    except ValidationError:
        raise ValueError(f"{str(path)!r} has no object 'mcpServers'") from None
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{str(path)!r} is not JSON: {fault}") from None
    found: list[Launch] = []
    for name, given in servers.items():
        try:
            entry = _Entry.model_validate(given, strict=True)
        except ValidationError as fault:
            first = fault.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the entry"
            say(f"server {name!r} is left out: in {str(path)!r}, {where}: {first['msg']}")
        else:
            found.append(Launch((entry.command, *entry.args), name, entry.env))
    return found


# ---- starting -----------------------------------------------------------------------------------------------------------


async def opened(wanted: Sequence[Launch], closing: AsyncExitStack, say: Say, show_stderr: bool) -> list[Opened]:
    """Start the servers side by side; one that fails is said in a line, and harms no other. `closing` ends them."""
    tried = await asyncio.gather(*(_open(each, closing, say, show_stderr) for each in wanted))
    running = [each for each in tried if each is not None]
    taken: Counter[str] = Counter()
    found: list[Opened] = []
    for each in running:
        taken[each.name] += 1
        again = taken[each.name]
        found.append(each if again == 1 else Opened(f"{each.name}-{again}", each.client, each.tools))
    return found


async def _open(launch: Launch, closing: AsyncExitStack, say: Say, show_stderr: bool) -> Opened | None:
    def on_stderr(line: str) -> None:
        if show_stderr:
            say(f"[{launch.label}] {line}")

    client = Client.stdio(*launch.command, env=launch.env, stderr=on_stderr, name="chatbot", version="1.0")
    try:
        async with asyncio.timeout(PATIENCE):
            await closing.enter_async_context(client)
            about = client.server
            assert isinstance(about, t.InitializeResult), "a conversation of this revision opens with a handshake"
            offers = about.capabilities.tools is not None
            tools = {tool.name: tool async for tool in client.iter_tools()} if offers else {}
    except TimeoutError:
        say(f"server {launch.label!r} is left out: it was not ready within {PATIENCE:g} s")
    except MCPError as fault:
        say(f"server {launch.label!r} is left out: {_in_one_line(fault)}")
    else:
        return Opened(launch.name or about.server_info.name, client, tuple(tools.values()))
    await client.close()
    return None


def _in_one_line(fault: MCPError) -> str:
    """What failed and, where the server left last words, the last of them."""
    first, *more = str(fault).splitlines() or [type(fault).__name__]
    return f"{first} {more[-1].strip()}" if more else first


# ---- using --------------------------------------------------------------------------------------------------------------


class Toolbox:
    """The tools of all servers, each under a name of its own: where two share one, the server's name goes before it."""

    def __init__(self, servers: Sequence[Opened]) -> None:
        shared = Counter(tool.name for server in servers for tool in server.tools)
        taken = {name for name, servers_with_it in shared.items() if servers_with_it == 1}
        self._homes: dict[str, tuple[Client, str]] = {}
        self.tools: list[Tool] = []
        for server in servers:
            for tool in server.tools:
                name = tool.name
                if shared[name] > 1:
                    name = _untaken(_prefixed(server.name, name), taken)
                    taken.add(name)
                self._homes[name] = server.client, tool.name
                self.tools.append(Tool(name, tool.description or "", tool.input_schema.model_dump()))

    async def run(self, call: Call) -> Result:
        """What a call gives. Whatever goes wrong is a result too, because the model can often mend it."""
        if call.tool not in self._homes:
            return Result(call.id, f"There is no tool called {call.tool!r}.", failed=True)
        client, name = self._homes[call.tool]
        try:
            given = await client.call_tool(name=name, arguments=call.arguments, options=CALL)
        except MCPError as fault:
            return Result(call.id, _in_one_line(fault), failed=True)
        return Result(call.id, "\n".join(map(_text, given.content)), failed=bool(given.is_error))


def _prefixed(server: str, tool: str) -> str:
    # Models take few characters in the names of tools.
    return f"{re.sub('[^A-Za-z0-9_-]', '_', server)}__{tool}"


def _untaken(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
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
