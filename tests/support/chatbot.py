"""What the tests of the chatbot example share: its modules, servers to talk to, and a model that follows a script."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from client import run
from model import Call, Message, Reply, Tool
from servers import Launch

from support.project import ROOT

EXAMPLE = ROOT / "examples" / "chatbot"
CHATBOT = [sys.executable, str(EXAMPLE / "client.py")]
WEATHER = [sys.executable, str(ROOT / "examples" / "weather" / "server.py"), "stdio"]
ECHO = [sys.executable, str(ROOT / "examples" / "echo" / "server.py"), "stdio"]
DEADLINE = 30.0
# The environment of the program: without a key of a model.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}

# A server with a tool that dies, one whose name the weather server has too, and content of every kind.
ODD = """
import os, sys
from mcp_generated.v2025_03_26 import Server, types as t

class Odd(Server):
    async def list_tools(self, ctx, params):
        names = ["get_alerts", "everything", "die"]
        return t.ListToolsResult(tools=[t.Tool(name=name, input_schema=t.ToolInputSchema()) for name in names])

    async def call_tool(self, ctx, params):
        if params.name == "die":
            os._exit(3)
        if params.name == "get_alerts":
            return t.CallToolResult(content=[t.TextContent(text="odd alerts \\x1b[2J")])
        return t.CallToolResult(content=[
            t.ImageContent(data="", mime_type="image/png"),
            t.AudioContent(data="", mime_type="audio/wav"),
            t.EmbeddedResource(resource=t.TextResourceContents(uri="x:1", text="inside")),
            t.EmbeddedResource(resource=t.BlobResourceContents(uri="x:2", blob="")),
        ])

print("odd is starting", file=sys.stderr)
Odd(name="odd one", version="1").run("stdio")
"""
ODD_COMMAND = (sys.executable, "-c", ODD)
BROKEN = (sys.executable, "-c", "import sys; print('starting', file=sys.stderr); sys.exit('no database')")


class Scripted:
    """A model that says what it was told to, and keeps what it was given. An exception in the script is raised."""

    def __init__(self, *script: Reply | Exception) -> None:
        self._script = list(script)
        self.conversations: list[Sequence[Message]] = []
        self.tools: Sequence[Tool] = ()

    async def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        self.conversations.append(messages)
        self.tools = tools
        step = self._script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def calls(*requests: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    return Reply(text, tuple(Call(f"c{number}", *request) for number, request in enumerate(requests)))


def launch(command: Sequence[str], name: str | None = None, env: Mapping[str, str] | None = None) -> Launch:
    """The entry of a command."""
    return Launch({"command": command[0], "args": [*command[1:]], "env": dict(env or {})}, name)


async def lines(*texts: str) -> AsyncIterator[str]:
    for line in texts:
        yield line


def chat(launches: Sequence[Launch], model: Any, *typed: str, verbose: bool = False) -> tuple[int, list[str]]:
    """The exit code and what was said."""
    output: list[str] = []
    conversation = run(launches, model, lines(*typed), output.append, verbose)
    return asyncio.run(asyncio.wait_for(conversation, DEADLINE)), output


def within_deadline(conversation: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(conversation, DEADLINE))


def written(path: Path, servers: object) -> str:
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return str(path)


def converse(
    *arguments: str, typed: str = "", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What the program prints for what is typed."""
    env = {**ENVIRONMENT, "PYTHONIOENCODING": "utf-8", **environment}
    command = [*CHATBOT, *arguments]
    return subprocess.run(
        command, input=typed, capture_output=True, encoding="utf-8", timeout=DEADLINE, env=env, cwd=cwd
    )
