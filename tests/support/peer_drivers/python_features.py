"""Use the app with all features with the official Python SDK or with FastMCP's client, and print what it received.

The argument is "mcp" or "fastmcp". The runs as JSON are read from standard input: a revision, a server's command or its
URL, and steps. It runs in an environment with that package.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp
import mcp.types as types
from mcp import ClientSession
from python_sdk import connected, offer, uri

NEWEST = "2026-07-28"
LIMIT, WAIT = 100.0, 10.0  # Seconds for one run, and for one notification.


class Peer:
    """What the server requests and sends."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.changes: list[str] = []
        self.progress: list[Any] = []
        self.more = anyio.Event()

    async def sample(self, context: Any, params: Any) -> Any:
        """Repeat the last text in capital letters, or return a value of a type."""
        return types.CreateMessageResult.model_validate(
            {"role": "assistant", "content": {"type": "text", "text": self.written(params)}, "model": "parrot"}
        )

    @staticmethod
    def written(params: Any) -> str:
        """Return what the model writes."""
        prompt = getattr(params, "system_prompt", None) or getattr(params, "systemPrompt", None)
        return '{"good": true}' if '"good"' in str(prompt) else params.messages[-1].content.text.upper()

    async def elicit(self, context: Any, params: Any) -> Any:
        """Fill a form in, visit a URL, or decline."""
        if "decline" in params.message:
            return types.ElicitResult(action="decline")
        if getattr(params, "mode", None) == "url":
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"name": "Ada", "guests": 3})

    async def roots(self, context: Any) -> Any:
        """Return a root."""
        return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///work", "name": "work"}]})

    async def log(self, params: Any) -> None:
        """Note a log message."""
        self.logs.append([params.level, params.data, params.logger])

    async def message(self, message: Any) -> None:
        """Note a change."""
        method = getattr(getattr(message, "root", message), "method", "")
        if method.endswith("/list_changed"):
            self.changes.append(method.split("/")[1])
            self.more.set()

    async def on_progress(self, value: float, total: float | None, message: str | None) -> None:
        """Note progress."""
        self.progress.append([value, total, message])

    @asynccontextmanager
    async def noted(self, client: Any, expected: list[str]) -> Any:
        """Wait for the changes of these lists."""
        if expected and hasattr(client, "listen") and getattr(client, "protocol_version", "") == NEWEST:
            kinds = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")
            async with client.listen(**dict.fromkeys(kinds, True)) as events:
                yield
                with anyio.fail_after(WAIT):
                    while not {*expected} <= {*self.changes}:
                        self.changes.append(type(await anext(events)).__name__.removesuffix("ListChanged").lower())
            return
        yield
        with anyio.fail_after(WAIT):
            while not {*expected} <= {*self.changes}:
                self.more = anyio.Event()
                await self.more.wait()


@asynccontextmanager
async def official(revision: str, server: list[str], peer: Peer) -> Any:
    """Connect a client of the official SDK."""
    settings: Any = {
        "sampling_callback": peer.sample,
        "elicitation_callback": peer.elicit,
        "list_roots_callback": peer.roots,
        "logging_callback": peer.log,
        "message_handler": peer.message,
    }
    async with AsyncExitStack() as stack:
        if revision == NEWEST:
            command, *arguments = server
            target: Any = mcp.StdioServerParameters(command=command, args=arguments) if arguments else command
            client = await stack.enter_async_context(mcp.Client(target, **settings))
            yield client, client.server_info
        else:
            streams = await stack.enter_async_context(connected(server))
            session = await stack.enter_async_context(ClientSession(*streams, **settings))
            started: Any = await session.initialize()
            yield session, getattr(started, "server_info", None) or started.serverInfo


@asynccontextmanager
async def fastmcp(revision: str, server: list[str], peer: Peer) -> Any:
    """Connect FastMCP's client."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return await peer.elicit(context, params)

    async def sample(messages: Any, params: Any, context: Any) -> str:
        return peer.written(params)

    command, *arguments = server
    async with Client(
        StdioTransport(command, arguments) if arguments else command,
        mode="auto" if revision == NEWEST else "legacy",
        elicitation_handler=elicit,
        sampling_handler=sample,
        roots=["file:///work"],
        log_handler=peer.log,
        message_handler=peer.message,
    ) as client:
        assert client.protocol_version == revision, client.protocol_version
        yield client, client.server_info


def wire(value: Any) -> Any:
    """Return a value as it is on the wire."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


async def done(client: Any, info: Any, step: dict[str, Any], peer: Peer) -> Any:
    """Return the result of a step as JSON."""
    is_fastmcp = hasattr(client, "call_tool_mcp")
    match step["op"]:
        case "call":
            on_progress = peer.on_progress if step.get("progress") else None
            keyword = "progress_handler" if is_fastmcp else "progress_callback"
            call = client.call_tool_mcp if is_fastmcp else client.call_tool
            return wire(await call(step["name"], step["arguments"], meta=step["meta"], **{keyword: on_progress}))
        case "read":
            read = client.read_resource_mcp if is_fastmcp else client.read_resource
            return wire(await read(uri(step["uri"])))
        case "prompt":
            get = client.get_prompt_mcp if is_fastmcp else client.get_prompt
            return wire(await get(step["name"], step["arguments"]))
        case "complete":
            complete = client.complete_mcp if is_fastmcp else client.complete
            ref = types.PromptReference(type="ref/prompt", name=step["prompt"])
            return wire(await complete(ref, {"name": step["name"], "value": step["value"]}))["completion"]
        case "server":
            return wire(info)
        case kind:
            name, field = {"templates": ("resource_templates", "resourceTemplates")}.get(kind, (kind, kind))
            listing = getattr(client, f"list_{name}_mcp" if is_fastmcp else f"list_{name}")
            fresh = {"cache_mode": "bypass"} if step.get("fresh") and hasattr(client, "listen") else {}
            return wire(await listing(**fresh))[field]


async def outcome(client: Any, info: Any, step: dict[str, Any], peer: Peer) -> dict[str, Any]:
    """Return what the client receives for a step: a result or an error, log messages, progress and changes."""
    for noted in (peer.logs, peer.progress, peer.changes):
        noted.clear()
    try:
        async with peer.noted(client, step.get("changes", [])):
            result = await done(client, info, step, peer)
            with anyio.fail_after(WAIT):
                while len(peer.logs) < step.get("logs", 0):
                    await anyio.sleep(0.001)
    except Exception as error:
        data = getattr(error, "error", None)
        return {"error": wire(data) if data is not None else {"message": f"{type(error).__name__}: {error}"}}
    noted_lists = {"logs": peer.logs, "progress": peer.progress, "changes": peer.changes}
    return {"result": result, **{name: list(items) for name, items in noted_lists.items()}}


async def outcomes_of(package: str, run: dict[str, Any]) -> Any:
    """Return the outcomes of the steps of a run, or why there are none."""
    peer, revision = Peer(), run["revision"]
    if revision != NEWEST:
        offer(revision)
    try:
        with anyio.fail_after(LIMIT):
            async with (fastmcp if package == "fastmcp" else official)(revision, run["server"], peer) as (client, info):
                return [await outcome(client, info, step, peer) for step in run["steps"]]
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


async def main(package: str) -> None:
    """Print the outcomes of all runs."""
    runs = json.load(sys.stdin)
    print(json.dumps([await outcomes_of(package, run) for run in runs]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable()
    anyio.run(main, sys.argv[1])
